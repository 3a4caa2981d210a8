"""`flyball features`: fills the stores that decisions look features up in, and looks at one record."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from flyball.features import Target

features = typer.Typer(name="features", help="Fill stores of features, and look at them.", no_args_is_help=True)

_Set = Annotated[str, typer.Option("--set", metavar="NAME", help="The records of one kind of key, such as cards.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@features.command()
def push(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows: .parquet, .csv or .jsonl.")],
    set_name: _Set,
    key: Annotated[str, typer.Option(metavar="COLUMN", help="The column that is the key.")],
    to: Annotated[
        str | None, typer.Option(metavar="PLACE", help="redis://HOST:PORT, or a file .redb.", show_default=False)
    ] = None,
    to_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The variable that has the place.", show_default=False)
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="The record's fields; all but the key if not given.", show_default=False),
    ] = None,
    expire_s: Annotated[
        int | None, typer.Option(min=1, help="In Redis: how long a record lives; without it, for ever.", show_default=False)
    ] = None,
    json: _Json = False,
) -> None:
    """Write one record for each row of a file.

    In Redis records are replaced one by one, and none is removed. In a store the whole set is replaced when all is written;
    servers notice by themselves.
    """
    from flyball.cli.output import console, print_json
    from flyball.cli.progress import progress_on
    from flyball.features import push as push_rows

    target = _target(to, to_env, "--to")
    if expire_s is not None and target.store is not None:
        raise UsageError("--expire-s is for Redis; a store keeps its set until the next push")
    began = time.monotonic()
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin(f"push {set_name}", 1.0)
        pushed = push_rows(
            file,
            target,
            set_name,
            key,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            expire_s=expire_s,
            told=lambda done, total: step.update(done / total, f"{done:,} of {total:,}"),
        )
        step.end(f"{pushed.rows:,} rows in {time.monotonic() - began:.1f} s")
    if json:
        print_json({"to": str(target), "set": set_name, "rows": pushed.rows, "bytes": pushed.bytes})
        return
    console().print(f"{pushed.rows:,} records, {pushed.bytes:,} bytes: set {set_name} of {target}", markup=False)


@features.command()
def get(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The record's key.")],
    set_name: _Set,
    source: Annotated[
        str | None, typer.Option("--from", metavar="PLACE", help="redis://HOST:PORT, or a file .redb.", show_default=False)
    ] = None,
    source_env: Annotated[
        str | None, typer.Option("--from-env", metavar="NAME", help="The variable that has the place.", show_default=False)
    ] = None,
    json: _Json = False,
) -> None:
    """Show one record as decisions would find it."""
    from flyball.cli.output import console, print_json
    from flyball.features import get as get_record

    target = _target(source, source_env, "--from")
    record = get_record(target, set_name, key)
    if record is None:
        raise NotFoundError(f"set {set_name} of {target} has no key {key!r}", code="key_not_found")
    if json:
        print_json(record)
        return
    out = console()
    for name, value in record["fields"].items():
        out.print(f"{name:<24} {value!r}", markup=False)
    if "at" in record:
        out.print(f"written {max(0.0, time.time() - record['at'] / 1000):,.0f} s ago", style="dim", markup=False)


def _target(place: str | None, variable: str | None, option: str) -> Target:
    from flyball.features import Target

    if (place is None) == (variable is None):
        raise UsageError(
            f"name either {option} or {option}-env", next_step=f"{option} redis://HOST:PORT   or   {option} store.redb"
        )
    return Target.parse(place) if place is not None else Target.of_environment(variable or "")
