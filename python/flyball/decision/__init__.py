"""Decisions: written, compiled, fitted, run in this process and scored. What they mean is evaluated in Rust alone."""
