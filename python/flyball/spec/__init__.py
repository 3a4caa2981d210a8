"""Decisions as their authors write them, in YAML or in Python: `Decision`, its parts, and how they compile."""
