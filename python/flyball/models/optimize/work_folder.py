"""The work folder of a run: a document per finished step, and the models. It survives a kill at any moment.

A step's document is written atomically, after its files, with a key over all its inputs. A later run reuses a document only
if the key matches and the files are unchanged, so that nothing stale is used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyball.documents.durable_file import making_folder, read_json, write_json
from flyball.errors import FlyballError, LockedError, RefusedError
from flyball.models.equivalence.certificate import CERTIFICATE
from flyball.native.models import model_files

_FORMAT = 1
CHOSEN, CHOSEN_DECISION, REPORT, PAGE = "chosen.onnx", "chosen", "report.json", "report.html"
_RESULTS = (CHOSEN, CERTIFICATE, REPORT, PAGE)
_LOCK = ".flyball-optimize"  # created first: a folder without it belongs to something else
MAKING = "flyball-rewrite-"


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """A run's folder."""

    folder: Path

    @property
    def models(self) -> Path:
        """The folder of all models, by name."""
        return self.folder / "models"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Create the folders and lock them; a folder with other files is refused.

        Earlier results are deleted: a failed run must leave no result, least of all another model's.
        """
        lock = self.folder / _LOCK
        if self.folder.is_dir() and any(self.folder.iterdir()) and not lock.is_file():
            raise RefusedError(f"--out: {self.folder} contains other files", next_step="name a new folder:  --out DIR")
        making_folder(self.folder)
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise LockedError(
                    f"--out: another run uses {self.folder}",
                    code="work_locked",
                    next_step="wait for it, or name another folder:  --out DIR",
                ) from error
            making_folder(self.models)
            making_folder(self._steps)
            for name in _RESULTS:
                (self.folder / name).unlink(missing_ok=True)
            for left in (self.folder / CHOSEN_DECISION, *self.models.glob(f"{MAKING}*")):
                shutil.rmtree(left, ignore_errors=True)
            yield

    def finished(self, index: int, name: str, key: str) -> dict[str, Any] | None:
        """The document of a step that ran with the same key, if its models are unchanged."""
        try:
            kept = read_json(self._file(index, name))
        except RefusedError:  # changed by hand or by a faulty disk: the step runs again
            return None
        if not isinstance(kept, dict) or kept.get("format") != _FORMAT or kept.get("key") != key:
            return None
        if any(self._digest(model) != digest for model, digest in kept["models"].items()):
            return None
        found: dict[str, Any] = kept["document"]
        return found

    def finish(self, index: int, name: str, key: str, document: dict[str, Any], models: dict[str, str]) -> None:
        """Store a step's result; `models` are its models' digests by file name."""
        kept = {"format": _FORMAT, "step": name, "key": key, "models": models, "document": document}
        write_json(self._file(index, name), kept)

    @property
    def _steps(self) -> Path:
        return self.folder / "steps"

    def _file(self, index: int, name: str) -> Path:
        return self._steps / f"{index:02}-{name}.json"

    def _digest(self, model: str) -> str | None:
        try:
            return model_files(self.models / model).digest
        except FlyballError:
            return None


def key_of(before: str, name: str, settings: Any) -> str:
    """A key over the step, its settings, and the previous step's key."""
    content = json.dumps([before, name, settings], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()
