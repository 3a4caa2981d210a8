"""The decision log, read: typed records, queries, proofs. Writing it is the data plane's.

Must not know the command line.
"""
