"""Options of `flyball serve` for listeners, callers, the journal and trust, by their key in the server configuration.

Only their names: limits and meaning are those of the settings in `flyball.documents.config`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from flyball.cli.option import option

_LISTEN, _JOURNAL, _TRUST = "Listeners and callers", "Decision log", "Trust and deployments"


def _setting(panel: str, text: str, *flags: str, kind: Any = str, **settings: Any) -> Any:
    return Annotated[kind | None, option(text, *flags, panel=panel, **settings)]


_file = partial(_setting, kind=Path)
_switch = partial(_setting, kind=bool)
_several = partial(_setting, kind=list[str])

Listen = Annotated[
    list[str] | None,
    option(
        "HOST:PORT, tls://HOST:PORT or unix:/PATH; may be repeated. By default 127.0.0.1:8080.",
        panel=_LISTEN,
        metavar="ADDRESS",
    ),
]
SERVER_OPTIONS: dict[str, Any] = {
    "listen": Listen,
    "tls_cert": _file(_LISTEN, "PEM file of the server's certificate."),
    "tls_key": _file(_LISTEN, "PEM file of the server's private key."),
    "tls_client_ca": _file(_LISTEN, "PEM file of CAs; clients must have a certificate from one of them."),
    "unix_mode": _setting(_LISTEN, "File mode of unix: sockets; by default 0600.", metavar="OCTAL"),
    "callers": _file(_LISTEN, "JSON file of callers (see flyball caller)."),
    "allow_anonymous": _switch(_LISTEN, "Serve unauthenticated callers, also from other machines.", "--allow-anonymous"),
    "allow_model_control": _switch(_LISTEN, "Let clients load and unload models.", "--allow-model-control"),
    "allow_shared_memory": _switch(_LISTEN, "Let clients pass tensors in shared memory.", "--allow-shared-memory"),
    "body_bytes_max": _setting(
        _LISTEN,
        "Largest body of a request; by default 64 MiB.",
        "--http-max-input-size",
        kind=int,
        metavar="BYTES",
    ),
    "strict_readiness": _switch(
        _LISTEN, "Report the server as ready only while every model that should serve does.", "--strict-readiness"
    ),
    "restricted_apis": _several(
        _LISTEN,
        "APIs that need a header with this value, as in Triton; may be repeated. Callers with rights protect better.",
        "--restricted-api",
        metavar="API[,API…]:HEADER=VALUE",
    ),
    "cors_origins": _several(
        _LISTEN, "Allow web pages of this origin (CORS); may be repeated.", "--cors-origin", metavar="ORIGIN"
    ),
    "journal_folder": _file(_JOURNAL, "Record decisions in this directory."),
    "journal_key": _file(_JOURNAL, "File of the key that signs checkpoints; by default in the journal folder."),
    "journal_kek": _setting(
        _JOURNAL,
        "Key that encrypts personal data: file:PATH, env:NAME or command:ARGV; by default in the folder.",
        metavar="SOURCE",
    ),
    "trust_root": _file(_TRUST, "PEM file of the public root keys that sign the trust policy."),
    "trust_policy": _file(_TRUST, "The signed trust policy (see flyball trust)."),
    "state_folder": _file(
        _TRUST, "Folder for anti-rollback state: older policies and snapshots are refused. By default beside the policy."
    ),
    "environment": _setting(
        _TRUST, "The server's environment; releases for others are refused. By default production.", metavar="NAME"
    ),
    "unsigned": _setting(
        _TRUST,
        "Whether to serve unsigned deployments. By default refuse for a snapshot, else allow.",
        metavar="allow|refuse",
    ),
    "previous_kept": _setting(
        _TRUST, "Replaced deployments of each name to keep loaded, for rollback; by default 1.", kind=int, metavar="N"
    ),
    "watch_snapshot": _switch(_TRUST, "Reload the snapshot whenever its index changes.", "--watch"),
}
_FLAGS = {
    "body_bytes_max": "--http-max-input-size",
    "cors_origins": "--cors-origin",
    "restricted_apis": "--restricted-api",
    "watch_snapshot": "--watch",
}


def flag_of(path: str) -> str:
    """The flag for a fault's path."""
    key = path.partition("[")[0]
    return _FLAGS.get(key, "--" + key.replace("_", "-"))
