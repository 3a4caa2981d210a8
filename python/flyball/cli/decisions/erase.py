"""`flyball decisions erase`: a subject's key is deleted, and with it all that is personal about it."""

from __future__ import annotations

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
    json: AsJson = False,
) -> None:
    """Erase what is personal about a subject, everywhere: log, Parquet and copies of both. It cannot be undone.

    Records stay, with their outcome, and still verify; `show`, `query` and `replay` answer `erased`. Backups of the keys
    must expire. Refused while a legal hold names a record of the subject.
    """
    from flyball.cli.output import console, print_json
    from flyball.decisions.erase import erase as run
    from flyball.decisions.erase import subject_of

    run(subject_of(subject), by=by, why=why, url=url, folder=journal, kek=kek, key=key)
    if json:
        print_json({"erased": True})
    else:
        console().print("erased, and recorded")
