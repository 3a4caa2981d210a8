"""`make claim-decisions`: the measured promises of governed decisions, one module for each topic."""
