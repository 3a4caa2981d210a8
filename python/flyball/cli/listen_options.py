"""Flags of `flyball serve` that say where it listens, whom it serves and trusts, and what it records.

Only what they are called: limits and meaning are the settings' own, in `flyball.documents.config`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_PANEL = "Where it listens, and whom it serves"
_RECORDS = "What it records"
_TRUST = "What it trusts, and what it keeps"
_FLAGS = {"cors_origins": "--cors-origin", "watch_snapshot": "--watch"}

Listen = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS",
        help="HOST:PORT, tls://HOST:PORT or unix:/PATH; may be repeated. [127.0.0.1:8080]",
        rich_help_panel=_PANEL,
    ),
]
TlsCert = Annotated[
    Path | None, typer.Option(help="PEM file of the server's certificate.", show_default=False, rich_help_panel=_PANEL)
]
TlsKey = Annotated[
    Path | None, typer.Option(help="PEM file of its private key.", show_default=False, rich_help_panel=_PANEL)
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option(
        help="PEM file of authorities that clients must have a certificate of.", show_default=False, rich_help_panel=_PANEL
    ),
]
UnixMode = Annotated[
    str | None, typer.Option(metavar="OCTAL", help="Mode of the sockets of unix: addresses. [0600]", rich_help_panel=_PANEL)
]
Callers = Annotated[
    Path | None,
    typer.Option(help="JSON file of who may call (see flyball caller).", show_default=False, rich_help_panel=_PANEL),
]
AllowAnonymous = Annotated[
    bool, typer.Option("--allow-anonymous", help="Serve everybody, also beyond this machine.", rich_help_panel=_PANEL)
]
AllowModelControl = Annotated[
    bool, typer.Option("--allow-model-control", help="Let clients load and unload models.", rich_help_panel=_PANEL)
]
AllowSharedMemory = Annotated[
    bool, typer.Option("--allow-shared-memory", help="Let clients pass tensors in shared memory.", rich_help_panel=_PANEL)
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN", help="Web pages of this origin may read answers; may be repeated.", rich_help_panel=_PANEL
    ),
]
JournalFolder = Annotated[
    Path | None, typer.Option(help="Record decisions in this folder.", show_default=False, rich_help_panel=_RECORDS)
]
JournalKey = Annotated[
    Path | None,
    typer.Option(
        help="File of the key that signs checkpoints. [in the folder]", show_default=False, rich_help_panel=_RECORDS
    ),
]
JournalKek = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Where the key for personal data is: file:PATH, env:NAME or command:ARGV. [in the folder]",
        show_default=False,
        rich_help_panel=_RECORDS,
    ),
]

TrustRoot = Annotated[
    Path | None,
    typer.Option(
        help="PEM file of the public keys whose owners say whom to trust.", show_default=False, rich_help_panel=_TRUST
    ),
]
TrustPolicy = Annotated[
    Path | None,
    typer.Option(
        help="The trust policy that one of them signed (see flyball trust).", show_default=False, rich_help_panel=_TRUST
    ),
]
StateFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Keep here what was taken last, so that nothing older is taken. [beside the trust policy]",
        show_default=False,
        rich_help_panel=_TRUST,
    ),
]
Environment = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What it is for: releases for others are refused. [production]",
        show_default=False,
        rich_help_panel=_TRUST,
    ),
]
Unsigned = Annotated[
    str | None,
    typer.Option(
        metavar="WORD",
        help="Serve what nobody signed: allow or refuse. [refuse for a snapshot]",
        show_default=False,
        rich_help_panel=_TRUST,
    ),
]
PreviousKept = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Deployments of each name that stay loaded after they were replaced. [1]",
        show_default=False,
        rich_help_panel=_TRUST,
    ),
]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Read the snapshot again whenever its index changes.", rich_help_panel=_TRUST),
]


def flag_of(path: str) -> str:
    """The flag that sets what a fault's path names."""
    key = path.partition("[")[0]
    return _FLAGS.get(key, "--" + key.replace("_", "-"))
