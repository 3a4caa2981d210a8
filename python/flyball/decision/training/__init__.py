"""Training rows as serving sees them, and parameters fitted on them."""
