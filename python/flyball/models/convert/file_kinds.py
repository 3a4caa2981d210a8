"""What a file of a trained model is, told by its content; and how each kind is opened.

Opening runs other people's code: LightGBM's and XGBoost's readers, and whatever a pickle wants to run. So it happens in a
process of its own (`loader_process`). Must not know decisions.
"""

from __future__ import annotations

import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Literal

from flyball.errors import InvalidInputError, ModelRefusedError

if TYPE_CHECKING:
    from pathlib import Path

Kind = Literal["lightgbm", "xgboost", "pickle", "onnx", "torch"]

CAN_BE_READ = (
    "LightGBM's text (.txt), XGBoost's .json and .ubj, scikit-learn's pipelines and estimators as .pkl or .joblib, .onnx,"
    " and programs of torch.export (.pt2)"
)
RUNS_CODE = ("pickle", "torch")
"""Kinds that may run code of their maker when they are opened."""
_HEAD_BYTES = 4096
_ONNX_START = 0x08  # the version of its format, the first field of every file
_PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
# As joblib writes them: by zlib at its levels, gzip, bzip2 and xz.
_COMPRESSED = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")


def kind_of(path: Path) -> Kind:
    """What a file is; refused with what can be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {path}: {error.strerror}", next_step="give the file of a trained model"
        ) from error
    if not head:
        raise InvalidInputError(f"{path} is empty", next_step="save the model again")
    if head.startswith((b"tree\n", b"tree\r\n")):
        return "lightgbm"
    if head.startswith((*_PICKLE_STARTS, *_COMPRESSED)):
        return "pickle"
    if head.startswith(b"PK\x03\x04"):
        return _zipped(path)
    # XGBoost's two forms both begin with an object whose first key is the learner.
    if head.lstrip()[:1] == b"{" and b"learner" in head[:64]:
        return "xgboost"
    if head[0] == _ONNX_START or path.suffix == ".onnx":  # the scan says what is wrong with others of that name
        return "onnx"
    raise InvalidInputError(f"{path} is no model that can be converted", next_step=f"these can: {CAN_BE_READ}")


def _zipped(path: Path) -> Kind:
    try:
        with zipfile.ZipFile(path) as whole:
            names = whole.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidInputError(f"{path} is cut off: {error}", next_step="save the model again") from error
    if any(name.endswith(("archive_format", "models/model.json", "serialized_exported_program.json")) for name in names):
        return "torch"
    if any(name.endswith("data.pkl") for name in names):
        raise InvalidInputError(
            f"{path} holds a module's state, not its program",
            next_step="export it:  torch.export.save(torch.export.export(module, (example,)), 'model.pt2')",
        )
    raise InvalidInputError(f"{path} is no model that can be converted", next_step=f"these can: {CAN_BE_READ}")


def refuse_cut_off(path: Path, kind: Kind) -> None:
    """Files whose end is missing are told as such, before a package says something of its own."""
    cut = ModelRefusedError(f"{path} is cut off: its end is missing", next_step="save the model again, or copy it again")
    if kind == "lightgbm" and b"\nend of trees" not in path.read_bytes():
        raise cut
    if kind == "xgboost" and not path.read_bytes().rstrip().endswith(b"}"):
        raise cut


def opened(path: Path, kind: Kind) -> Any:
    """The model that a file holds, by the package that wrote it."""
    from flyball.models.convert.optional_packages import needed, quietly

    match kind:
        case "lightgbm":
            lightgbm = needed("lightgbm", "lightgbm")
            with quietly():
                return _read(path, "LightGBM", lambda: lightgbm.Booster(model_file=str(path)))
        case "xgboost":
            xgboost = needed("xgboost", "xgboost")
            return _read(path, "XGBoost", lambda: xgboost.Booster(model_file=str(path)))
        case "torch":
            torch = needed("torch", "torch")
            return _read(path, "PyTorch", lambda: torch.export.load(path))
        case "pickle":
            return _unpickled(path)
        case _:
            raise AssertionError(f"{kind} is read by the engine")


def _read(path: Path, package: str, read: Any) -> Any:
    try:
        return read()
    except Exception as error:
        # Each package has errors of its own, and none is a base of the others'.
        words = " ".join(str(error).split())[:300]
        raise ModelRefusedError(f"{package} cannot read {path}: {words}", next_step="save the model again") from error


def _unpickled(path: Path) -> Any:
    """What a pickle holds, plain or as joblib writes it. Only ever called in a process that is sealed."""
    import pickle

    from flyball.models.convert.optional_packages import needed

    joblib = needed("joblib", "sklearn")
    try:
        return joblib.load(path)
    except (EOFError, pickle.UnpicklingError, zlib.error) as error:
        raise ModelRefusedError(f"{path} is cut off or no pickle: {error}", next_step="save the model again") from error
