"""`make claim-compat`: Triton's own suites against flyball, as claims. The suites are run by `conformance.originals`."""
