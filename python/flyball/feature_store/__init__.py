"""Stores of features: filled from files of rows, and looked at. What reads them while a request waits is Rust.

Must not know decisions nor the command line.
"""
