"""One numbered file per change of the tables."""
