"""Intervals and resampling: how sure a figure is. Must not know what was measured."""
