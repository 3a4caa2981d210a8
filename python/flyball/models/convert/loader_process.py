"""`python -m flyball.models.convert.loader_process JOB`: the process in which a model's file is loaded and taken apart.

It gets one folder, with what is asked, and leaves plain files there: ONNX, JSON, arrays. It is closed off
(`flyball.native.sandbox`) before it imports a package of the model, and loads a pickle only where that worked. Whoever
started it trusts nothing that it finds. Must not know decisions.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError, InvalidInputError, MissingExtraError, UsageError
from flyball.models.convert.file_kinds import RUNS_CODE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.models.convert.file_kinds import Kind
    from flyball.native.sandbox import Watch

ERROR, JOB, DATA = "error.json", "job.json", "data.parquet"
_INSTALLED_BY = {"lightgbm": "lightgbm", "xgboost": "xgboost", "sklearn": "sklearn", "torch": "torch"}


def main(folder: Path) -> int:
    """Do what the job asks; an error is left as a file too."""
    try:
        _work(folder)
    except FlyballError as error:
        told = {"kind": type(error).__name__, "message": error.message, "code": error.code, "next": error.next_step}
        (folder / ERROR).write_text(json.dumps(told))
        return 1
    return 0


def _work(folder: Path) -> None:
    from flyball.native.sandbox import seal

    job = json.loads((folder / JOB).read_bytes())
    path, kind = Path(job["source"]), job["kind"]
    with _needed_where_code_runs(kind):
        seal(folder, path)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = _loaded(path, kind)
    from flyball.models.convert.comparison_rows import examine
    from flyball.models.convert.in_memory import original_of
    from flyball.models.convert.table import read_table

    table = read_table(folder / DATA)
    original = original_of(model, table, name=job["name"], element=job["element"])
    original.parts.notes.extend(_about_versions(heard))
    examine(original, table, rows_max=job["rows_max"]).write(folder)


def _loaded(path: Path, kind: Kind) -> Any:
    """What a file holds; whatever it tried beside is told, even where it hid that it failed."""
    from flyball.models.convert.file_kinds import opened
    from flyball.native.sandbox import watch

    _import_before(path, kind)
    heard = watch()
    try:
        model = opened(path, kind)
    except FlyballError:
        _refuse_what_was_tried(path, heard)
        raise
    except ImportError as error:
        _refuse_what_was_tried(path, heard)
        raise _not_installed(path, error) from error
    except Exception as error:
        # A pickle may raise anything at all.
        _refuse_what_was_tried(path, heard)
        raise InvalidInputError(
            f"{path} cannot be loaded: {type(error).__name__}: {error}",
            next_step="load it where it was made, with the same versions of its packages, and convert it there in Python",
        ) from error
    _refuse_what_was_tried(path, heard)
    return model


@contextlib.contextmanager
def _needed_where_code_runs(kind: Kind) -> Iterator[None]:
    """What runs no code is opened elsewhere too; readers have faults, so it is closed off where that can be done."""
    try:
        yield
    except UsageError:
        if kind in RUNS_CODE:
            raise


def _import_before(path: Path, kind: Kind) -> None:
    """Packages look round when they are imported, torch by a program even: what is heard later is the file's own doing."""
    content = path.read_bytes()
    for package in _INSTALLED_BY:
        if kind == package or (kind == "pickle" and package.encode() in content):
            with contextlib.suppress(ImportError):  # told when the file wants it
                importlib.import_module(package)


def _refuse_what_was_tried(path: Path, watch: Watch) -> None:
    if watch.tried:
        raise InvalidInputError(
            f"{path} tried to {watch.tried[0]} while it was loaded; it was stopped, and nothing of it is kept",
            code="pickle_refused",
            next_step="do not trust this file: ask whoever made it for LightGBM's text, XGBoost's .json or .onnx",
        )


def _not_installed(path: Path, error: ImportError) -> FlyballError:
    package = (error.name or "").partition(".")[0]
    if package in _INSTALLED_BY:
        return MissingExtraError(
            f"{path} needs {package}, which is not installed",
            next_step=f"install it:  pip install 'flyball[{_INSTALLED_BY[package]}]'",
        )
    return InvalidInputError(
        f"{path} cannot be loaded: {error}",
        next_step=f"install the package that has {package or 'it'}, or convert in Python where it is:"
        "  flyball.convert.convert(model, data=…, out=…)",
    )


def _about_versions(heard: list[warnings.WarningMessage]) -> list[str]:
    """What scikit-learn says of a pickle that another version made."""
    told = (" ".join(str(one.message).split()) for one in heard if "version" in str(one.message))
    return list(dict.fromkeys(told))[:4]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
