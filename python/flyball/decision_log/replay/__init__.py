"""Recorded decisions made again: by what made them, by a candidate, or with other values."""
