"""Certificates for the tests, made by openssl: an authority, and what it signs.

Elliptic curves, because a key is made in a millisecond. Knows nothing of servers.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(*arguments: str | Path) -> None:
    program = shutil.which("openssl")
    assert program, "openssl is not on the path"
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, timeout=30)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; whoever trusts `cert` trusts them."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.cert, self._key = self.folder / "ca.pem", self.folder / "ca.key"
        _openssl(
            "req", "-x509", *_CURVE, "-keyout", self._key, "-out", self.cert, "-days", "2", "-subj", f"/CN={name}",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign",
        )  # fmt: skip

    def sign(self, name: str, *sans: str, days: int = 1) -> Pair:
        """A certificate for some names, each as openssl writes it: DNS:localhost, URI:spiffe://x. Negative days: expired."""
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={','.join(sans)}\nbasicConstraints=critical,CA:FALSE\n")
        _openssl("req", *_CURVE, "-keyout", pair.key, "-out", request, "-subj", f"/CN={name}")
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self._key, "-CAcreateserial", "-days", str(days),
            "-extfile", extensions, "-out", pair.cert,
        )  # fmt: skip
        return pair

    def sign_server(self, name: str = "server") -> Pair:
        return self.sign(name, "DNS:localhost", "IP:127.0.0.1", "IP:::1")
