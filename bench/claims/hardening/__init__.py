"""Hardening claims: faults that were found by attack and by use, each attempted again on every run."""
