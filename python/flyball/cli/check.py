"""`flyball check`: decisions, explained; or everything that is wrong with them, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from flyball.errors import FlyballError
    from flyball.spec.check import Checked
    from flyball.spec.root import Spec

_REFUSED = 3
_LISTED_MAX = 8


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Decisions, in YAML.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check decisions: every fault with its line and what to do about it. Changes nothing.

    Next:  flyball plan FILE  shows the compiled stages,  flyball serve --decision FILE  serves it.
    """
    from flyball.cli.output import console, print_json

    found = [_checked(path) for path in files]
    if json:
        print_json({"files": [_document(path, result) for path, result in zip(files, found, strict=True)]})
    else:
        out = console()
        for path, result in zip(files, found, strict=True):
            _show(out, path, result)
    if any(isinstance(result, Exception) for result in found):
        raise typer.Exit(_REFUSED)


def _checked(path: Path) -> tuple[Spec, Checked] | FlyballError:
    from flyball.errors import RefusedError
    from flyball.spec import Decision

    try:
        decision = Decision.load(path)
        return decision.spec, decision.check()
    except RefusedError as error:
        return error


def _document(path: Path, result: tuple[Spec, Checked] | FlyballError) -> dict[str, Any]:
    if isinstance(result, Exception):
        faults = [fault.document() for fault in result.faults]
        return {"file": str(path), "good": False, "error": result.message, "faults": faults}
    spec, checked = result
    models = [{"model": item.name, "digest": item.files.digest} for item in checked.compiled.artifacts]
    return {"file": str(path), "good": True, "decision": spec.decision, "models": models, "faults": []}


def _show(out: Console, path: Path, result: tuple[Spec, Checked] | FlyballError) -> None:
    from rich.text import Text

    if isinstance(result, Exception):
        for fault in result.faults:
            out.print(Text(str(fault)))
        count = len(result.faults)
        told = f"{count} fault{'s' * (count != 1)}." if count else f"{result.message}."
        out.print(Text.assemble((told, "bold red"), " Nothing was changed."))
        return
    spec, checked = result
    out.print(Text.assemble((spec.decision, "bold"), f"   {spec.purpose}   ({spec.owner})"))
    for head, words in _lines(spec, checked):
        out.print(Text(f"  {head:<10} {words}"))
    out.print(Text(f"No faults.   Next:  flyball plan {path}   or   flyball serve --decision {path}", style="dim"))


def _lines(spec: Spec, checked: Checked) -> list[tuple[str, str]]:
    """What the decision does, in a line for each part."""
    document = checked.compiled.document
    lines = [("input", _listed(spec.input))]
    if spec.features:
        lines.append(("features", _listed(spec.features)))
    for model, artifact in zip(document["models"], checked.compiled.artifacts, strict=True):
        columns = sum(len(item["columns"]) for item in model["inputs"])
        score = f"{model['score']['output']}[{model['score']['element']}]"
        lines.append(("model", f"{columns} columns → {model['name']} {artifact.files.digest[:19]}… → {score}"))
    policy = document["policy"]
    bands = ", ".join(f"{band['name']} {_range(band)}" for band in policy["bands"])
    lines.append(("policy", f"{_many(len(policy['rules']), 'rule')}; {bands}"))
    remedies = [f"{name} → {_remedy(remedy)}" for name, remedy in document["remedies"].items() if remedy != "reject"]
    lines.append(("remedies", ", ".join(remedies) or "none: every fault is the answer"))
    promises = [f"{name} {value}" for name, value in spec.slo if value is not None]
    return [*lines, ("slo", ", ".join(promises))] if promises else lines


def _listed(parts: dict[str, Any]) -> str:
    names = [name + _marks(part) for name, part in parts.items()]
    more = len(names) - _LISTED_MAX
    return ", ".join(names[:_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def _marks(part: Any) -> str:
    marks = [mark for mark in ("key", "pii") if getattr(part, mark, False) is True]
    return f" ({', '.join(marks)})" if marks else ""


def _range(band: dict[str, Any]) -> str:
    low, high = band.get("from"), band.get("to")
    if low is None:
        return "always" if high is None else f"< {high:g}"
    return f">= {low:g}" if high is None else f"{low:g}..{high:g}"


def _remedy(remedy: Any) -> str:
    return str(remedy["outcome"]) if isinstance(remedy, dict) else str(remedy)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
