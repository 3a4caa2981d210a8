"""Keys and signatures: signs packages, releases, the trust policy and the Snapshot's index.

`crates/signing` verifies them, here as in servers (`flyball.signing.trust`). Needs `cryptography` for keys. Must not know
where packages are stored, the registry's roles, or how anything is served.
"""
