"""The control plane beside a registry: gates of promotion, placements compiled to snapshots, and the loop that applies them.

Must not know the command line. What is allowed is the registry's to say, what is served the data plane's.
"""
