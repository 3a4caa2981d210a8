"""Replay of recorded decisions: as they were, by a candidate, or with other values."""
