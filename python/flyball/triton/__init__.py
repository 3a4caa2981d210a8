"""Serves model repositories in Triton's layout, and reports every configuration field that does not map."""
