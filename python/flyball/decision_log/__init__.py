"""Reads the decision log: typed records, queries, proofs. The data plane writes it.

Must not know the command line.
"""
