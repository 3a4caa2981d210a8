"""Run attempts against one build: `python -m bench.claims.hardening.attempts --build DIR [--only NAME …] [--store FILE]`.

With `--store` the results are merged into FILE, which is how the results of an older build are kept; those of another commit
than the file's name theirs. Exits 1 where a fault is still there.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.claims.hardening.attempts import Attempt, Build, Seen, all_attempts


def try_one(attempt: Attempt, build: Build) -> Seen:
    """Run one attempt in a folder of its own; an attempt that breaks has not shown that its fault is gone."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            seen = attempt.run(build, Path(folder))
        except Exception as error:
            seen = Seen(f"the attempt broke: {type(error).__name__}: {error}"[:300], holds=False)
        # Results are published: they name no folder of this machine.
        return replace(seen, text=seen.text.replace(folder, "DIR"))


def main() -> int:
    """Try what is asked for and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path(), help="a checkout that was built")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--store", type=Path, help="merge the results into this .json.gz")
    arguments = parser.parse_args()
    build = Build(arguments.build.absolute())
    chosen = [attempt for attempt in all_attempts() if not arguments.only or attempt.name in arguments.only]
    results = {}
    for attempt in chosen:
        seen = try_one(attempt, build)
        results[attempt.name] = {"fault": attempt.fault, "seen": seen.text, "holds": seen.holds}
        print(f"{'ok' if seen.holds else 'FAULT':<6} {attempt.name:<48} {seen.text}", flush=True)
    if arguments.store:
        _store(arguments.store, build, results)
    return 0 if all(result["holds"] for result in results.values()) else 1


def _store(path: Path, build: Build, results: dict[str, dict[str, object]]) -> None:
    commit = subprocess.run(
        ["git", "-C", str(build.root), "rev-parse", "--short=12", "HEAD"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    stored: dict[str, Any] = {"commit": commit, "attempts": {}}
    if path.exists():
        stored = json.loads(gzip.decompress(path.read_bytes()))
    other = {} if stored["commit"] == commit else {"commit": commit}
    stored["attempts"].update({name: {**result, **other} for name, result in results.items()})
    path.write_bytes(gzip.compress(json.dumps(stored, sort_keys=True).encode(), mtime=0))


if __name__ == "__main__":
    sys.exit(main())
