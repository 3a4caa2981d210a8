"""Keys, signatures and what they stand for: packages, releases, the trust policy, the Snapshot's index.

Needs `cryptography` and nothing else of the registry. Must not know where packages lie, who may do what in the registry,
or how anything is served: it is given bytes, folders and the time, and says yes, or no with a reason of a closed list.
"""
