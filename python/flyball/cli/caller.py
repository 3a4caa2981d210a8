"""`flyball caller`: manages a server's callers. Writes the `--callers` file, which a running server reloads.

A key is printed once, alone on stdout, so that it can be piped into a secret store; the file has only its hash.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.flag_faults import FlagFault, refused
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, printed_as_json
from flyball.errors import ConfigRefusedError, UsageError

if TYPE_CHECKING:
    from flyball.documents.config.callers import Caller

caller = typer.Typer(
    name="caller",
    no_args_is_help=True,
    help=(
        "Manage who may call a server, their rights and limits.\n\n"
        "    flyball caller add shop --may decide:card-fraud\n\n"
        "    flyball serve --decision card-fraud.yaml --callers callers.json"
    ),
)

_Name = Annotated[str, argument("The caller's name, as in metrics.", metavar="NAME")]
_File = Annotated[Path, option("The callers' file.", "--callers", metavar="FILE")]
_DEFAULT = Path("callers.json")


@caller.command()
def add(
    name: _Name,
    file: _File = _DEFAULT,
    san: Annotated[
        list[str] | None, option("A name (SAN) in the caller's certificate; may be repeated.", metavar="NAME")
    ] = None,
    uid: Annotated[
        list[int] | None, option("A user id that connects over a Unix socket; may be repeated.", metavar="N")
    ] = None,
    requests_per_second: Annotated[int | None, option("Maximum requests per second.")] = None,
    burst: Annotated[int | None, option("Requests allowed in one burst.")] = None,
    in_flight_max: Annotated[int | None, option("Maximum requests in flight.")] = None,
    may: Annotated[
        list[str] | None, option("A right: decide:fraud, infer:price*, metrics, …; may be repeated.", metavar="RIGHT")
    ] = None,
) -> None:
    """Add a caller. Without --san and --uid, generate an API key and print it once.

    `anonymous` is the caller of unauthenticated requests; it gets no key.

        flyball caller add shop --may decide:card-fraud --requests-per-second 500
    """
    from flyball.documents.config.callers import ANONYMOUS, new_key

    callers = _read(file, new=True)
    if any(known["name"] == name for known in callers):
        step = f"another key for it:  flyball caller rotate {name}"
        raise UsageError(f"{file} has a caller {name} already", next_step=step)
    key, kept = new_key()
    limits = {"requests_per_second": requests_per_second, "burst": burst, "in_flight_max": in_flight_max}
    entry = {"name": name, "sans": san or [], "uids": uid or [], **limits, "may": may or []}
    by_key = not san and not uid and name != ANONYMOUS
    if by_key:
        entry["keys_sha256"] = [kept]
    _write(file, [*callers, entry], changed=len(callers), may="--may")
    if by_key:
        _show(key)
    said = f"added {name} to {file}" + ("; its key is shown only now" if by_key else "")
    if may:
        sys.stderr.write(f"{said}\nNext:  flyball serve MODEL.onnx --callers {file}\n")
    else:
        sys.stderr.write(f"{said}; it has no rights yet\nNext:  flyball caller may {name} infer --callers {file}\n")


@caller.command("may")
def grant(
    name: _Name,
    rights: Annotated[
        list[str] | None, argument("decide:fraud, infer:price*, metrics, …; none removes all rights.", metavar="[RIGHT]...")
    ] = None,
    file: _File = _DEFAULT,
) -> None:
    """Replace the rights of a caller: VERB, VERB:NAME or VERB:PREFIX*.

    Verbs are infer, decide, outcome, override and control, which take names, and erase and metrics.

        flyball caller may shop decide:card-fraud infer:price* metrics
    """
    callers = _read(file)
    entry = _one(callers, name, file)
    entry["may"] = rights or []
    _write(file, callers, changed=callers.index(entry))
    sys.stderr.write(f"{name} may {' '.join(rights) if rights else 'do nothing'}, in {file}\n")


@caller.command()
def rotate(
    name: _Name,
    file: _File = _DEFAULT,
    drop_old: Annotated[bool, option("Generate no key; remove all but the newest.", "--drop-old")] = False,
) -> None:
    """Add a second key for a caller, valid beside the old one; --drop-old later removes the old one.

    flyball caller rotate shop

    flyball caller rotate shop --drop-old
    """
    from flyball.documents.config.callers import new_key

    callers = _read(file)
    entry = _one(callers, name, file)
    if drop_old:
        entry["keys_sha256"] = entry["keys_sha256"][-1:]
        _write(file, callers)
        sys.stderr.write(f"{name} has one key left, in {file}\n")
        return
    key, kept = new_key()
    entry["keys_sha256"] = [*entry["keys_sha256"], kept]
    _write(file, callers)
    _show(key)
    sys.stderr.write(f"added a key of {name} to {file}; it is shown only now\n")


@caller.command("list")
def show(file: _File = _DEFAULT, json: AsJson = False) -> None:
    """List the callers in a file. The file has no keys, only their hashes.

    flyball caller list --callers callers.json
    """
    from rich.table import Table

    from flyball.documents.config.callers import read_callers

    callers = read_callers(file).callers
    if printed_as_json(callers, json):
        return
    table = Table("caller", "keys", "certificates", "users", "requests/s", "burst", "in flight", "may", box=None)
    for entry in callers:
        table.add_row(*_row(entry))
    console().print(table)


@caller.command()
def remove(name: _Name, file: _File = _DEFAULT) -> None:
    """Remove a caller; its next request is refused.

    flyball caller remove shop
    """
    callers = _read(file)
    callers.remove(_one(callers, name, file))
    _write(file, callers)
    sys.stderr.write(f"removed {name} from {file}\n")


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
        names = ", ".join(entry["name"] for entry in callers)
        raise UsageError(f"no caller {name} in {file}; it has {names}", next_step=f"flyball caller list --callers {file}")
    return found


def _write(file: Path, callers: list[dict[str, Any]], changed: int | None = None, may: str = "RIGHT") -> None:
    """Check and write the file; faults of the caller that was `changed` are those of its options, rights of `may`."""
    from flyball.documents.config.callers import checked, write_callers

    try:
        write_callers(file, checked({"callers": callers}, file))
    except ConfigRefusedError as error:
        flags = [(_flag(fault.path, changed, may), fault) for fault in error.faults]
        if not all(flag for flag, _ in flags):
            raise
        faults = [FlagFault(str(flag), fault.found, fault.allowed) for flag, fault in flags]
        raise refused(faults, "see the rights and limits:  flyball caller add --help") from error


def _flag(path: str, changed: int | None, may: str) -> str | None:
    """The option of a fault's path; None if it is not about the changed caller."""
    entry = f"callers[{changed}]."
    key = path.removeprefix(entry).partition("[")[0]
    options = {"name": "NAME", "may": may, "sans": "--san", "uids": "--uid"}
    return options.get(key, f"--{key.replace('_', '-')}") if path.startswith(entry) else None


def _show(key: str) -> None:
    """Print a key alone on stdout, before anything else is said of it."""
    sys.stdout.write(key + "\n")
    sys.stdout.flush()
