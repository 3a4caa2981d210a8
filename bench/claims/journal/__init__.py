"""`make claim-journal`: the measured promises of the decision journal, one module for each topic."""
