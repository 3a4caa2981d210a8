"""The registry: versions, signatures, approvals and placements as an append-only chain of events.

Its tables are a fold of the events and can be rebuilt. Must not know the command line, servers or HTTP.
"""
