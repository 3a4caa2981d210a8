"""Flags of `flyball serve` for listeners, callers, the journal and trust.

Only their names: limits and meaning are those of the settings in `flyball.documents.config`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from flyball.cli.option import option

_FLAGS = {"cors_origins": "--cors-origin", "watch_snapshot": "--watch"}


_listen = partial(option, panel="Listeners and callers")
_journal = partial(option, panel="Decision log")
_trust = partial(option, panel="Trust and deployments")

Listen = Annotated[
    list[str] | None,
    _listen("HOST:PORT, tls://HOST:PORT or unix:/PATH; may be repeated. By default 127.0.0.1:8080.", metavar="ADDRESS"),
]
TlsCert = Annotated[Path | None, _listen("PEM file of the server's certificate.")]
TlsKey = Annotated[Path | None, _listen("PEM file of the server's private key.")]
TlsClientCa = Annotated[Path | None, _listen("PEM file of CAs; clients must have a certificate from one of them.")]
UnixMode = Annotated[str | None, _listen("File mode of unix: sockets; by default 0600.", metavar="OCTAL")]
Callers = Annotated[Path | None, _listen("JSON file of callers (see flyball caller).")]
AllowAnonymous = Annotated[bool, _listen("Serve unauthenticated callers, also from other machines.", "--allow-anonymous")]
AllowModelControl = Annotated[bool, _listen("Let clients load and unload models.", "--allow-model-control")]
AllowSharedMemory = Annotated[bool, _listen("Let clients pass tensors in shared memory.", "--allow-shared-memory")]
CorsOrigin = Annotated[
    list[str] | None, _listen("Allow web pages of this origin (CORS); may be repeated.", metavar="ORIGIN")
]
JournalFolder = Annotated[Path | None, _journal("Record decisions in this directory.")]
JournalKey = Annotated[Path | None, _journal("File of the key that signs checkpoints; by default in the journal folder.")]
JournalKek = Annotated[
    str | None,
    _journal(
        "Key that encrypts personal data: file:PATH, env:NAME or command:ARGV; by default in the folder.", metavar="SOURCE"
    ),
]

TrustRoot = Annotated[Path | None, _trust("PEM file of the public root keys that sign the trust policy.")]
TrustPolicy = Annotated[Path | None, _trust("The signed trust policy (see flyball trust).")]
StateFolder = Annotated[
    Path | None,
    _trust("Folder for anti-rollback state: older policies and snapshots are refused. By default beside the policy."),
]
Environment = Annotated[
    str | None, _trust("The server's environment; releases for others are refused. By default production.", metavar="NAME")
]
Unsigned = Annotated[
    str | None,
    _trust("Whether to serve unsigned deployments. By default refuse for a snapshot, else allow.", metavar="allow|refuse"),
]
PreviousKept = Annotated[
    int | None, _trust("Replaced deployments of each name to keep loaded, for rollback; by default 1.", metavar="N")
]
Watch = Annotated[bool, _trust("Reload the snapshot whenever its index changes.", "--watch")]


def flag_of(path: str) -> str:
    """The flag for a fault's path."""
    key = path.partition("[")[0]
    return _FLAGS.get(key, "--" + key.replace("_", "-"))
