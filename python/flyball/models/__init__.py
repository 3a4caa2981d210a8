"""Trained models: converted, optimised, compared, explained and profiled. Must not know the registry or the command line."""
