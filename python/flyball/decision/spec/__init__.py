"""Decisions as their authors write them, in YAML or in Python: `Spec` and its parts."""
