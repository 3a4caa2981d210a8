"""Calls to the extension, with its errors as our own; and the path of ONNX Runtime's library.

Never imports the `onnxruntime` package: that maps a second copy of the library and costs 0.3 s at start.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from flyball.errors import FlyballError, ModelRefusedError, UsageError, from_native

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flyball import _native as native
else:

    class _Extension:
        """Loads the extension on first use: most commands do not need it."""

        def __getattr__(self, name: str) -> Any:
            with boundary():
                from flyball import _native
            return getattr(_native, name)

    native = _Extension()

__all__ = ["boundary", "call", "call_on", "native", "ort_library"]
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


@contextmanager
def boundary() -> Iterator[None]:
    """Convert errors of the extension, or its absence, to our own errors."""
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


def call(function: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs) -> Answer:
    """Call a function of the extension; it raises our own errors."""
    with boundary():
        return function(*args, **kwargs)


def call_on(path: Path, function: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs) -> Answer:
    """Call a function on a model file; a refusal names the file, because there may be several."""
    try:
        return call(function, *args, **kwargs)
    except ModelRefusedError as error:
        if str(path) in error.message:
            raise
        named = f"{path}: {error.message}"
        raise ModelRefusedError(named, code=error.code, faults=error.faults, next_step=error.next_step) from error


def ort_library() -> Path:
    """ONNX Runtime's shared library: ORT_DYLIB_PATH, else that of the installed package, which is not imported."""
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
