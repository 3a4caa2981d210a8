"""The signature of a Snapshot's index: a publisher's, over the very bytes of `index.json`.

Must not know what an index says: to change one byte of it is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.signing import dsse, keys
from flyball.signing.reasons import Reason, refused

if TYPE_CHECKING:
    from flyball.signing.policy import TrustedKey
    from flyball.signing.trust import Trust

INDEX_BYTES_MAX = 64 * 1024 * 1024
PAYLOAD_TYPE = "application/vnd.flyball.index.v1+json"
FILE = "index.sig.json"
_INDEX = "the signature of the index"


def sign_index(index: bytes, key: keys.PrivateKey) -> bytes:
    """What stands in `index.sig.json` beside the index."""
    return dsse.sign(PAYLOAD_TYPE, index, key).text()


def check_index(index: bytes, data: bytes | None, trust: Trust, now: int) -> TrustedKey:
    """The publisher whose signature is over exactly this index."""
    if data is None:
        raise refused(Reason.UNSIGNED, "the index has no signature", f"put {FILE} beside index.json")
    envelope = dsse.read_envelope(data, PAYLOAD_TYPE, _INDEX, INDEX_BYTES_MAX)
    signers = trust.signers(envelope, now, "the index")
    publisher = next((key for key in signers if "publisher" in key.roles), None)
    if publisher is None:
        raise refused(Reason.WRONG_ROLE, f"{signers[0].name} may not publish", "sign with a key that has the role publisher")
    if envelope.payload != index:
        raise refused(Reason.CHANGED_FILE, "index.json is not the index that was signed")
    return publisher
