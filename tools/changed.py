"""Runs the unit tests of changed modules: `python tools/changed.py [--since HEAD]`; `make check` builds first.

Rust: the unit tests of the workspace where a crate changed; cargo compiles the changed ones alone. Python: test files that
changed, and files of tests/unit that import a changed module. `make test` runs everything; this takes seconds.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path, PurePath

# As `make test` calls it: with other features cargo would compile every dependency again.
RUST = ["cargo", "test", "--quiet", "--locked", "--profile", "tested", "--workspace", "--exclude", "flyball-py"]
RUST += ["--features", "flyballd/virtual-time", "--lib"]
# They need packages, servers or minutes that a quick check does not have.
SLOW = ("tests/e2e", "tests/docs", "tests/clients", "tests/of_torch")


def changed_files(since: str) -> list[str]:
    """Files that differ from a commit, and those that git does not know yet."""
    diff = ["git", "diff", "--name-only", "--diff-filter=d", since]
    new = ["git", "ls-files", "--others", "--exclude-standard"]
    listed = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for command in (diff, new)]
    return sorted(set("".join(listed).split()))


def imported_name(path: str) -> str | None:
    """The module that a file is, by the name under which tests import it."""
    file = PurePath(path)
    if file.suffix != ".py":
        return None
    parts = (file.relative_to("python") if file.is_relative_to("python") else file).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(text: str, module: str) -> bool:
    """Whether a test file imports a module, or a name from it."""
    package, _, last = module.rpartition(".")
    patterns = [rf"^\s*(?:import|from) {re.escape(module)}\b"]
    if package:
        patterns.append(rf"^\s*from {re.escape(package)} import [^\n]*\b{re.escape(last)}\b")
    return any(re.search(pattern, text, re.MULTILINE) for pattern in patterns)


def tests_of(changed: list[str]) -> list[str]:
    """Test files that changed, and unit tests that import what changed."""
    own = [path for path in changed if PurePath(path).name.startswith("test_") and not path.startswith(SLOW)]
    modules = [module for path in changed if path not in own and (module := imported_name(path))]
    texts = {str(path): path.read_text() for path in sorted(Path("tests/unit").glob("test_*.py"))}
    found = [path for path, text in texts.items() if any(imports(text, module) for module in modules)]
    return sorted({*own, *found})


def main() -> int:
    """Both languages, where something of theirs changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--since", default="HEAD", help="the commit to compare with (HEAD: what is not committed)")
    changed = changed_files(parser.parse_args().since)
    rust = any(path.startswith(("crates/", "Cargo.")) for path in changed)
    if rust and (code := subprocess.run(RUST, check=False).returncode):
        return code
    tests = tests_of(changed)
    rust_tests = "passed" if rust else "not needed"
    print(f"check: {len(changed)} files changed; Rust unit tests {rust_tests}; {len(tests)} Python test files")
    if not tests:
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "--numprocesses", "2", *tests], check=False).returncode


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parents[1])
    sys.exit(main())
