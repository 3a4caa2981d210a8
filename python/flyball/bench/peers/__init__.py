"""Other servers of the same model, written as their users would, and run as separate processes."""
