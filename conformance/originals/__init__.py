"""Triton's own test suites and client examples, run unmodified against `flyball serve`. None of their text is here."""
