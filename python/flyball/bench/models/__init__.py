"""Seeded models for the demo, the claims and the benchmarks, identical on every machine.

Needs the extra: pip install 'flyball[demo]'. Must not know servers.
"""
