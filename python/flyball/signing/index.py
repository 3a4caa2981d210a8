"""A publisher's signature over the exact bytes of a Snapshot's `index.json`.

Must not know what an index contains.
"""

from __future__ import annotations

from flyball.signing import dsse, keys

PAYLOAD_TYPE = "application/vnd.flyball.index.v1+json"


def sign_index(index: bytes, key: keys.PrivateKey) -> bytes:
    """The content of `index.sig.json`."""
    return dsse.sign(PAYLOAD_TYPE, index, key).text()
