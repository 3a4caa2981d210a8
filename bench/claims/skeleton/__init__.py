"""`make claim-skeleton`: the measured promises of the walking skeleton."""
