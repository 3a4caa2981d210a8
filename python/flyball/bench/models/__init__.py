"""Models that the demo, the claims and the benchmarks serve; all seeded, so that two machines measure the same.

Needs the extra: pip install 'flyball[demo]'. Must not know servers.
"""
