"""`flyball registry export`, `import` and `fetch`: versions as files, for sites without a network and for a closer look."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.registry.options import (
    WHERE,
    As,
    AsJson,
    Key,
    MaybeVersion,
    Reason,
    Ref,
    Where,
    actor,
    opened,
    ref_of,
)


def export(
    name: Ref,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.", show_default=False)],
    key: Key,
    version: MaybeVersion = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Write a version as one signed file: files, signatures, approvals, and the versions that it asks.

    The key vouches for the file; its role is signer or publisher.

        flyball registry export fraud@7 --out fraud-7.flyball --key risk.pem
    """
    from flyball.cli.output import counted, print_json
    from flyball.cli.registry.text import next_step, say, size
    from flyball.registry.transfer import export as carry
    from flyball.signing.keys import load_private

    loaded = load_private(key)
    with opened(registry) as found:
        carried = carry(found, ref_of(name, version), out, loaded)
    if json:
        print_json({"file": str(out), **carried.model_dump(mode="json")})
        return
    versions = ", ".join(f"{one.name}@{one.version}" for one in carried.versions)
    say(f"{out}   {size(out.stat().st_size)}   {versions}, {counted(len(carried.blobs), 'artifact')}")
    next_step(f"flyball registry import {out}", "(at the other site)")


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that export wrote.", show_default=False)],
    reason: Reason = "",
    by: As = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Take the versions of a signed file, after everything in it was verified by the trust policy of this registry.

    flyball registry import fraud-7.flyball
    """
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import next_step, say, short, waits_for

    with opened(registry) as found:
        taken = found.import_file(file, actor=actor(by), reason=reason)
    if json:
        print_json([one.model_dump(mode="json") for one in taken])
        return
    for one in taken:
        say(f"{one.name}@{one.number}   {short(one.root)}   signed by {one.signed_by}")
    if taken:
        next_step(*waits_for(taken[-1]))
    else:
        say("everything in it was here already")


def fetch(
    name: Ref,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder that is not there yet.", show_default=False)],
    version: MaybeVersion = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Put the files of a version into a folder, every byte verified: for a closer look before you approve.

    flyball registry fetch fraud@7 --out look
    """
    from flyball.cli.output import counted, print_json
    from flyball.cli.registry.text import next_step, say

    with opened(registry) as found:
        shown = found.fetch(ref_of(name, version), out)
    if json:
        print_json({"folder": str(out), "root": shown.root, "files": [one.model_dump() for one in shown.files]})
        return
    say(f"{out}   {counted(len(shown.files), 'file')}   {shown.root}")
    if shown.kind == "decision":
        next_step(f"flyball check {out / 'decision.yaml'}")
    else:
        next_step(f"flyball inspect {out / 'model.onnx'}")
