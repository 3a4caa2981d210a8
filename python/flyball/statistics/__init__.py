"""Confidence intervals and resampling. Must not know what was measured."""
