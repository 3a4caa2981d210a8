"""Detects the kind of a trained model's file from its content, and opens it.

Opening runs foreign code: LightGBM's and XGBoost's readers, and anything in a pickle. It therefore happens in a separate
process (`loader_process`). Must not know decisions.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

from flyball.errors import InvalidInputError, ModelRefusedError

Kind = Literal["lightgbm", "xgboost", "pickle", "onnx", "torch"]

CAN_BE_READ = (
    "LightGBM's text (.txt), XGBoost's .json and .ubj, scikit-learn's pipelines and estimators as .pkl or .joblib, .onnx,"
    " and programs of torch.export (.pt2)"
)
RUNS_CODE = ("pickle", "torch")
"""Kinds that may run their author's code when opened."""
_HEAD_BYTES = 4096
_ONNX_START = 0x08  # the version of its format, the first field of every file
_PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
# Compressed by joblib: zlib at its levels, gzip, bzip2 and xz.
_COMPRESSED = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")


def kind_of(path: Path) -> Kind:
    """The kind of a file; an unsupported one is refused with the list of supported kinds."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {path}: {error.strerror}", next_step="name the file of a trained model"
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
    if head[0] == _ONNX_START or path.suffix == ".onnx":  # the scan reports what is wrong with other .onnx files
        return "onnx"
    raise InvalidInputError(f"{path} is not a supported model file", next_step=f"supported: {CAN_BE_READ}")


def _zipped(path: Path) -> Kind:
    try:
        with zipfile.ZipFile(path) as whole:
            names = whole.namelist()
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidInputError(f"{path} is truncated: {error}", next_step="save the model again") from error
    if any(name.endswith(("archive_format", "models/model.json", "serialized_exported_program.json")) for name in names):
        return "torch"
    if any(name.endswith("data.pkl") for name in names):
        raise InvalidInputError(
            f"{path} holds a module's state_dict, not its program",
            next_step="export it:  torch.export.save(torch.export.export(module, (example,)), 'model.pt2')",
        )
    raise InvalidInputError(f"{path} is not a supported model file", next_step=f"supported: {CAN_BE_READ}")


def refuse_cut_off(path: Path, kind: Kind) -> None:
    """Refuse truncated files, before a package fails with an obscure message."""
    cut = ModelRefusedError(f"{path} is truncated: its end is missing", next_step="save the model again, or copy it again")
    if kind == "lightgbm" and b"\nend of trees" not in path.read_bytes():
        raise cut
    if kind == "xgboost" and not path.read_bytes().rstrip().endswith(b"}"):
        raise cut


def opened(path: Path, kind: Kind) -> Any:
    """The model in a file, read by the package that wrote it."""
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
        # Each package has its own errors without a common base.
        message = " ".join(str(error).split())[:300]
        raise ModelRefusedError(f"{package} cannot read {path}: {message}", next_step="save the model again") from error


def _unpickled(path: Path) -> Any:
    """Load a pickle, plain or from joblib. Called only in a sandboxed process."""
    import pickle

    from flyball.models.convert.optional_packages import needed

    joblib = needed("joblib", "sklearn")
    try:
        return joblib.load(path)
    except (EOFError, pickle.UnpicklingError, zlib.error) as error:
        raise ModelRefusedError(f"{path} is truncated or not a pickle: {error}", next_step="save the model again") from error
