"""`flyball decisions erase`: a subject's key is deleted, and with it all that is personal about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.decisions.hold import By, Why
from flyball.cli.decisions.options import FOLDER, AsJson, Folder, Kek, Key, Url


def erase(
    subject: Annotated[
        list[str], typer.Argument(metavar="SUBJECT...", help="The value of the decision's key field; several where it has.")
    ],
    by: By,
    why: Why,
    url: Url = None,
    journal: Folder = FOLDER,
    kek: Kek = None,
    key: Key = None,
    feature_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="A further key of features that is the subject's; repeatable.", show_default=False),
    ] = None,
    features_folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where windows are kept, if no server runs.", show_default=False),
    ] = None,
    store: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A store of features .redb, if no server runs; repeatable.", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Erase what is personal about a subject: in the log, in Parquet, in windows and stores. It cannot be undone.

    Records stay, with their outcome, and still verify; `show`, `query` and `replay` answer `erased`. Backups of the keys
    must expire. Fails where nothing is known of the subject, and while a legal hold covers one of its records.
    """
    from dataclasses import asdict

    from flyball.cli.output import console, counted, print_json
    from flyball.decision_log.retention.erase import Beside, subject_of
    from flyball.decision_log.retention.erase import erase as run

    beside = Beside(feature_key or [], features_folder, store or [])
    erased = run(subject_of(subject), by=by, why=why, url=url, folder=journal, kek=kek, key=key, beside=beside)
    if json:
        print_json(asdict(erased))
        return
    rows = {"windows": erased.windows, "caches": erased.cached, "stores": erased.stored}
    removed = ", ".join(f"{count:,} in {place}" for place, count in rows.items() if count)
    features = f"; rows of features removed: {removed}" if removed else ""
    console().print(f"erased: {counted(erased.records, 'record')}{features}", markup=False)
