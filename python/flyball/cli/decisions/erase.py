"""`flyball decisions erase`: deletes a subject's key, and with it their personal data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from flyball.cli.decisions.hold import By, Why
from flyball.cli.decisions.options import FOLDER, Folder, Kek, Key, Url
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, counted, printed_as_json


def erase(
    subject: Annotated[
        list[str], argument("The value of the decision's key field; one for each key field.", metavar="SUBJECT...")
    ],
    by: By,
    why: Why,
    url: Url = None,
    journal: Folder = FOLDER,
    kek: Kek = None,
    key: Key = None,
    feature_key: Annotated[
        list[str] | None, option("Another feature key of the subject; may be repeated.", metavar="KEY")
    ] = None,
    features_folder: Annotated[Path | None, option("Folder of the windows, if no server runs.", metavar="DIR")] = None,
    store: Annotated[
        list[Path] | None, option("A .redb feature store, if no server runs; may be repeated.", metavar="FILE")
    ] = None,
    json: AsJson = False,
) -> None:
    """Erase a subject's personal data: in the log, Parquet, windows and feature stores. It cannot be undone.

    Records stay, with their outcomes, and still verify; `show`, `query` and `replay` report `erased`. Backups of the
    keys must expire. Fails if the subject is unknown, and while a legal hold covers one of their records.

        flyball decisions erase c-0007 --by ana --reason 'request 1734'
    """
    from flyball.decision_log.retention.erase import FeatureData, subject_of
    from flyball.decision_log.retention.erase import erase as run

    features = FeatureData(feature_key or [], features_folder, store or [])
    erased = run(subject_of(subject), by=by, why=why, url=url, folder=journal, kek=kek, key=key, features=features)
    if printed_as_json(erased, json):
        return
    rows = {"windows": erased.windows, "caches": erased.cached, "stores": erased.stored}
    removed = ", ".join(f"{count:,} in {name}" for name, count in rows.items() if count)
    rows_removed = f"; feature rows removed: {removed}" if removed else ""
    console().print(f"erased: {counted(erased.records, 'record')}{rows_removed}", markup=False)
