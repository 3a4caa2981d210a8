"""`make claim-tails`: the measured promises about tails, one module per topic, each with `measure(stand)` and its bars."""
