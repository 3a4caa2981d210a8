"""`make triton-backend`: builds Triton's ONNX Runtime backend from sources that are here, for the version in the wheel.

The result is where bench.peers.peers finds it. Nothing is downloaded: without sources it says what is missing.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

from bench.claims.report import exit_with
from bench.peers.peers import BUILT_BACKENDS
from flyball.errors import FlyballError, UsageError
from flyball.native.boundary import ort_library

BRANCH = "r24.10"  # of server 2.51, which is in the wheel
TRITON = ("onnxruntime_backend", "backend", "core", "common")
HEADERS = Path("onnxruntime/include/onnxruntime/core/session")
_NEEDED = (*(Path(name) / "CMakeLists.txt" for name in TRITON), HEADERS / "onnxruntime_c_api.h")
_GET = f"""clone into DIR, then:  make triton-backend TRITON_SOURCES=DIR
  for each of {" ".join(TRITON)}:  git clone --depth 1 --branch {BRANCH} https://github.com/triton-inference-server/NAME
  for its C headers:  git clone --depth 1 https://github.com/microsoft/onnxruntime   (no newer than the library)"""

# Triton's folder common downloads GoogleTest even where its tests are not built.
_NO_TESTS = "".join(f"add_library(GTest::{name} INTERFACE IMPORTED GLOBAL)\n" for name in ("gtest", "gtest_main"))


def missing_sources(sources: Path) -> list[str]:
    """The files of the sources that are not in this folder."""
    return [str(path) for path in _NEEDED if not (sources / path).is_file()]


def main() -> int:
    """Configure, compile with one job, and put the backend beside its library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="?", default="", help=f"a folder with {', '.join(TRITON)} and onnxruntime")
    given = parser.parse_args().sources
    if not given:
        raise UsageError("TRITON_SOURCES names no folder of sources", next_step=_GET)
    sources = Path(given).resolve()
    if missing := missing_sources(sources):
        raise UsageError(f"TRITON_SOURCES: {sources} has no {', '.join(missing)}", next_step=_GET)
    if shutil.which("cmake") is None:
        raise UsageError("cmake is not installed", next_step="apt-get install cmake g++ rapidjson-dev")
    home = BUILT_BACKENDS / "onnxruntime"
    home.mkdir(parents=True, exist_ok=True)
    library = home / "libonnxruntime.so.1"  # its soname: the backend finds it in its own folder
    shutil.copy(ort_library(), library)
    (home / "libonnxruntime.so").unlink(missing_ok=True)
    (home / "libonnxruntime.so").symlink_to(library.name)
    build = BUILT_BACKENDS.with_name("triton-backends-build")
    tests = build / "no-googletest"
    tests.mkdir(parents=True, exist_ok=True)
    (tests / "CMakeLists.txt").write_text(_NO_TESTS)
    options = [*_options(sources, home), f"-DFETCHCONTENT_SOURCE_DIR_GOOGLETEST={tests}"]
    _run(["cmake", "-Wno-dev", "-S", str(sources / TRITON[0]), "-B", str(build), *options])
    _run(["nice", "cmake", "--build", str(build), "--target", "triton-onnxruntime-backend"])
    shutil.copy(build / "libtriton_onnxruntime.so", home)
    print(f"built {home / 'libtriton_onnxruntime.so'} with ONNX Runtime {ort_library().name}")
    return 0


def _options(sources: Path, home: Path) -> list[str]:
    named = {f"FETCHCONTENT_SOURCE_DIR_REPO-{name.upper()}": sources / name for name in TRITON[1:]}
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
        "TRITON_ENABLE_GPU": "OFF",
        "TRITON_ONNXRUNTIME_INCLUDE_PATHS": sources / HEADERS,
        "TRITON_ONNXRUNTIME_LIB_PATHS": home,
        **named,
    }
    return [f"-D{name}={value}" for name, value in options.items()]


def _run(command: list[str]) -> None:
    if subprocess.run(command, check=False).returncode:
        raise FlyballError(f"failed:  {' '.join(command)}")


if __name__ == "__main__":
    exit_with(main)
