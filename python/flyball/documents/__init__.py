"""Documents that people and planes exchange: the configuration, the Snapshot, and what checks, reads and writes documents.

Must not know who serves or shows them.
"""
