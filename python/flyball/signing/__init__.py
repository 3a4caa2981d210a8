"""Keys and signatures: packages, releases, the trust policy and the Snapshot's index are signed here.

They are verified by `crates/signing`, here as in servers (`flyball.signing.trust`). Needs `cryptography` for keys. Must not
know where packages lie, who may do what in the registry, or how anything is served.
"""
