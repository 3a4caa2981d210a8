"""`flyball caller`: who may call a server. Writes the file that `--callers` names, which a running server reads again.

A key is printed once, on stdout and alone, so that it can go straight to where secrets are kept; the file has its hash.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.documents.config.callers import Caller

caller = typer.Typer(name="caller", help="Say who may call a server, and how much.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The caller's name, as the metrics show it.")]
_File = Annotated[Path, typer.Option("--file", metavar="FILE", help="The callers' file.")]
_DEFAULT = Path("callers.json")


@caller.command()
def add(
    name: _Name,
    file: _File = _DEFAULT,
    san: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name in the caller's certificate; may be repeated.")
    ] = None,
    uid: Annotated[
        list[int] | None, typer.Option(metavar="N", help="A user that connects by a Unix socket; may be repeated.")
    ] = None,
    requests_per_second: Annotated[int | None, typer.Option(help="Requests a second at most.", show_default=False)] = None,
    burst: Annotated[int | None, typer.Option(help="Requests at once after a pause.", show_default=False)] = None,
    in_flight_max: Annotated[int | None, typer.Option(help="Requests at once at most.", show_default=False)] = None,
    may: Annotated[
        list[str] | None,
        typer.Option(metavar="RIGHT", help="What it may do: decide:fraud, infer:price*, metrics, …; may be repeated."),
    ] = None,
) -> None:
    """Add a caller; where it is known neither by --san nor by --uid, make a key and print it once.

    `anonymous` stands for callers that are not known, and gets no key.
    """
    from flyball.documents.config.callers import ANONYMOUS, new_key

    callers = _read(file, new=True)
    if any(known["name"] == name for known in callers):
        raise UsageError(f"there is a caller {name} already", next_step=f"flyball caller rotate {name}")
    key, kept = new_key()
    limits = {"requests_per_second": requests_per_second, "burst": burst, "in_flight_max": in_flight_max}
    entry = {"name": name, "sans": san or [], "uids": uid or [], **limits, "may": may or []}
    by_key = not san and not uid and name != ANONYMOUS
    if by_key:
        entry["keys_sha256"] = [kept]
    _write(file, [*callers, entry])
    if by_key:
        _show(name, key)
    if not may:
        sys.stderr.write(f"{name} may do nothing yet; give it a right:  flyball caller may {name} decide:NAME\n")


@caller.command("may")
def grant(
    name: _Name,
    rights: Annotated[
        list[str] | None, typer.Argument(metavar="[RIGHT]...", help="decide:fraud, infer:price*, metrics, …; none: nothing.")
    ] = None,
    file: _File = _DEFAULT,
) -> None:
    """Replace what a caller may do: VERB, VERB:NAME or VERB:PREFIX*.

    Verbs are infer, decide, outcome, override and control, which take names, and erase and metrics.
    """
    callers = _read(file)
    _one(callers, name, file)["may"] = rights or []
    _write(file, callers)


@caller.command()
def rotate(
    name: _Name,
    file: _File = _DEFAULT,
    drop_old: Annotated[bool, typer.Option("--drop-old", help="Make no key; drop all but the newest.")] = False,
) -> None:
    """Give a caller another key, valid beside the old one; later, with --drop-old, take the old one away."""
    from flyball.documents.config.callers import new_key

    callers = _read(file)
    entry = _one(callers, name, file)
    if drop_old:
        entry["keys_sha256"] = entry["keys_sha256"][-1:]
        _write(file, callers)
        return
    key, kept = new_key()
    entry["keys_sha256"] = [*entry["keys_sha256"], kept]
    _write(file, callers)
    _show(name, key)


@caller.command("list")
def show(file: _File = _DEFAULT, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the callers of a file. Keys are not in it, only their hashes."""
    from rich.table import Table

    from flyball.cli.output import console, print_json
    from flyball.documents.config.callers import read_callers

    callers = read_callers(file).callers
    if json:
        print_json([entry.model_dump() for entry in callers])
        return
    table = Table("caller", "keys", "certificates", "users", "requests/s", "burst", "in flight", "may", box=None)
    for entry in callers:
        table.add_row(*_row(entry))
    console().print(table)


@caller.command()
def remove(name: _Name, file: _File = _DEFAULT) -> None:
    """Take a caller away; its next request is refused."""
    callers = _read(file)
    callers.remove(_one(callers, name, file))
    _write(file, callers)


def _row(entry: Caller) -> list[str]:
    from rich.markup import escape

    limits = (entry.requests_per_second, entry.burst, entry.in_flight_max)
    marks = [str(len(entry.keys_sha256)), escape(" ".join(entry.sans)), " ".join(map(str, entry.uids))]
    return [entry.name, *marks, *("" if limit is None else str(limit) for limit in limits), " ".join(entry.may)]


def _read(file: Path, *, new: bool = False) -> list[dict[str, Any]]:
    from flyball.documents.config.callers import read_callers

    if new and not file.exists():
        return []
    return [entry.model_dump() for entry in read_callers(file).callers]


def _one(callers: list[dict[str, Any]], name: str, file: Path) -> dict[str, Any]:
    found = next((entry for entry in callers if entry["name"] == name), None)
    if found is None:
        raise UsageError(f"there is no caller {name} in {file}", next_step=f"flyball caller list --file {file}")
    return found


def _write(file: Path, callers: list[dict[str, Any]]) -> None:
    from flyball.documents.config.callers import checked, write_callers

    write_callers(file, checked({"callers": callers}, file))


def _show(name: str, key: str) -> None:
    sys.stdout.write(key + "\n")
    sys.stdout.flush()
    sys.stderr.write(f"the key of {name}; it is shown this once\n")
