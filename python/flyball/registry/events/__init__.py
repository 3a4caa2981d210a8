"""The events, which are the truth: their kinds, chain, fold and verification."""
