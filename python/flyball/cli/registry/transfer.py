"""`flyball registry export`, `import` and `fetch`: versions as files, for air-gapped sites and for review."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import counted, printed_as_json
from flyball.cli.registry.options import WHERE, By, Key, MaybeVersion, Reason, Ref, Where, actor, opened, ref_of
from flyball.cli.registry.text import next_step, say, short, size, waits_for


def export(
    name: Ref,
    out: Annotated[Path, option("The file to write.", "--out", metavar="FILE")],
    key: Key,
    version: MaybeVersion = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Write a version as one signed file: its files, signatures, approvals, and the versions it uses.

    The key must have the role signer or publisher.

        flyball registry export fraud@7 --out fraud-7.flyball --key risk.pem
    """
    from flyball.registry.transfer import export as write_file
    from flyball.signing.keys import load_private

    loaded = load_private(key)
    with opened(registry) as found:
        exported = write_file(found, ref_of(name, version), out, loaded)
    if printed_as_json({"file": str(out), **exported.model_dump(mode="json")}, json):
        return
    versions = ", ".join(f"{one.name}@{one.version}" for one in exported.versions)
    say(f"{out}   {size(out.stat().st_size)}   {versions}, {counted(len(exported.blobs), 'artifact')}")
    next_step(f"flyball registry import {out}", "(at the other site)")


def import_(
    file: Annotated[Path, argument("A file written by export.", metavar="FILE")],
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Import the versions of a signed file, after verifying it against this registry's trust policy.

    flyball registry import fraud-7.flyball
    """
    with opened(registry) as found:
        imported = found.import_file(file, actor=actor(by), reason=reason)
    if printed_as_json(imported, json):
        return
    for one in imported:
        say(f"{one.name}@{one.number}   {short(one.root)}   signed by {one.signed_by}")
    if imported:
        next_step(*waits_for(imported[-1]))
    else:
        say("all its versions are already registered")


def fetch(
    name: Ref,
    out: Annotated[Path, option("The directory to create.", "--out", metavar="DIR")],
    version: MaybeVersion = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Download the verified files of a version to a folder, for review before you approve.

    flyball registry fetch fraud@7 --out review
    """
    with opened(registry) as found:
        shown = found.fetch(ref_of(name, version), out)
    if printed_as_json({"folder": str(out), "root": shown.root, "files": shown.files}, json):
        return
    say(f"{out}   {counted(len(shown.files), 'file')}   {shown.root}")
    if shown.kind == "decision":
        next_step(f"flyball check {out / 'decision.yaml'}")
    else:
        next_step(f"flyball inspect {out / 'model.onnx'}")
