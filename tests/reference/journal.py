"""A second reader of the decision journal, written from docs/reference/journal-format.md alone, to hold the first against.

It follows chain and trees with `hashlib` and decodes records by itself. Must not know how servers are started.
"""

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HEADER_BYTES = 256
RECOVERED = 4
_HEADER = struct.Struct("<8sIB3x16s16s32sQQ32s32sQq")
_HEAD = struct.Struct("<IIQ32s")
_CRC_TABLE: list[int] = []


@dataclass(frozen=True)
class Frame:
    """One record where it lies."""

    segment: int
    offset: int
    seq: int
    prev: bytes
    payload: bytes

    @property
    def leaf(self) -> bytes:
        return leaf(struct.pack("<Q", self.seq), self.prev, self.payload)

    @property
    def end(self) -> int:
        return self.offset + _HEAD.size + len(self.payload)

    @cached_property
    def record(self) -> dict[str, Any]:
        """The record as it stands there, what is sealed still sealed."""
        found, _ = decode(self.payload, 0)
        assert isinstance(found, dict)
        return found

    @property
    def kind(self) -> str:
        return self._head[0]

    @property
    def id(self) -> bytes:
        return self._head[1]

    @cached_property
    def _head(self) -> tuple[str, bytes]:
        """Kind and id come first, so that nobody need read the rest for them."""
        _, at = _number(self.payload, 0)
        found = []
        for name in ("kind", "id"):
            key, at = decode(self.payload, at)
            assert key == name, (self.segment, self.offset, key)
            value, at = decode(self.payload, at)
            found.append(value)
        return found[0], found[1]


@dataclass(frozen=True)
class Segment:
    """A file: its header and its frames."""

    path: Path
    number: int
    first_seq: int
    prev: bytes
    prev_root: bytes
    prev_frames: int
    began: int
    head: bytes
    frames: tuple[Frame, ...]

    def root(self, count: int | None = None) -> bytes:
        """Of the tree over the header and so many frames."""
        return root([leaf(self.head), *(frame.leaf for frame in self.frames[:count])])

    def last(self, count: int | None = None) -> bytes:
        frames = self.frames[:count]
        return frames[-1].leaf if frames else leaf(self.head)


def segments(folder: Path, first: int = 1) -> list[Segment]:
    """The segments from `first` on that have been begun, in order."""
    found = [_segment(path) for path in sorted((folder / "segments").glob("*.fbj")) if int(path.stem) >= first]
    return [segment for segment in found if segment is not None]


def counted(found: list[Segment]) -> Iterator[Frame]:
    """The frames that count: of a segment with another behind it, those that the other says."""
    for segment, after in zip(found, [*found[1:], None], strict=True):
        yield from segment.frames[: after.prev_frames if after else None]


def faults(found: list[Segment]) -> list[str]:
    """What is wrong with chain, numbers and trees, in words."""
    wrong, seq = [], found[0].first_seq if found else 0
    for place, segment in enumerate(found):
        before = found[place - 1] if place else None
        if before is not None:
            count = segment.prev_frames
            seen = (before.number + 1, before.last(count), before.root(count))
            if seen != (segment.number, segment.prev, segment.prev_root) or count > len(before.frames):
                wrong.append(f"segment {segment.number} does not follow {before.number} with its {count} frames")
        if segment.first_seq != seq:
            wrong.append(f"segment {segment.number} begins with frame {segment.first_seq}, not {seq}")
        count = found[place + 1].prev_frames if place + 1 < len(found) else len(segment.frames)
        prev = leaf(segment.head)
        for frame in segment.frames[:count]:
            if (frame.seq, frame.prev) != (seq, prev):
                wrong.append(f"segment {segment.number}, offset {frame.offset}: the chain is broken")
            seq, prev = seq + 1, frame.leaf
    return wrong


def kinds(found: list[Segment]) -> Counter[str]:
    """How many records there are of each kind."""
    return Counter(frame.kind for frame in counted(found))


def ids(found: list[Segment], kind: str = "decision") -> Counter[bytes]:
    """How often each id stands there as such a record."""
    return Counter(frame.id for frame in counted(found) if frame.kind == kind)


def leaf(*parts: bytes) -> bytes:
    """RFC 6962."""
    return hashlib.sha256(b"\0" + b"".join(parts)).digest()


def root(leaves: list[bytes]) -> bytes:
    """Of an RFC 6962 tree: the left part is the largest power of two that leaves something."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root(leaves[:half]) + root(leaves[half:])).digest()


def decode(data: bytes, at: int) -> tuple[Any, int]:
    """A CBOR value and where the next one begins; of CBOR, what records have: definite lengths, tag 1001."""
    major, small = data[at] >> 5, data[at] & 31
    if major == 7:
        if small == 27:
            return struct.unpack_from(">d", data, at + 1)[0], at + 9
        return {20: False, 21: True, 22: None}[small], at + 1
    number, at = _number(data, at)
    match major:
        case 0:
            return number, at
        case 1:
            return -1 - number, at
        case 2:
            return data[at : at + number], at + number
        case 3:
            return data[at : at + number].decode(), at + number
        case 4 | 5:
            items = []
            for _ in range(number * (major - 3)):
                item, at = decode(data, at)
                items.append(item)
            return (items if major == 4 else dict(zip(items[::2], items[1::2], strict=True))), at
        case _:
            assert number == 1001, f"tag {number}"
            moment, at = decode(data, at)
            return moment[1] * 10**9 + moment.get(-9, 0), at


def _number(data: bytes, at: int) -> tuple[int, int]:
    small = data[at] & 31
    if small < 24:
        return small, at + 1
    width = 1 << small - 24
    return int.from_bytes(data[at + 1 : at + 1 + width], "big"), at + 1 + width


def _segment(path: Path) -> Segment | None:
    data = path.read_bytes()
    if not any(data[:HEADER_BYTES]):
        return None  # room that was made ahead
    magic, version, began, _node, _boot, _key, number, first, prev, prev_root, prev_frames, _ = _HEADER.unpack_from(data)
    assert (magic, version) == (b"flyballJ", 1), path
    frames = tuple(_frames(data, number))
    return Segment(path, number, first, prev, prev_root, prev_frames, began, data[:HEADER_BYTES], frames)


def _frames(data: bytes, segment: int) -> Iterator[Frame]:
    at = HEADER_BYTES
    while at + _HEAD.size <= len(data):
        length, checksum, seq, prev = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + length
        # Frames before others are proved by the chain; the last one could be torn.
        last = end + 8 > len(data) or not any(data[end : end + 8])
        if not length or end > len(data) or (last and crc32c(data[at + 8 : end]) != checksum):
            return
        yield Frame(segment, at, seq, prev, data[at + _HEAD.size : end])
        at = end


def crc32c(data: bytes) -> int:
    if not _CRC_TABLE:
        for number in range(256):
            for _ in range(8):
                number = number >> 1 ^ 0x82F63B78 * (number & 1)  # noqa: PLW2901
            _CRC_TABLE.append(number)
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC_TABLE[(value ^ byte) & 255] ^ value >> 8
    return value ^ 0xFFFFFFFF
