"""Training rows as serving would see them, and parameters fitted on them."""
