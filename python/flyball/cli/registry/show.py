"""`flyball registry show`: everything about one version, for review before signing or approving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from flyball.cli.option import AsJson
from flyball.cli.output import console, printed_as_json
from flyball.cli.registry.options import WHERE, MaybeVersion, Ref, Where, opened, ref_of
from flyball.cli.registry.text import approvals, moment, next_step, row, say, short, size, state, table, waits_for

if TYPE_CHECKING:
    from flyball.registry.views import VersionDetail


def show(name: Ref, version: MaybeVersion = None, registry: Where = WHERE, json: AsJson = False) -> None:
    """Show one version: its card, lineage, files, signature and approvals.

    flyball registry show fraud@3
    """
    with opened(registry) as found:
        shown = found.show(ref_of(name, version))
        environments = found.status(shown.name).environments
    if printed_as_json(shown, json):
        return
    _print(shown, environments)


def _print(shown: VersionDetail, environments: list[str]) -> None:
    ref = f"{shown.name}@{shown.number}"
    say(Text.assemble((ref, "bold"), "   ", state(shown.state), f"   {shown.kind}, tier {shown.tier}"))
    say(f"  package        {shown.root}")
    say(f"  registered     {moment(shown.registered_at)} by {shown.author}")
    if shown.signed_by is not None and shown.not_before is not None and shown.not_after is not None:
        window = f"{moment(shown.not_before)} to {moment(shown.not_after)}"
        say(f"  signed         by {shown.signed_by}, for {', '.join(shown.environments)}, {window}")
    say(f"  approvals      {approvals(shown)}")
    for approval in shown.approvals:
        say(f"{'':<17}{approval.approver} on {moment(approval.at)}, key {approval.key[:12]}…")
    where = [*shown.placed, *(f"@{alias}" for alias in shown.aliases)]
    say(f"  placed         {', '.join(where) or 'nowhere'}")
    _print_meta(shown.meta)
    _print_files(shown)
    if shown.state in ("registered", "signed", "approved"):
        next_step(*waits_for(shown, environments))
    else:
        next_step(f"flyball registry history {shown.name}")


def _print_meta(meta: dict[str, Any]) -> None:
    """Print the card and the lineage, without empty fields."""
    lineage = meta.get("lineage") or {}
    fields = {
        **(meta.get("card") or {}),
        **{key: value for key, value in lineage.items() if key != "parameters"},
        "parameters": _pairs(lineage.get("parameters")),
        "metrics": _pairs(meta.get("metrics")),
        "contract": _pairs(meta.get("contract")),
        "notes": meta.get("notes"),
    }
    for key, value in fields.items():
        if value and key != "tier":
            say(f"  {key.replace('_', ' '):<14} {value}")
    for model in meta.get("models") or ():
        inputs, outputs = model.get("inputs") or (), model.get("outputs") or ()
        say(f"  {model['file']:<14} {_tensors(inputs)} → {_tensors(outputs)}")


def _print_files(shown: VersionDetail) -> None:
    found = table("  file", "size", "digest")
    for file in shown.files:
        row(found, f"  {file.name}", size(file.size), short(file.digest))
    console().print(found)


def _pairs(values: dict[str, Any] | None) -> str:
    return ", ".join(f"{key}={value}" for key, value in (values or {}).items())


def _tensors(tensors: Any) -> str:
    return ", ".join(f"{one['name']} {one['datatype']}{one['shape']}" for one in tensors) or "?"
