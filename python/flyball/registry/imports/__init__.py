"""Models that come from elsewhere: found there, judged, and kept as versions of a registry with where they came from."""
