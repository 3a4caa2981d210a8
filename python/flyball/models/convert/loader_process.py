"""`python -m flyball.models.convert.loader_process JOB`: loads a model's file and extracts its parts.

It gets one folder with a job, and writes plain files there: ONNX, JSON, arrays. It enters a sandbox
(`flyball.native.sandbox`) before it imports a model's package, and loads a pickle only if that succeeded. Its parent
trusts none of its output. Must not know decisions.
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
from flyball.models.convert.file_kinds import RUNS_CODE, Kind

if TYPE_CHECKING:
    from flyball.native.sandbox import Watch

ERROR, JOB, DATA = "error.json", "job.json", "data.parquet"
_PACKAGES = ("lightgbm", "xgboost", "sklearn", "torch")
"""Packages that flyball has an extra of the same name for."""


def main(folder: Path) -> int:
    """Run the job; an error is written as a file too."""
    try:
        _work(folder)
    except FlyballError as error:
        document = {"kind": type(error).__name__, "message": error.message, "code": error.code, "next": error.next_step}
        (folder / ERROR).write_text(json.dumps(document))
        return 1
    return 0


def _work(folder: Path) -> None:
    from flyball.native.sandbox import seal

    job = json.loads((folder / JOB).read_bytes())
    path, kind = Path(job["source"]), job["kind"]
    try:
        seal(folder, path)
    except UsageError:
        # Kinds that run no code open without a sandbox too; readers have bugs, so one is used where possible.
        if kind in RUNS_CODE:
            raise
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _loaded(path, kind)
    from flyball.models.convert.comparison_rows import make_reference
    from flyball.models.convert.extract import original_of
    from flyball.models.convert.table import read_table

    table = read_table(folder / DATA)
    original = original_of(model, table, name=job["name"], element=job["element"])
    original.parts.notes.extend(_about_versions(caught))
    make_reference(original, table, rows_max=job["rows_max"]).write(folder)


def _loaded(path: Path, kind: Kind) -> Any:
    """Load a file; forbidden actions are reported, even if the file hides their failure."""
    from flyball.models.convert.file_kinds import opened
    from flyball.native.sandbox import watch

    _import_before(path, kind)
    watching = watch()
    try:
        return opened(path, kind)
    except FlyballError:
        raise
    except ImportError as error:
        raise _not_installed(path, error) from error
    except Exception as error:
        # A pickle may raise anything.
        raise InvalidInputError(
            f"cannot load {path}: {type(error).__name__}: {error}",
            next_step="load it where it was made, with the same package versions, and convert it there in Python",
        ) from error
    finally:
        _refuse_what_was_tried(path, watching)  # replaces any other error


def _import_before(path: Path, kind: Kind) -> None:
    """Import packages first: they probe the system, torch even with a subprocess, and later actions are the file's own."""
    content = path.read_bytes()
    for package in _PACKAGES:
        if kind == package or (kind == "pickle" and package.encode() in content):
            with contextlib.suppress(ImportError):  # reported when the file needs it
                importlib.import_module(package)


def _refuse_what_was_tried(path: Path, watch: Watch) -> None:
    if watch.tried:
        raise InvalidInputError(
            f"{path} tried to {watch.tried[0]} while loading; it was blocked, and nothing is kept",
            code="pickle_refused",
            next_step="do not trust this file: ask its author for LightGBM's text, XGBoost's .json or .onnx",
        )


def _not_installed(path: Path, error: ImportError) -> FlyballError:
    package = (error.name or "").partition(".")[0]
    if package in _PACKAGES:
        return MissingExtraError(
            f"{path} requires {package}, which is not installed",
            next_step=f"install it:  pip install 'flyball[{package}]'",
        )
    return InvalidInputError(
        f"cannot load {path}: {error}",
        next_step=f"install the package that provides {package or 'it'}, or convert in Python where it is installed:"
        "  flyball.convert.convert(model, data=…, out=…)",
    )


def _about_versions(caught: list[warnings.WarningMessage]) -> list[str]:
    """scikit-learn's warnings about a pickle from another version."""
    texts = (" ".join(str(one.message).split()) for one in caught if "version" in str(one.message))
    return list(dict.fromkeys(texts))[:4]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
