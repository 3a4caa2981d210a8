"""The style rules that a machine can check, as one command: `python tools/tidy.py [ROOT]`.

Prints `path:line rule message` for each fault and exits 1 if there is one. It reads files and
`cargo metadata`; it changes nothing. STYLE.md says why each rule exists; the numbers and tables
here are the only place where they are set.
"""
# ruff: noqa: T201

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import rust_text

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
ARCHITECTURE_LINES_MAX = 200

# Written by a generator and checked in; the style of its output is not ours to choose.
GENERATED = (
    "crates/wire/src/proto/",
    "python/flyball/client/_decisions_pb2.py",
    "python/flyball/client/_oip_pb2.py",
    "python/flyball/triton/_model_config_pb2.py",
)

# Which of our crates each crate may use. Arrows point down only; a new arrow is a decision, made here.
CRATE_ARROWS: dict[str, set[str]] = {
    "core": set(),
    "decision": {"core"},
    "engine": {"core", "trees"},
    "features": {"core"},
    "journal": {"core"},
    "plane": {"core", "decision", "engine", "features", "journal"},
    "deployments": {"core", "decision", "engine", "plane", "signing"},
    "sandbox": set(),
    "signing": {"core"},
    "telemetry": {"core"},
    "trees": {"core"},
    "wire": {"core"},
    "server": {
        "core",
        "decision",
        "deployments",
        "engine",
        "features",
        "journal",
        "plane",
        "signing",
        "telemetry",
        "wire",
    },
    "load": {"wire", "core"},
    "flyballd": {"server", "core"},
    "py": {
        "server",
        "load",
        "engine",
        "core",
        "decision",
        "deployments",
        "features",
        "journal",
        "plane",
        "sandbox",
        "signing",
        "telemetry",
        "wire",
    },
}
# Foreign crates that belong to one room.
FENCED_CRATES: dict[str, set[str]] = {"ort": {"engine"}, "pyo3": {"py"}, "cel": {"decision"}, "redis": {"features"}}
CORE_MUST_NOT_USE = {"tokio", "hyper", "http", "tracing"}

UNSAFE_CRATES = {"engine", "py"}  # they touch C; everyone else forbids unsafe code
BANNED_WORDS = {"util", "utils", "helper", "helpers", "manager"}
# Areas whose comments, doc comments and messages are plain technical English. The list grows as areas become clean.
PLAIN_PATHS = tuple(
    f"crates/{crate}/"
    for crate in (
        "core",
        "decision",
        "deployments",
        "engine",
        "features",
        "flyballd",
        "journal",
        "load",
        "plane",
        "py",
        "sandbox",
        "server",
        "signing",
        "telemetry",
        "trees",
        "wire",
    )
)
# Phrases of the old dialect, each with what to write instead.
DIALECT: dict[str, str] = {
    "is told": "gets, receives",
    "are told": "get, receive",
    "was told": "got, received",
    "what nobody": "name the thing",
    "who asks": "the caller",
    "comes to an end": "ends",
    "lies in": "is in",
    "lies beside": "is next to",
    "at hand": "available",
    "in vain": "without effect",
    "otherwise named": "other",
    "stands in": "is in",
    "stands there": "is there",
    "as it should be": "valid",
    "what is personal": "personal data",
    "whatever comes of it": "in any case",
}
MARKS = ("TO" + "DO", "FIX" + "ME")  # in pieces, or this file would find itself
PUBLIC_HOSTS = {"pypi.org", "files.pythonhosted.org", "crates.io", "index.crates.io", "static.crates.io", "github.com"}

SKIPPED_FOLDERS = {".git", ".venv", "target", "__pycache__", "node_modules", ".hypothesis"}
BINARY_SUFFIXES = {".onnx", ".bin", ".so", ".png", ".npz", ".gz", ".pyc"}


@dataclass(frozen=True, order=True)
class Finding:
    """One broken rule at one place."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.rule} {self.message}"


class Source:
    """One file of the tree, read once and seen by every rule."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self.text = (root / path).read_text(encoding="utf-8", errors="replace")
        self.name = Path(path).name
        self.generated = path.startswith(GENERATED)
        self.rust = path.endswith(".rs") and not self.generated
        self.python = path.endswith(".py") and not self.generated
        parts = Path(path).parts
        self.test = self.name == "tests.rs" or "tests" in parts[:-1]
        self.crate = parts[1] if len(parts) > 2 and parts[0] == "crates" else None
        self.in_src = self.crate is not None and parts[2] == "src"

    @cached_property
    def code(self) -> str:
        """Rust without comments, literals and tests: same lines, less text."""
        return rust_text.without_tests(rust_text.code_only(self.text))

    @cached_property
    def tree(self) -> ast.Module | None:
        """Python's syntax tree, or nothing where the file does not parse (ruff says why)."""
        try:
            return ast.parse(self.text)
        except SyntaxError:
            return None

    def find(self, pattern: str, text: str | None = None) -> Iterator[tuple[int, re.Match[str]]]:
        """Each match with its line number."""
        text = self.text if text is None else text
        for match in re.finditer(pattern, text, re.MULTILINE):
            yield rust_text.line_of(text, match.start()), match

    def finding(self, line: int, rule: str, message: str) -> Finding:
        """A finding in this file."""
        return Finding(self.path, line, rule, message)


def file_length(source: Source) -> Iterator[Finding]:
    """A file that one cannot keep in mind hides its faults. Rust tests do not count, Python tests do."""
    if source.rust and not source.test:
        tested = rust_text.code_only(source.text)
        lines = source.text.count("\n") - _lines_blanked(tested, source.code)
    elif source.python:
        lines = source.text.count("\n")
    else:
        return
    if lines > FILE_LINES_MAX:
        yield source.finding(1, "file-length", f"{lines} lines without tests, {FILE_LINES_MAX} are allowed; split it")


def _lines_blanked(before: str, after: str) -> int:
    pairs = zip(before.split("\n"), after.split("\n"), strict=True)
    return sum(1 for old, new in pairs if old.strip() and not new.strip())


def function_length(source: Source) -> Iterator[Finding]:
    """A function fits on one screen."""
    found: list[tuple[int, str, int]] = []
    if source.rust and not source.test:
        found = [(f.line, f.name, f.lines) for f in rust_text.functions(source.code)]
    elif source.python and source.tree:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1))
    for line, name, lines in found:
        if lines > FUNCTION_LINES_MAX:
            message = f"{name} has {lines} lines, {FUNCTION_LINES_MAX} are allowed; name its parts"
            yield source.finding(line, "function-length", message)


def banned_words(source: Source) -> Iterator[Finding]:
    """Names that fit everything tell nothing."""
    for part in Path(source.path).parts:
        if word := _banned_word(Path(part).stem):
            yield source.finding(1, "banned-word", f"'{word}' in a file name says nothing; name what is in it")
    names: list[tuple[int, str]] = []
    if source.rust:
        names = [(n, m[1]) for n, m in source.find(r"\b(?:struct|enum|trait|type|mod|union)\s+(\w+)", source.code)]
    elif source.python and source.tree:
        names = [(node.lineno, node.name) for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)]
    for line, name in names:
        if word := _banned_word(name):
            yield source.finding(line, "banned-word", f"'{word}' in {name} says nothing; name what it does")


def _banned_word(name: str) -> str | None:
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    return next((word.lower() for word in words if word.lower() in BANNED_WORDS), None)


def panics(source: Source) -> Iterator[Finding]:
    """One bad request must not end a lane."""
    if not (source.rust and source.in_src) or source.test:
        return
    for line, match in source.find(r"\.unwrap\(\)|\b(?:todo|unimplemented|dbg)!", source.code):
        advice = 'handle it, or expect("why this cannot fail")'
        yield source.finding(line, "panic", f"{match[0]} outside tests; {advice}")


def quiet_stages(source: Source) -> Iterator[Finding]:
    """Outcomes are counted in one place, or they do not add up."""
    if source.rust and source.path.startswith("crates/plane/src/stages"):
        for line, match in source.find(r"\btracing::|\bmetrics::|\be?println!", source.code):
            yield source.finding(line, "quiet-stages", f"{match[0]} in a stage; the walk records once, at its end")


def marks(source: Source) -> Iterator[Finding]:
    """A promise to do something later has an issue, or is not made."""
    if Path(source.path).suffix not in {".rs", ".py", ".toml", ".sh", ".yaml", ".yml", ""}:
        return
    for line, match in source.find(rf"(?://|#|/\*).*?\b({'|'.join(MARKS)})\b(?!\(#\d+\))"):
        yield source.finding(line, "mark", f"{match[1]} without an issue; write {MARKS[0]}(#123) or do it")


def plain_words(source: Source) -> Iterator[Finding]:
    """A private dialect is slow to decode; in the areas of the list its worst phrases do not come back."""
    if not source.path.startswith(PLAIN_PATHS) or source.generated:
        return
    between = r"\s+(?:(?://[/!]?|\#)\s*)?"  # a phrase may go over the end of a comment's line
    for phrase, instead in DIALECT.items():
        pattern = between.join(re.escape(word) for word in phrase.split())
        for line, _ in source.find(rf"(?i)\b{pattern}\b"):
            yield source.finding(line, "plain-words", f"'{phrase}' is not plain English; write: {instead}")


def unsafe_policy(source: Source) -> Iterator[Finding]:
    """Unsafe code lives where C is called, and nowhere else."""
    if not source.in_src or source.path.removeprefix(f"crates/{source.crate}/src/") not in {"lib.rs", "main.rs"}:
        return
    needed = "#![deny(unsafe_op_in_unsafe_fn)]" if source.crate in UNSAFE_CRATES else "#![forbid(unsafe_code)]"
    if needed not in rust_text.code_only(source.text):
        yield source.finding(1, "unsafe", f"the crate's root lacks {needed}")


def header(source: Source) -> Iterator[Finding]:
    """Every module says what it is for and what it must not know."""
    message = "the file must open with what it is for and what it must not know"
    opening = source.text.lstrip()
    if (source.rust and opening and not opening.startswith("//!")) or (
        source.python and source.tree and source.tree.body and not ast.get_docstring(source.tree)
    ):
        yield source.finding(1, "header", message)


def machine_paths(source: Source) -> Iterator[Finding]:
    """What is written for one machine fails on the next."""
    for line, match in source.find(r"(?<![\w.$}>*-])/(?:work|root|tmp|home/[a-z]\w*)/"):
        yield source.finding(line, "machine-path", f"{match[0]} is a path of one machine")


def index_hosts(source: Source) -> Iterator[Finding]:
    """Where packages come from is the business of the machine, not of the repository."""
    if source.path.startswith("requirements/"):
        for line, match in source.find(r"^--(?:extra-)?(?:index-url|find-links)\b.*"):
            yield source.finding(line, "index-host", f"{match[0].split()[0]} ties the lock to one package index")
    for host in _hosts_of_this_machine():
        for line, _ in source.find(re.escape(host)):
            yield source.finding(line, "index-host", "names a package index that only this machine uses")


@cache
def _hosts_of_this_machine() -> set[str]:
    """Hosts of the configured package indexes. Read here, so that no such name is ever written into the tree."""
    home = Path.home()
    configs = (
        Path("/etc/pip.conf"),
        home / ".config/pip/pip.conf",
        home / ".pip/pip.conf",
        home / ".cargo/config.toml",
    )
    texts = [value for key, value in os.environ.items() if key.startswith(("PIP_", "UV_", "CARGO_"))]
    texts += [config.read_text(errors="replace") for config in configs if config.is_file()]
    found = re.findall(r"https?://(?:[^/@\s]*@)?([\w.-]+)", "\n".join(texts))
    return {host for host in found if "." in host} - PUBLIC_HOSTS


def architecture_length(source: Source) -> Iterator[Finding]:
    """A map that takes an hour to read is not read."""
    lines = source.text.count("\n")
    if source.path == "ARCHITECTURE.md" and lines > ARCHITECTURE_LINES_MAX:
        yield source.finding(lines, "architecture-length", f"{lines} lines, {ARCHITECTURE_LINES_MAX} are allowed")


RULES: tuple[Callable[[Source], Iterator[Finding]], ...] = (
    file_length,
    function_length,
    banned_words,
    panics,
    quiet_stages,
    marks,
    plain_words,
    unsafe_policy,
    header,
    machine_paths,
    index_hosts,
    architecture_length,
)


def crate_arrows(root: Path) -> Iterator[Finding]:
    """Compares the workspace's own dependencies, as cargo sees them, with the tables above."""
    if not (root / "Cargo.toml").is_file():
        return
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        yield Finding("Cargo.toml", 1, "arrows", "cargo is not on PATH, so the arrows cannot be checked")
        return
    except subprocess.CalledProcessError as error:
        yield Finding("Cargo.toml", 1, "arrows", f"cargo metadata failed: {error.stderr.strip()}")
        return
    for package in json.loads(answer.stdout)["packages"]:
        manifest = os.path.relpath(package["manifest_path"], root)
        uses = {dependency["name"] for dependency in package["dependencies"] if dependency["kind"] is None}
        for message in _arrow_faults(package["name"], uses):
            yield Finding(manifest, 1, "arrows", message)


def _arrow_faults(package: str, uses: set[str]) -> Iterator[str]:
    crate = package.removeprefix("flyball-")
    if crate not in CRATE_ARROWS:
        yield f"{package} is not in the table of arrows; add it to tools/tidy.py"
        return
    ours = {name.removeprefix("flyball-") for name in uses if name.startswith("flyball-")}
    for other in sorted(ours - CRATE_ARROWS[crate]):
        yield f"{crate} must not use {other}"
    for foreign, rooms in FENCED_CRATES.items():
        if foreign in uses and crate not in rooms:
            yield f"{foreign} belongs to {', '.join(sorted(rooms))}; {crate} must not use it"
    for foreign in sorted(uses & CORE_MUST_NOT_USE):
        if crate == "core":
            yield f"core holds nouns only and must not use {foreign}"


def files(root: Path) -> list[str]:
    """What git tracks or would track; every file where there is no repository."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    else:
        listed = [str(path.relative_to(root)) for path in root.rglob("*")]
    kept = [path for path in listed if path and not SKIPPED_FOLDERS & set(Path(path).parts)]
    return sorted(path for path in kept if Path(path).suffix not in BINARY_SUFFIXES and (root / path).is_file())


def check(root: Path) -> list[Finding]:
    """Every finding in the tree, sorted by place."""
    found = list(crate_arrows(root))
    for path in files(root):
        source = Source(root, path)
        for rule in RULES:
            found.extend(rule(source))
    return sorted(found)


def main(arguments: list[str]) -> int:
    """Checks the tree given, or the one this file lies in."""
    root = Path(arguments[0] if arguments else Path(__file__).resolve().parent.parent)
    found = check(root)
    for finding in found:
        print(finding)
    print(f"tidy: {len(files(root))} files, {len(found) or 'no'} fault{'' if len(found) == 1 else 's'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
