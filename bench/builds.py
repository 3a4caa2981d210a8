"""Compares two builds of flyballd side by side: `python -m bench.builds BEFORE`, or `make compare-builds BEFORE=COMMIT`.

BEFORE is a checkout in which `make shipped` has run; it is compared with this one. Each compiles its own snapshot, so that
formats may differ. Both servers stay on one core and the generator on another; `flyball bench compare` measures in turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.claims.decisions import example
from bench.claims.record import RESULTS
from bench.claims.report import exit_with
from bench.claims.subjects import ANY_PORT
from flyball.bench.models.fraud import make_fraud_gbdt
from flyball.bench.process import Process, on_cpus, split_cpus
from flyball.errors import FlyballError, UsageError
from flyball.native.boundary import ort_library

CARDS = 20_000
# What is measured, by name: the options of `flyball bench compare`.
LOADS = {
    "GBDT, JSON": ["--model", "fraud", "--protocol", "http"],
    "GBDT, gRPC": ["--model", "fraud", "--protocol", "grpc"],
    "card-fraud": ["--model", example.NAME, "--protocol", "decision", "--data", "rows.jsonl"],
}


def main() -> int:
    """Measure every load; the exit code is 1 if this build is slower in one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="a checkout in which `make shipped` has run")
    parser.add_argument("--repeats", type=int, default=10, help="pairs of windows for each load")
    arguments = parser.parse_args()
    trees = [arguments.before.absolute(), Path.cwd()]
    for tree in trees:
        if not (tree / ".venv/bin/flyballd").exists():
            raise UsageError(f"{tree} has no .venv/bin/flyballd", next_step=f"build it:  make -C {tree} shipped")
    results = Path.cwd() / RESULTS
    slower = False
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        made = example.make(Path(folder), CARDS)
        make_fraud_gbdt(made.folder / "fraud.onnx")
        (made.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made.rows))
        sides = [servers.enter_context(_served(tree, made.folder, f"side-{at}")) for at, tree in enumerate(trees)]
        for side in sides:
            made.warm(side.url)
        for name, options in LOADS.items():
            urls = [side.url for side in sides]
            words = ["compare", *urls, *options, "--repeats", str(arguments.repeats), "--out", str(results), "--json"]
            found = json.loads(_run([sys.executable, "-m", "flyball", "bench", *words], made.folder))
            slower |= any(figure["verdict"] in ("slower", "lower") for figure in found["figures"])
            print(f"{name}: {found['summary']}  Raw data: {Path(found['record']).relative_to(Path.cwd())}", flush=True)
    return 1 if slower else 0


def _served(tree: Path, folder: Path, name: str) -> Process:
    """The checkout's own flyballd, serving the model and the decision from a snapshot that it compiled."""
    words = ["snapshot", "fraud=fraud.onnx", "--decision", f"{example.NAME}.yaml", "--out", name]
    _run([str(tree / ".venv/bin/flyball"), *words], folder)
    command = [str(tree / ".venv/bin/flyballd"), "--unsigned", "allow", "--snapshot", str(folder / name / "index.json")]
    return Process([*command, *ANY_PORT], cpus=split_cpus()[0][:1], environment={"ORT_DYLIB_PATH": str(ort_library())})


def _run(command: list[str], folder: Path) -> str:
    """Run a command on the generator's cores; returns what it prints."""
    with on_cpus(split_cpus()[1]):
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise FlyballError(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr[-600:]}")
    return ended.stdout


if __name__ == "__main__":
    exit_with(main)
