"""Converts, optimises, compares, explains and profiles trained models. Must not know the registry or the command line."""
