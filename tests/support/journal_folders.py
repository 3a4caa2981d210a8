"""Writes a journal's folder from the format's page alone, without flyball: the reference for readers.

No writer of a server behaves so exactly on demand: segments of any length, records of any kind, at any time.
"""

import base64
import hashlib
import json
import struct
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flyball.decision_log.proof import evidence_check as ed25519
from flyball.decision_log.proof import merkle

NODE = bytes(range(16))
SEED = bytes(32)
HOUR_NS = 3_600_000_000_000
START_NS = 1_794_787_200_000_000_000  # 2026-11-16 00:00 UTC
Payloads = Sequence[bytes]


@dataclass
class Time:
    """As records have it: RFC 9581."""

    seconds: int
    nanoseconds: int


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def cbor(value: Any) -> bytes:
    """What records use of CBOR, with definite lengths; floats have 8 bytes."""
    match value:
        case None | bool():
            return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
        case int():
            return _head(0, value) if value >= 0 else _head(1, -1 - value)
        case Time():
            return _head(6, 1001) + cbor({1: value.seconds, -9: value.nanoseconds})
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case bytes():
            return _head(2, len(value)) + value
        case str():
            return _head(3, len(value.encode())) + value.encode()
        case dict():
            return _head(5, len(value)) + b"".join(cbor(key) + cbor(item) for key, item in value.items())
        case _:
            return _head(4, len(value)) + b"".join(map(cbor, value))


def _head(major: int, count: int) -> bytes:
    if count < 24:
        return bytes([major << 5 | count])
    width, form = next((width, form) for width, form in ((1, 24), (2, 25), (4, 26), (8, 27)) if count < 256**width)
    return bytes([major << 5 | form]) + count.to_bytes(width, "big")


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)  # noqa: PLW2901
        table.append(value)
    return table


CRC = _crc_table()


def _scalar() -> tuple[int, bytes]:
    raw = bytearray(hashlib.sha512(SEED).digest())
    raw[0] &= 248
    raw[31] = raw[31] & 127 | 64
    return int.from_bytes(raw[:32], "little"), bytes(raw[32:])


def _encoded(point: Any) -> bytes:
    inverse = pow(point[2], ed25519.P - 2, ed25519.P)
    x, y = point[0] * inverse % ed25519.P, point[1] * inverse % ed25519.P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = ed25519.point_of((4 * pow(5, ed25519.P - 2, ed25519.P) % ed25519.P).to_bytes(32, "little"))
KEY = _encoded(ed25519.times(_scalar()[0], BASE))


def sign(message: bytes) -> bytes:
    secret, prefix = _scalar()
    nonce = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % ed25519.L
    commitment = _encoded(ed25519.times(nonce, BASE))
    challenge = int.from_bytes(hashlib.sha512(commitment + KEY + message).digest(), "little") % ed25519.L
    return commitment + ((nonce + challenge * secret) % ed25519.L).to_bytes(32, "little")


@dataclass
class Segment:
    number: int
    first_seq: int
    header: bytes
    leaves: list[bytes] = field(default_factory=list)
    data: bytes = b""

    @property
    def root(self) -> bytes:
        return merkle.root(self.leaves)


class JournalFolder:
    """A folder under `path`; `seal` closes the open segment and begins the next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("segments", "blobs", "state"):
            (path / name).mkdir(parents=True, exist_ok=True)
        (path / "node.json").write_text(json.dumps({"format": 1, "node": NODE.hex(), "key": KEY.hex()}))
        self.now_ns = START_NS
        self.next_seq = 1
        self.sealed: list[Segment] = []
        self.open = self._begin(began=1)
        self.write()

    def append(self, payload: bytes) -> int:
        segment, seq = self.open, self.next_seq
        prev = segment.leaves[-1]
        checked = struct.pack("<Q", seq) + prev + payload
        segment.data += struct.pack("<II", len(payload), crc32c(checked)) + checked
        segment.leaves.append(merkle.frame_leaf(seq, prev, payload))
        self.next_seq += 1
        return seq

    def add(self, kind: str, identity: uuid.UUID | None = None, **pairs: Any) -> int:
        identity = identity or uuid.UUID(int=0)
        pairs.setdefault("at", self.now_ns)
        return self.append(cbor({"kind": kind, "id": identity.bytes, **pairs}))

    def decide(self, name: str = "card-fraud", outcome: str = "reject", **more: Any) -> uuid.UUID:
        identity = uuid.UUID(int=(self.now_ns // 1_000_000) << 80 | 0x7 << 76 | 0x8 << 60 | self.next_seq)
        self.add("decision", identity, **decision_pairs(name, outcome, self.now_ns), **more)
        return identity

    def seal(self, *, hours: float = 1) -> None:
        self.sealed.append(self.open)
        self.now_ns += int(hours * HOUR_NS)
        self.open = self._begin(began=2)
        self.write()
        self.checkpoint()

    def checkpoint(self) -> str:
        roots = [merkle.leaf(segment.root) for segment in self.sealed]
        text = (
            f"flyball-journal/{NODE.hex()}\n{len(roots)}\n{base64.b64encode(merkle.root(roots)).decode()}\n"
            f"open {self.open.number} {len(self.open.leaves) - 1} {self.open.leaves[-1].hex()}\n"
            f"time {self.now_ns // 1_000_000}\n"
        )
        name = f"flyball-journal/{NODE.hex()}"
        hint = hashlib.sha256(name.encode() + b"\n\x01" + KEY).digest()[:4]
        note = f"{text}\n\u2014 {name} {base64.b64encode(hint + sign(text.encode())).decode()}\n"
        with (self.path / "checkpoints").open("a") as file:
            file.write(note)
        return note

    def write(self) -> None:
        """What was added so far is in the files, and durable."""
        for segment in (*self.sealed[-1:], self.open):
            self.file(segment.number).write_bytes(segment.header + segment.data)
        durable = struct.pack("<QQ", self.open.number, 256 + len(self.open.data))
        (self.path / "durable").write_bytes(durable)

    def file(self, number: int) -> Path:
        return self.path / "segments" / f"{number:016d}.fbj"

    def blob(self, content: bytes) -> bytes:
        digest = hashlib.sha256(content)
        (self.path / "blobs" / f"sha256-{digest.hexdigest()}").write_bytes(content)
        return digest.digest()

    def _begin(self, began: int) -> Segment:
        last = self.sealed[-1] if self.sealed else None
        number = len(self.sealed) + 1
        header = b"flyballJ" + struct.pack("<IBxxx", 1, began) + NODE + bytes(16) + KEY
        header += struct.pack("<QQ", number, self.next_seq)
        header += last.leaves[-1] + last.root if last else bytes(64)
        header += struct.pack("<Q", len(last.leaves) - 1 if last else 0)
        header = (header + struct.pack("<q", self.now_ns)).ljust(252, b"\0")
        header += struct.pack("<I", crc32c(header))
        return Segment(number, self.next_seq, header, [merkle.leaf(header)])


def decision_pairs(name: str, outcome: str, at: int) -> dict[str, Any]:
    digest = hashlib.sha256(name.encode()).digest()
    return {
        "at": at, "mono": 5, "decision": name, "document": digest, "policy": digest, "schema": digest, "runtime": digest,
        "models": [["fraud", "7", digest]], "protocol": "http", "caller": "shop", "key": None, "trace": None,
        "single": True, "variant": None, "route": "champion", "batch": [["fraud", 5, 2]],
        "features": {"payments_1h": [23, "window", 0.0]}, "scores": {"fraud": 0.914}, "outputs": {}, "score": 0.914,
        "outcome": outcome, "band": "high", "rules": ["0"], "reasons": [["R11", "payments_1h", 0.31]], "explain": False,
        "remedy": None, "timings": [6000, 1000, 1000, 9000, 4000, 2000, 21000, 8000, 2000, None],
        "input": {"amount": 4100.0, "country": "DE"},
    }  # fmt: skip


def filled(path: Path, counts: Iterable[int], *, hours: float = 1) -> JournalFolder:
    """A journal with so many decisions in each of its sealed segments, and one in the open one."""
    journal = JournalFolder(path)
    for count in counts:
        for place in range(count):
            journal.now_ns += 1_000_000
            journal.decide(("card-fraud", "loan")[place % 2], ("reject", "approve", "review")[place % 3])
        journal.seal(hours=hours)
    journal.decide()
    journal.write()
    return journal
