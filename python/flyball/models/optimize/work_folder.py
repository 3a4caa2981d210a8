"""The folder of a run: a document for each finished step and the models that were made. It survives a kill at any moment.

A step's document is written whole, after its files; it carries a key over everything that it depends on. A later run takes a
document only where the key is the same and the files are as they were, so nothing stale is ever believed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.documents.durable_file import making_folder, read_json, write_json
from flyball.errors import FlyballError, LockedError, RefusedError
from flyball.models.equivalence.certificate import CERTIFICATE
from flyball.native.models import model_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FORMAT = 1
CHOSEN, CHOSEN_DECISION, REPORT, PAGE = "chosen.onnx", "chosen", "report.json", "report.html"
_RESULTS = (CHOSEN, CERTIFICATE, REPORT, PAGE)
_LOCK = ".flyball-optimize"  # made first: a folder without it is somebody else's
MAKING = "flyball-rewrite-"


@dataclass(frozen=True, slots=True)
class Work:
    """Where a run keeps what it has."""

    folder: Path

    @property
    def models(self) -> Path:
        """Every model that was made, by name."""
        return self.folder / "models"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the folders and keep other runs out; one that holds anything else is not touched.

        What an earlier run came to is taken away: a run that fails leaves no result, least of all that of another model.
        """
        lock = self.folder / _LOCK
        if self.folder.is_dir() and any(self.folder.iterdir()) and not lock.is_file():
            raise RefusedError(f"{self.folder} has other files in it", next_step="name a new folder:  --work DIR")
        making_folder(self.folder)
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise LockedError(
                    f"another run works in {self.folder}",
                    code="work_locked",
                    next_step="wait for it, or name another:  --work DIR",
                ) from error
            making_folder(self.models)
            making_folder(self._steps)
            for name in _RESULTS:
                (self.folder / name).unlink(missing_ok=True)
            for left in (self.folder / CHOSEN_DECISION, *self.models.glob(f"{MAKING}*")):
                shutil.rmtree(left, ignore_errors=True)
            yield

    def finished(self, place: int, name: str, key: str) -> dict[str, Any] | None:
        """The document of a step that ran with the same key, if the models that it made are still what they were."""
        try:
            kept = read_json(self._file(place, name))
        except RefusedError:  # a file that was changed by hand, or by a disk: the step runs again
            return None
        if not isinstance(kept, dict) or kept.get("format") != _FORMAT or kept.get("key") != key:
            return None
        if any(self._digest(model) != digest for model, digest in kept["models"].items()):
            return None
        found: dict[str, Any] = kept["document"]
        return found

    def finish(self, place: int, name: str, key: str, document: dict[str, Any], models: dict[str, str]) -> None:
        """Keep what a step found; `models` are the digests of those that it made, by file name."""
        kept = {"format": _FORMAT, "step": name, "key": key, "models": models, "document": document}
        write_json(self._file(place, name), kept)

    @property
    def _steps(self) -> Path:
        return self.folder / "steps"

    def _file(self, place: int, name: str) -> Path:
        return self._steps / f"{place:02}-{name}.json"

    def _digest(self, model: str) -> str | None:
        try:
            return model_files(self.models / model).digest
        except FlyballError:
            return None


def key_of(before: str, name: str, settings: Any) -> str:
    """Over the step, its settings, and the key of the step before it, which covers all that came before."""
    said = json.dumps([before, name, settings], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode()).hexdigest()
