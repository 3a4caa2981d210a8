"""The claims about converting and optimising models: `make claim-convert`."""
