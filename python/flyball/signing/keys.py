"""ECDSA keys on the three curves of OMS: creation, PEM files, hints, signatures.

The hint is the SHA-256 of the public key's PEM text with its last newline, as OMS defines it. The curve determines the hash.
Must not know what is signed or whom a key belongs to.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from flyball.errors import UsageError, needing
from flyball.signing.reasons import Reason, refused

with needing("signing needs the package cryptography", extra="registry"):
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from pathlib import Path

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey

PASSWORD_VARIABLE = "FLYBALL_KEY_PASSWORD"  # noqa: S105 - the variable's name, not a password
CURVES: dict[str, ec.EllipticCurve] = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
_NAMES = {curve.name: name for name, curve in CURVES.items()}
_HASHES: dict[str, hashes.HashAlgorithm] = {"P-256": hashes.SHA256(), "P-384": hashes.SHA384(), "P-521": hashes.SHA512()}
_PEM_BYTES_MAX = 64 * 1024
_END = "-----END PUBLIC KEY-----\n"
_NOT_PRIVATE = "is not a private key in PEM, or its password is wrong"


def generate(curve: str = "P-256") -> PrivateKey:
    """A new private key."""
    if curve not in CURVES:
        raise UsageError(f"unknown curve {curve!r}", next_step=f"choose one of {', '.join(CURVES)}")
    return ec.generate_private_key(CURVES[curve])


def curve_of(key: PublicKey) -> str:
    """P-256, P-384 or P-521."""
    return _NAMES[key.curve.name]


def private_pem(key: PrivateKey) -> str:
    """The key as unencrypted PKCS#8 PEM."""
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode("ascii")


def public_pem(key: PublicKey) -> str:
    """The key as SPKI PEM, the input of its hint."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode("ascii")


def hint(key: PublicKey) -> str:
    """The key's name in signatures: hexadecimal SHA-256 of its PEM text."""
    return hashlib.sha256(public_pem(key).encode("ascii")).hexdigest()


def load_private(file: Path) -> PrivateKey:
    """Load a private key from a PEM file; FLYBALL_KEY_PASSWORD decrypts it."""
    password = os.environ.get(PASSWORD_VARIABLE)
    try:
        key = serialization.load_pem_private_key(_read(file), password.encode() if password else None)
    except TypeError as error:  # a password for an unencrypted key, or none for an encrypted one
        step = f"unset {PASSWORD_VARIABLE}" if password else f"give its password in {PASSWORD_VARIABLE}"
        raise UsageError(f"{file}: {error}".rstrip("."), next_step=step) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        step = "name a private key, as  flyball key new NAME.pem  makes one"
        what = "is a public key; the private one is needed" if _is_public(file) else _NOT_PRIVATE
        raise UsageError(f"{file} {what}", next_step=step) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in _NAMES:
        raise UsageError(f"{file} is not a key on {', '.join(CURVES)}", next_step=f"make one:  flyball key new {file}")
    return key


def load_public(text: str) -> PublicKey:
    """Load a public key from PEM text in exactly the form that its hint covers."""
    try:
        key = serialization.load_pem_public_key(text.encode("ascii"))
    except UnsupportedAlgorithm as error:
        raise refused(Reason.UNSUPPORTED, "a public key is of a kind that is not served") from error
    except ValueError as error:
        raise refused(Reason.MALFORMED, "a public key is not PEM") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _NAMES:
        raise refused(Reason.UNSUPPORTED, f"a public key is not on one of {', '.join(CURVES)}")
    if public_pem(key) != text:
        raise refused(Reason.MALFORMED, "a public key is not written as OMS writes it: SPKI, lines of 64, a last newline")
    return key


def load_publics(file: Path) -> list[PublicKey]:
    """Load all public keys of a PEM file."""
    parts = _read(file).decode("utf-8", "replace").split(_END)
    if len(parts) < 2 or parts[-1].strip():
        if "PRIVATE KEY-----" in parts[0]:
            public = file.with_suffix(".pub")
            raise UsageError(
                f"{file} is a private key; the public one is needed", next_step=f"give its public key:  {public}"
            )
        raise UsageError(f"{file} is not a file of public keys in PEM", next_step="flyball key show PRIVATE-KEY --pem")
    return [load_public(part.lstrip() + _END) for part in parts[:-1]]


def sign(key: PrivateKey, message: bytes) -> bytes:
    """A DER signature with the hash of the key's curve."""
    return key.sign(message, ec.ECDSA(_HASHES[curve_of(key.public_key())]))


def is_private(file: Path) -> bool:
    """Whether a file has a private key."""
    return b"PRIVATE KEY-----" in _read(file)


def _is_public(file: Path) -> bool:
    return b"-----BEGIN PUBLIC KEY-----" in _read(file)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(_PEM_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise UsageError(
            f"cannot read the key {file}: no such file", next_step="make one:  flyball key new NAME.pem"
        ) from error
    if len(data) > _PEM_BYTES_MAX:
        raise UsageError(f"{file} is too large for a file of keys", next_step="name a PEM file")
    return data
