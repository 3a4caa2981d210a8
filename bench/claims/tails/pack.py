"""Packs the topic cores into one folder for a machine that can neither build nor download.

Run here:  python -m bench.claims.tails.pack [--python 3.12] [--out bench/.carry]
and there:  bash bench/.carry/run.sh --results OUT      Its folder of records then goes into bench/results/claims.
The scripts of bench travel too, with what differs here from their commit: there may be no git there. The answers are left
unchecked there: another processor may round the last bit otherwise. It needs NumPy there.
"""

from __future__ import annotations

import argparse
import gzip
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.claims.provenance import DIRTY, dirty
from bench.claims.report import exit_with
from bench.claims.subjects import FLYBALLD, need
from bench.claims.tails.stand import Stand
from flyball.bench.overhead import unchecked
from flyball.bench.table import size
from flyball.errors import FlyballError
from flyball.native.boundary import ort_library
from flyball.native.machine import build_info

OUT = Path("bench/.carry")
LOCK = Path("requirements/dev.lock")
PACKAGES = ("annotated-types", "pydantic", "pydantic-core", "rich", "typing-extensions", "typing-inspection")
BYTES_MAX = 58_000_000  # with the working tree this stays below 64 MiB
_COMPRESSED_FROM = 1_000_000
_RUN = """#!/bin/bash
# From the repository's root; made by bench.claims.tails.pack.
here=$(dirname "$0")
find "$here" -name '*.gz' -exec gunzip --keep --force {} +
export PYTHONPATH="$here/python:$here/site:$here"
exec python3 -m bench.claims.tails --only cores --packed "$here" "$@"
"""


def main() -> int:
    """Fill the folder anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}", help="the version there")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    out: Path = arguments.out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / ".gitignore").write_text("*\n")
    (out / "run.sh").write_text(_RUN)
    pack_binaries(out)
    pack_scripts(out)
    pack_packages(out / "site", arguments.python)
    pack_models(out)
    for path in [path for path in out.rglob("*") if path.is_file() and path.stat().st_size > _COMPRESSED_FROM]:
        _compress(path)
    total = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{out}: {size(total)}, for Python {arguments.python}")
    if total > BYTES_MAX:
        raise FlyballError(f"{out} has {size(total)}, more than {size(BYTES_MAX)}: it would not travel")
    return 0


def pack_binaries(out: Path) -> None:
    """flyballd, ONNX Runtime and the package with its extension, without what debuggers need."""
    _run("strip", "-o", out / "flyballd", need(FLYBALLD))
    shutil.copyfile(ort_library(), out / "libonnxruntime.so")
    package = out / "python" / "flyball"
    shutil.copytree("python/flyball", package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for extension in Path("python/flyball").glob("_native*.so"):
        _run("strip", "-o", package / extension.name, extension)


def pack_scripts(out: Path) -> None:
    """What measures, and whether it is that of the build's commit."""
    for path in Path("bench").rglob("*.py"):
        if not any(part.startswith(".") for part in path.parts):
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, out / path)
    (out / DIRTY).write_text(dirty(build_info().commit))


def pack_packages(site: Path, python: str) -> None:
    """What flyball imports, of the versions that it is tested with, for the interpreter there."""
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text(), re.MULTILINE))
    wanted = [f"{name}=={pins[name]}" for name in PACKAGES]
    place: list[str | Path] = ["--target", site, "--python-version", python, "--only-binary", ":all:", "--no-deps"]
    _run(Path(sys.executable).with_name("uv"), "pip", "install", "--quiet", *place, *wanted)
    for folder in site.rglob("__pycache__"):
        shutil.rmtree(folder)


def pack_models(out: Path) -> None:
    """The models of the topic and requests for them."""
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(Path(folder))
        for subject in (stand.fraud, stand.mlp, stand.row):
            shutil.copyfile(subject.path, out / f"{subject.name}.onnx")
            (out / f"{subject.name}.jsonl").write_bytes(unchecked(subject.payloads))


def _compress(path: Path) -> None:
    """Into a file beside it, with its permissions, which gunzip keeps."""
    compressed = path.with_name(f"{path.name}.gz")
    compressed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    shutil.copymode(path, compressed)
    path.unlink()


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise FlyballError(f"{command[0]} ended with {done.returncode}: {done.stderr[-300:]}")


if __name__ == "__main__":
    exit_with(main)
