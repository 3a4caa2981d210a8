"""A registry behind HTTP."""
