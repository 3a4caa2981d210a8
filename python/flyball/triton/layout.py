"""A model repository on disk in Triton's layout: DIR/<model>/config.pbtxt and DIR/<model>/<number>/model.onnx.

Finds folders and reads small files; must not know what a configuration means.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flyball.documents.snapshot.models import LABEL_CHARACTERS_MAX, LABELS_MAX
from flyball.errors import ModelRefusedError, UsageError
from flyball.triton.config import CONFIG_BYTES_MAX

CONFIG = "config.pbtxt"
_CUSTOM_CONFIGS = "configs"
_MODELS_MAX = 1000
_VERSION = re.compile(r"[1-9][0-9]*")
_LABEL_FILE_BYTES_MAX = 4 * LABELS_MAX * LABEL_CHARACTERS_MAX


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """One model's folder: its name, and its versions by number."""

    path: Path
    versions: dict[int, Path]

    @property
    def name(self) -> str:
        """The model's name for clients."""
        return self.path.name

    def labels(self, file_name: str) -> list[str]:
        """The lines of a label file beside the configuration; the error says why it cannot be read."""
        if not _plain(file_name):
            raise ModelRefusedError(f"{file_name!r} is not a file in the model's folder")
        lines = _text(self.path, file_name, _LABEL_FILE_BYTES_MAX).removesuffix("\n").split("\n")
        return [line.removesuffix("\r") for line in lines]


def scan(repositories: Sequence[Path]) -> dict[str, list[Path]]:
    """The folders of the repositories' models, by name. Files and hidden folders are ignored."""
    folders: dict[str, list[Path]] = {}
    for repository in repositories:
        if not repository.is_dir():
            raise UsageError(
                f"--model-repository: {repository} is not a folder", next_step="name a folder with one folder per model"
            )
        for path in repository.iterdir():
            if path.is_dir() and not path.name.startswith("."):
                folders.setdefault(path.name, []).append(path)
    if len(folders) > _MODELS_MAX:
        raise UsageError(f"--model-repository: there are {len(folders)} models; at most {_MODELS_MAX} are allowed")
    return dict(sorted(folders.items()))


def stamp(folders: Sequence[Path]) -> tuple[tuple[str, int, int, int], ...]:
    """Changes whenever a file of these folders does: their paths, sizes, times and inodes. Reads no file."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # it was just removed
                found.append(_stamp(path))
    return tuple(found)


def config_stamp(folder: Path, config_name: str | None) -> tuple[str, int, int, int] | None:
    """Changes whenever the model's configuration file does; None without one that can be read."""
    with contextlib.suppress(OSError):
        file = _config_file(folder, config_name)
        return None if file is None else _stamp(folder / file)
    return None


def config_text(folder: Path, config_name: str | None) -> tuple[str, str] | None:
    """The model's configuration file and its text, or None. `config_name` is that of --model-config-name."""
    file = _config_file(folder, config_name)
    return None if file is None else (file, _text(folder, file, CONFIG_BYTES_MAX))


def model_folder(path: Path) -> ModelFolder:
    """One model's folder. As in Triton, a version is a number without leading zeros; other entries are ignored."""
    found = [entry for entry in path.iterdir() if entry.is_dir() and _VERSION.fullmatch(entry.name)]
    return ModelFolder(path, {int(entry.name): entry for entry in sorted(found, key=lambda entry: int(entry.name))})


def model_file(version: Path, file_name: str) -> Path:
    """The model file in a version's folder; the error says why there is none."""
    if not _plain(file_name):
        raise ModelRefusedError(f"default_model_filename {file_name!r} is not a file in the version's folder")
    path = version / file_name
    if path.is_dir():
        raise ModelRefusedError(
            f"{version.name}/{file_name} is a folder; a model with external weights is served from its file: "
            f"move the folder's content up to {version.name}/"
        )
    if not path.is_file():
        there = sorted(entry.name for entry in version.iterdir())
        raise ModelRefusedError(f"{version.name}/{file_name} does not exist{_instead(there)}")
    return path


def _instead(names: list[str]) -> str:
    return f" (the folder has {', '.join(names[:4])}{', …' * (len(names) > 4)})" if names else " (the folder is empty)"


def _plain(name: str) -> bool:
    return bool(name) and name not in {".", ".."} and "/" not in name and "\\" not in name and "\0" not in name


def _config_file(folder: Path, config_name: str | None) -> str | None:
    custom = [f"{_CUSTOM_CONFIGS}/{config_name}.pbtxt"] if config_name else []
    return next((file for file in (*custom, CONFIG) if (folder / file).is_file()), None)


def _stamp(path: Path) -> tuple[str, int, int, int]:
    state = path.stat()
    return str(path), state.st_size, state.st_mtime_ns, state.st_ino


def _text(folder: Path, file: str, bytes_max: int) -> str:
    path = folder / file
    try:
        if path.stat().st_size > bytes_max:
            raise ModelRefusedError(f"{file} is larger than {bytes_max} bytes")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelRefusedError(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise ModelRefusedError(f"cannot read {file}: {error.strerror}") from error
