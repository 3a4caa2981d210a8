"""`make claim-registry`: the registry's promises, measured on this machine."""
