"""MurmurHash3 (x86, 32 bits, seed 0) of the `hash` transform. Public-domain algorithm; scikit-learn uses it, too."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593


def murmur3_32(data: bytes) -> int:
    """The hash as an unsigned number."""
    state, whole = 0, len(data) & ~3
    for at in range(0, whole, 4):
        state = _rotated(state ^ _mixed(int.from_bytes(data[at : at + 4], "little")), 13)
        state = (state * 5 + 0xE6546B64) & _MASK
    if data[whole:]:
        state ^= _mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)


def _mixed(block: int) -> int:
    return (_rotated((block * _C1) & _MASK, 15) * _C2) & _MASK


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _MASK
