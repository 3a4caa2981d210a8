"""Reads the files that a decision references, with size limits; faults are reported at their lines.

Must not know their use.
"""

from __future__ import annotations

import csv
import hashlib
import io
from typing import TYPE_CHECKING

from flyball.decision.fit.fitted import Fitted, read_fitted
from flyball.decision.spec.faults import Origin, fault_at
from flyball.documents.near_files import no_such_file
from flyball.errors import FlyballError, LineFault, plain_cause
from flyball.native.model_documents import ModelFiles
from flyball.native.models import model_files

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.documents.yaml_lines import Place

_TEXT_BYTES_MAX = 4 * 1024 * 1024


class Files:
    """Reads files relative to a folder; `faults` collects all problems."""

    def __init__(self, base: Path, origin: Origin) -> None:
        self.base = base
        self.origin = origin
        self.faults: list[LineFault] = []

    def wrong(self, place: Place, found: object, allowed: str, text: str | None = None) -> None:
        """Add a fault; `text` replaces its words."""
        self.faults.append(fault_at(self.origin, place, found, allowed, text))

    def at(self, path: str) -> Path:
        """The absolute path of a decision's path."""
        return (self.base / path).absolute()

    def values(self, place: Place, path: str) -> list[str]:
        """The non-empty lines of a text file."""
        return [line.strip() for line in (self._text(place, path) or "").splitlines() if line.strip()]

    def reasons(self, place: Place, path: str) -> tuple[dict[str, str], dict[str, str]]:
        """Texts by code and codes by field, from a CSV file with the columns code, text and optionally field."""
        text = self._text(place, path)
        if text is None:
            return {}, {}
        rows = csv.DictReader(io.StringIO(text))
        if not {"code", "text"} <= set(rows.fieldnames or ()) <= {"code", "text", "field"}:
            self.wrong(place, path, "a CSV file whose first line has code, text and, for reasons from the model, field")
            return {}, {}
        texts: dict[str, str] = {}
        codes: dict[str, str] = {}
        for row in rows:
            code, reason = (row["code"] or "").strip(), (row["text"] or "").strip()
            if not code or not reason:
                self.wrong(place, path, f"a code and a text in each line; line {rows.line_num} lacks one")
                continue
            texts[code] = reason
            for field in (row.get("field") or "").split():
                codes[field] = code
        return texts, codes

    def fitted(self, place: Place, path: str) -> Fitted | None:
        """Read the fitted parameters of transforms."""
        try:
            return read_fitted(self.at(path))
        except FlyballError as error:
            self.wrong(place, path, error.message)
        except FileNotFoundError:
            made = f"flyball fit {self.origin.path or 'SPEC'} --data ROWS"
            self.wrong(place, path, "a file that flyball fit wrote", f"there is no {path}; make it:  {made}")
        except OSError as error:
            self._unreadable(place, path, error)
        return None

    def model(self, place: Place, path: str, digest: str | None) -> ModelFiles | None:
        """A model's digests and signature; a given digest is verified."""
        try:
            files = model_files(self.at(path))
        except FlyballError as error:
            if not self.at(path).exists():
                self._unreadable((*place, "path"), path, FileNotFoundError())
            else:
                self.wrong((*place, "path"), path, f"an ONNX file that can be read: {error.message}")
            return None
        if digest is not None and files.digest != digest:
            self.wrong((*place, "digest"), digest, f"the file's own digest, {files.digest}; is it another version?")
        return files

    def digest(self, place: Place, path: str, digest: str | None) -> str | None:
        """The digest of a model's sidecar file; a given digest is verified."""
        try:
            with self.at(path).open("rb") as file:
                found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        except OSError as error:
            self._unreadable(place, path, error)
            return None
        if digest is not None and found != digest:
            self.wrong((*place, "digest"), digest, f"the file's own digest, {found}; is it another version?")
        return found

    def _text(self, place: Place, path: str) -> str | None:
        try:
            with self.at(path).open("rb") as file:
                raw = file.read(_TEXT_BYTES_MAX + 1)
            if len(raw) > _TEXT_BYTES_MAX:
                self.wrong(place, path, "a file of at most 4 MiB")
                return None
            return raw.decode("utf-8-sig")
        except OSError as error:
            self._unreadable(place, path, error)
        except UnicodeDecodeError as error:
            self.wrong(place, path, f"text in UTF-8: {error.reason} at byte {error.start}")
        except ValueError:
            self.wrong(place, path, "the path of a file")
        return None

    def _unreadable(self, place: Place, path: str, error: OSError) -> None:
        why = no_such_file(self.base / path) if isinstance(error, FileNotFoundError) else plain_cause(error)
        self.wrong(place, path, "a file that can be read", f"cannot read {path}: {why}")
