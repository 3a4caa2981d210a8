"""`flyball control`: keeps a snapshot folder in step with the registry, for servers that watch it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

from flyball.cli.option import option
from flyball.cli.output import warn_of_root
from flyball.cli.signals import Signals


def control(
    registry: Annotated[Path, option("The registry's directory.", metavar="HOME")],
    out: Annotated[Path, option("Directory for the snapshot, its packages and the trust policy.", metavar="DIR")],
    publisher_key: Annotated[Path, option("A publisher's private key, to sign snapshots.", metavar="FILE")],
    environment: Annotated[str, option("The environment to follow.", "--environment", "-e", metavar="NAME")] = "production",
    trust_root: Annotated[Path | None, option("PEM file of root keys; by default the registry's, copied once.")] = None,
    node: Annotated[
        list[str] | None, option("A server whose state is reported to the registry; may be repeated.", metavar="URL")
    ] = None,
) -> None:
    """Write what a registry has placed to a folder, and keep it current, for servers that watch it.

    flyballd --snapshot DIR/index.json --watch

        flyball control --registry .flyball/registry --out snapshots --publisher-key control.pem --environment staging
    """
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
