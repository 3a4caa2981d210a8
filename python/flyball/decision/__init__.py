"""Decisions: specs, compiling, fitting, local runs and scoring. Only the Rust side evaluates them."""
