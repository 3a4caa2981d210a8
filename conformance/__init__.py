"""The conformance run: third-party clients drive flyballd, and a page lists what passed. Knows nothing of its insides."""
