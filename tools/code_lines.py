"""Counts the lines of code of each crate and package: `python tools/code_lines.py [REF]`.

Comments, blank lines, tests and generated code do not count.
Test modules inside Rust files are blanked first; `cloc` counts what is left. With a REF the tree of that commit is counted.
"""
# ruff: noqa: S607, T201

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rust_text
import tidy

ROOTS = ("crates", "python")


def main() -> int:
    """Prints one line for each crate and package, and the sum."""
    ref = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    names = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", ref, *ROOTS], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(_is_code, names):
            source = subprocess.run(["git", "show", f"{ref}:{name}"], capture_output=True, text=True, check=True).stdout
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_without_tests(source) if path.suffix == ".rs" else source)
        counted = json.loads(
            subprocess.run(
                ["cloc", "--json", "--by-file", "--skip-uniqueness", folder], capture_output=True, text=True, check=True
            ).stdout
        )
        rooms: Counter[str] = Counter()
        for name, facts in counted.items():
            if name not in ("header", "SUM"):
                rooms[_room(Path(name).relative_to(folder))] += facts["code"]
    for room, lines in sorted(rooms.items()):
        print(f"{room:32} {lines:>7,}")
    print(f"{'all':32} {sum(rooms.values()):>7,}")
    return 0


def _is_code(name: str) -> bool:
    parts = Path(name).parts
    tests = {"tests", "examples", "benches", "testing"} & set(parts) or Path(name).name in ("tests.rs", "testing.rs")
    return name.endswith((".rs", ".py")) and not tests and not name.startswith(tidy.GENERATED)


def _without_tests(source: str) -> str:
    """The source without its `#[cfg(test)]` items; their lines are found in the blanked code."""
    blanked = rust_text.code_only(source)
    kept = rust_text.without_tests(blanked)
    pairs = zip(source.splitlines(), blanked.splitlines(), kept.splitlines(), strict=True)
    return "\n".join(line if was.strip() == now.strip() else "" for line, was, now in pairs) + "\n"


def _room(path: Path) -> str:
    return "/".join(path.parts[: 2 if path.parts[0] == "crates" else 3])


if __name__ == "__main__":
    sys.exit(main())
