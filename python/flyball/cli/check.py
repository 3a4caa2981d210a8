"""`flyball check`: explains decisions, or lists all their faults with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, counted, print_json
from flyball.cli.plain_words import plainly

if TYPE_CHECKING:
    from rich.console import Console

    from flyball.decision.compile.check import Checked
    from flyball.decision.spec.spec import Spec
    from flyball.errors import FlyballError, LineFault

    _Result = tuple[Spec, Checked, list[LineFault]] | FlyballError

_REFUSED = 3
_LISTED_MAX = 8


def check(
    files: Annotated[list[Path], argument("Decisions, in YAML.", metavar="SPEC...")],
    strict: Annotated[bool, option("Exit with 3 on warnings, too.", "--strict")] = False,
    json: AsJson = False,
) -> None:
    """Check decisions: list every fault with its line and its fix. Changes nothing.

    Warnings are about valid settings that may surprise; they are not faults.

    Next:  flyball plan SPEC  shows the compiled stages,  flyball serve --decision FILE  serves it.

        flyball check card-fraud.yaml --strict
    """
    found = [_checked(path) for path in files]
    if json:
        print_json({"files": [_document(path, result) for path, result in zip(files, found, strict=True)]})
    else:
        out = console()
        for path, result in zip(files, found, strict=True):
            _show(out, path, result)
    if any(isinstance(result, Exception) or (strict and result[2]) for result in found):
        raise typer.Exit(_REFUSED)


def _checked(path: Path) -> _Result:
    from flyball.decision.decision import Decision
    from flyball.errors import RefusedError

    try:
        decision = Decision.load(path)
        checked = decision.check()
        return decision.spec, checked, decision.warnings(path)
    except RefusedError as error:
        return error


def _document(path: Path, result: _Result) -> dict[str, Any]:
    if isinstance(result, Exception):
        faults = [fault.document() for fault in result.faults]
        return {"file": str(path), "good": False, "error": result.message, "faults": faults, "warnings": []}
    spec, checked, warnings = result
    models = [{"model": item.name, "digest": item.files.digest} for item in checked.compiled.artifacts]
    documents = [warning_document(one) for one in warnings]
    return {
        "file": str(path), "good": True, "decision": spec.decision, "models": models, "faults": [], "warnings": documents
    }  # fmt: skip


def warning_document(warning: LineFault) -> dict[str, str]:
    """A warning for machines: its path in the decision, its file and line, and its text."""
    return {"path": warning.path, "at": warning.at, "text": warning.text}


def show_warnings(out: Console, warnings: list[LineFault]) -> None:
    """Print one line per warning."""
    from rich.text import Text

    for warning in warnings:
        out.print(Text.assemble(("warning  ", "yellow"), str(warning)))


def _show(out: Console, path: Path, result: _Result) -> None:
    from rich.text import Text

    if isinstance(result, Exception):
        for fault in result.faults:
            out.print(Text(plainly(str(fault))))
        count = len(result.faults)
        summary = counted(count, "fault") if count else plainly(result.message)
        out.print(Text.assemble((summary + "." * (not summary.endswith("?")), "bold red"), " Nothing was changed."))
        if not count and result.next_step:
            out.print(Text(f"  {result.next_step}", style="dim"))
        return
    spec, checked, warnings = result
    out.print(Text.assemble((spec.decision, "bold"), f"   {spec.purpose}   ({spec.owner})"))
    for head, text in _lines(spec, checked):
        out.print(Text(f"  {head:<10} {text}"))
    show_warnings(out, warnings)
    out.print(Text(f"No faults.   Next:  flyball plan {path}   or   {serve_command(spec, path)}", style="dim"))


def serve_command(spec: Spec, path: Path) -> str:
    """The command that serves a decision, with a journal if servers would refuse it without one."""
    journal = " --journal-folder DIR" if spec.record is not None or spec.expose is not None else ""
    return f"flyball serve --decision {path}{journal}"


def _lines(spec: Spec, checked: Checked) -> list[tuple[str, str]]:
    """Summarise the decision: one line per part."""
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
    lines.append(("policy", f"{counted(len(policy['rules']), 'rule')}; {bands or 'no model, rules only'}"))
    remedies = [f"{name} → {_remedy(remedy)}" for name, remedy in document["remedies"].items() if remedy != "error"]
    lines.append(("remedies", ", ".join(remedies) or "none: callers get every fault as an error"))
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
