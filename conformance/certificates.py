"""Certificates for a run, made with openssl: an authority, a server's and a caller's. Valid for a few days."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.errors import FlyballError

if TYPE_CHECKING:
    from pathlib import Path

_DAYS = "30"
_PLAIN = "[req]\ndistinguished_name = dn\n[dn]\n"  # the system's configuration would add its own extensions


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates of authority, server and caller."""

    authority: Pair
    server: Pair
    caller: Pair


def make_certificates(folder: Path, caller: str = "conformance") -> Certificates:
    """Make all three; the server is localhost, the caller a DNS name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plain.cnf").write_text(_PLAIN)
    authority = _make(folder, "authority", ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"])
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"
    server = _make(folder, "server", [names, "extendedKeyUsage=serverAuth"], authority)
    called = _make(folder, "caller", [f"subjectAltName=DNS:{caller}", "extendedKeyUsage=clientAuth"], authority)
    return Certificates(authority, server, called)


def _make(folder: Path, name: str, extensions: list[str], authority: Pair | None = None) -> Pair:
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    command: list[str | Path] = [
        "openssl",
        "req",
        "-x509",
        "-config",
        folder / "plain.cnf",
        "-newkey",
        "ec",
        "-nodes",
        "-days",
        _DAYS,
    ]
    command += ["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", f"/CN=flyball {name}", "-keyout", pair.key]
    command += ["-out", pair.certificate]
    for extension in extensions:
        command += ["-addext", extension]
    if authority is not None:
        command += ["-CA", authority.certificate, "-CAkey", authority.key]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FlyballError(f"cannot run openssl ({error}); install it: apt-get install openssl") from error
    if done.returncode:
        raise FlyballError(f"openssl made no certificate for {name}: {done.stderr[-300:]}")
    return pair
