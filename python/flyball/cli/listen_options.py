"""Options of `flyball serve` for listeners, callers, the journal and trust, by their key in the server configuration.

Only their names: limits and meaning are those of the settings in `flyball.documents.config`.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.option import option
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.errors import Fault

_LISTEN, _JOURNAL, _TRUST = "Listeners and callers", "Decision log", "Trust and deployments"


def _setting(panel: str | None, text: str, *flags: str, kind: Any = str, **settings: Any) -> Any:
    return Annotated[kind | None, option(text, *flags, panel=panel, **settings)]


_file = partial(_setting, kind=Path)
_folder = partial(_setting, kind=str, metavar="DIR")  # as typed: a path would lose its ./
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
    "journal_folder": _folder(_JOURNAL, "Record decisions in this directory."),
    "journal_key": _file(_JOURNAL, "File of the key that signs checkpoints; by default in the journal folder."),
    "journal_kek": _setting(
        _JOURNAL,
        "Key that encrypts personal data: file:PATH, env:NAME or command:ARGV; by default in the folder.",
        metavar="SOURCE",
    ),
    "trust_root": _file(_TRUST, "PEM file of the public root keys that sign the trust policy."),
    "trust_policy": _file(_TRUST, "The signed trust policy (see flyball trust)."),
    "state_folder": _folder(
        _TRUST,
        "Directory that remembers the newest policy and snapshot, so that older ones are refused; with --registry also the "
        "last good snapshot. By default beside the policy, or .flyball/state/ENVIRONMENT.",
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
    "log_format": _setting(None, "Format of log lines; by default text on a terminal, else JSON.", metavar="json|text"),
}
_FOLDERS = ("journal_folder", "state_folder")
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


def allowed_for_flags(allowed: str) -> str:
    """What a flag may be: one that is not given is null in the document."""
    for words in ("null, or ", ", else null"):
        allowed = allowed.replace(words, "")
    return allowed.replace("where listen has a tls:// address", "with --listen tls://HOST:PORT").replace('"', "")


def address_instead(fault: Fault) -> str | None:
    """The value of --listen that was probably meant, for a port, a host or a URL."""
    found = str(fault.found)
    if not fault.path.startswith("listen"):
        return None
    if found.isdecimal():
        return f"write  --listen 127.0.0.1:{found}"
    if url := re.fullmatch(r"(https?|grpc)://([^/]+)/?", found):
        address = url[2] if ":" in url[2] else f"{url[2]}:8080"
        return f"write  --listen {'tls://' if url[1] == 'https' else ''}{address}"
    if re.fullmatch(r"[A-Za-z0-9.-]+", found):
        return f"write  --listen {found}:8080"
    return None


def refuse_files_as_folders(given: Mapping[str, Any]) -> None:
    """Raise if a directory's flag names a file, before the server starts; a missing directory is made."""
    for key in _FOLDERS:
        path = given.get(key)
        if path is not None and Path(path).exists() and not Path(path).is_dir():
            raise UsageError(
                f"{flag_of(key)}: '{path}' is a file, not a directory",
                next_step="give a directory; it is made if it does not exist",
            )
