"""The signature of a Snapshot's index: a publisher's, over the very bytes of `index.json`.

Must not know what an index says: to change one byte of it is enough.
"""

from __future__ import annotations

from flyball.signing import dsse, keys

PAYLOAD_TYPE = "application/vnd.flyball.index.v1+json"


def sign_index(index: bytes, key: keys.PrivateKey) -> bytes:
    """What stands in `index.sig.json` beside the index."""
    return dsse.sign(PAYLOAD_TYPE, index, key).text()
