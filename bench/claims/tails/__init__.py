"""`make claim-tails`: the measured promises about tails, one module a topic. Each has `measure(stand)` and its bars."""
