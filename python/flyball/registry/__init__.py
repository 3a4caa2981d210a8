"""The registry: what was registered, signed, approved and placed, by whom and why, as an append-only chain of events.

State is a fold of the events; its tables can be thrown away and built anew. Must not know the command line, servers or HTTP.
"""
