"""What the extension raises as our own errors, and where ONNX Runtime's library lies.

Never imports the `onnxruntime` package: that maps a second copy of the library and costs 0.3 s at start.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError, ModelRefusedError, UsageError, from_native

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball import _native as native
else:

    class _Extension:
        """Loads the extension when something of it is first asked for: most commands end without it."""

        def __getattr__(self, name: str) -> Any:
            from flyball import _native

            return getattr(_native, name)

    native = _Extension()

__all__ = ["boundary", "naming", "native", "ort_library"]


@contextmanager
def boundary() -> Iterator[None]:
    """Turns what the extension raises, or its absence, into our own errors."""
    try:
        yield
    except ImportError as error:
        raise FlyballError(
            f"the native extension of flyball cannot be loaded: {error}",
            code="native_missing",
            next_step="build it:  make build   or install a wheel:  pip install flyball",
        ) from error
    except Exception as error:
        loaded = sys.modules.get("flyball._native")
        if loaded is not None and isinstance(error, loaded.NativeError):
            raise from_native(str(error)) from error
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the file's name before a refusal that does not say it: of several models, a person must know which."""
    try:
        yield
    except ModelRefusedError as error:
        if str(path) in error.message:
            raise
        named = f"{path}: {error.message}"
        raise ModelRefusedError(named, code=error.code, faults=error.faults, next_step=error.next_step) from error


def ort_library() -> Path:
    """ONNX Runtime's shared library: ORT_DYLIB_PATH, else the installed package's own, found without importing it."""
    named = os.environ.get("ORT_DYLIB_PATH")
    if named:
        path = Path(named)
        if not path.is_file():
            raise UsageError(f"ORT_DYLIB_PATH names {named}, which is not a file", next_step="unset ORT_DYLIB_PATH")
        return path.absolute()
    spec = importlib.util.find_spec("onnxruntime")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [path for folder in folders for path in Path(folder, "capi").glob("libonnxruntime.so*") if path.is_file()]
    if not found:
        raise UsageError(
            "ONNX Runtime's shared library was not found",
            code="ort_missing",
            next_step="install it:  pip install 'onnxruntime>=1.30'   or name the library in ORT_DYLIB_PATH",
        )
    return max(found, key=_version_of)


def _version_of(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.name.partition(".so")[2]))
