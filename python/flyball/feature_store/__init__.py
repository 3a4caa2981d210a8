"""Fills and inspects feature stores. Rust reads them during requests.

Must not know decisions nor the command line.
"""
