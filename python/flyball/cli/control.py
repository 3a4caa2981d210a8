"""`flyball control`: keeps a folder at what the registry says, for servers that watch it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.output import warn_of_root
from flyball.cli.signals import Signals


def control(
    registry: Annotated[Path, typer.Option(metavar="HOME", help="The registry's folder.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the snapshot, its packages and the trust policy.")],
    publisher_key: Annotated[Path, typer.Option(metavar="FILE", help="Private key that signs snapshots: a publisher's.")],
    environment: Annotated[str, typer.Option(help="The environment to follow.")] = "production",
    trust_root: Annotated[
        Path | None, typer.Option(help="PEM file of root keys; by default the registry's, taken once.", show_default=False)
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A server to ask what it made of it; may be repeated.", show_default=False),
    ] = None,
) -> None:
    """Keep a folder at what a registry says, for servers that watch it: flyballd --snapshot DIR/index.json --watch."""
    from flyball.cli.follow import loop_of
    from flyball.control.planes import FolderPlane

    signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    warn_of_root("flyball control")
    loop = loop_of(registry, environment, publisher_key, out, trust_root)
    plane = FolderPlane(out.absolute(), node or [])
    plane.apply(loop.first())
    loop.begin(plane)
    sys.stdout.write(f"following {registry} for {environment} into {out}\n")
    sys.stdout.flush()
    while signals.next(None) in {None, signal.SIGHUP}:
        loop.wake()
    loop.stop()
