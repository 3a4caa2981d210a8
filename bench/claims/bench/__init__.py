"""`make claim-bench`: the measured promises of the benchmark itself."""
