"""Proofs of the promises in docs/claims.md: one module for each `make claim-*`."""
