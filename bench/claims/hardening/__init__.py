"""Hardening claims: faults found by attack or in use, tried again in every run."""
