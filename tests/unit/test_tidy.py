"""Tidy is a test itself: the repository obeys it, and each rule can fail.

The small trees below break one rule each. They are written as a stranger would break the rule, not
as the rule is coded.
"""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TIDY = REPOSITORY / "tools" / "tidy.py"
FORBID = "#![forbid(unsafe_code)]\n"
ROOM = "//! A room. Must not know the others.\n" + FORBID


def tidy(root: Path) -> tuple[int, list[str]]:
    answer = subprocess.run([sys.executable, TIDY, root], capture_output=True, text=True, check=False)
    assert not answer.stderr, answer.stderr
    return answer.returncode, answer.stdout.splitlines()[:-1]


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def rust_function(name: str, lines: int) -> str:
    return f"pub fn {name}() -> usize {{\n" + "    let _ = 1;\n" * (lines - 3) + "    0\n}\n"


BAD = {
    "file-length in Rust": (
        {"crates/core/src/long.rs": "//! Long.\n" + "pub const A: u8 = 1;\n" * 501},
        "crates/core/src/long.rs:1 file-length",
    ),
    "file-length in Python": ({"long.py": '"""Long."""\n' + "A = 1\n" * 501}, "long.py:1 file-length"),
    "function-length in Rust": (
        {"crates/core/src/f.rs": "//! F.\n" + rust_function("slow_walk", 71)},
        "crates/core/src/f.rs:2 function-length slow_walk has 71 lines",
    ),
    "function-length in Python": (
        {"f.py": '"""F."""\n\n\ndef slow_walk():\n' + "    a = 1\n" * 71},
        "f.py:4 function-length slow_walk has 72 lines",
    ),
    "banned word in a file name": ({"python/string_utils.py": '"""S."""\n'}, "python/string_utils.py:1 banned-word"),
    "banned word in a Rust type": (
        {"crates/core/src/x.rs": "//! X.\npub struct SessionManager;\n"},
        "crates/core/src/x.rs:2 banned-word",
    ),
    "banned word in a Python class": ({"x.py": '"""X."""\n\n\nclass TestHelper:\n    pass\n'}, "x.py:4 banned-word"),
    "unwrap": (
        {"crates/core/src/x.rs": "//! X.\npub fn f() -> u8 {\n    Some(1).unwrap()\n}\n"},
        "crates/core/src/x.rs:3 panic .unwrap()",
    ),
    "a macro that gives up": (
        {"crates/core/src/x.rs": "//! X.\npub fn f() {\n    todo!()\n}\n"},
        "crates/core/src/x.rs:3 panic todo!",
    ),
    "a stage that logs": (
        {"crates/plane/src/stages/parse.rs": '//! P.\npub fn parse() {\n    tracing::info!("hi");\n}\n'},
        "crates/plane/src/stages/parse.rs:3 quiet-stages tracing::",
    ),
    "a mark without an issue": ({"x.py": '"""X."""\nA = 1  # ' + "TO" + "DO later\n"}, "x.py:2 mark"),
    "dialect in a comment, over its line's end": (
        {"crates/core/src/x.rs": "//! X.\n\n/// A caller that is\n/// told no.\npub const A: u8 = 1;\n"},
        "crates/core/src/x.rs:3 plain-words 'is told'",
    ),
    "dialect in a message": (
        {"crates/core/src/x.rs": '//! X.\npub const A: &str = "the file lies in the folder";\n'},
        "crates/core/src/x.rs:2 plain-words 'lies in'",
    ),
    "no forbid(unsafe_code)": ({"crates/core/src/lib.rs": "//! Core.\n"}, "crates/core/src/lib.rs:1 unsafe"),
    "forbid only in a comment": (
        {"crates/core/src/lib.rs": "//! Core.\n// " + FORBID},
        "crates/core/src/lib.rs:1 unsafe",
    ),
    "engine without its own policy": ({"crates/engine/src/lib.rs": ROOM}, "crates/engine/src/lib.rs:1 unsafe"),
    "no header in Rust": ({"crates/core/src/x.rs": "pub const A: u8 = 1;\n"}, "crates/core/src/x.rs:1 header"),
    "no header in Python": ({"x.py": "A = 1\n"}, "x.py:1 header"),
    "a path of this machine": ({"notes.md": "see /" + "root/notes\n"}, "notes.md:1 machine-path"),
    "an index in the lock": (
        {"requirements/dev.lock": "--index" + "-url https://pypi.example.test/simple\nnumpy==2.4.6\n"},
        "requirements/dev.lock:1 index-host",
    ),
    "a long ARCHITECTURE.md": ({"ARCHITECTURE.md": "line\n" * 201}, "ARCHITECTURE.md:201 architecture-length"),
}


@pytest.mark.parametrize(("files", "finding"), BAD.values(), ids=BAD.keys())
def test_each_rule_finds_what_breaks_it(tmp_path: Path, files: dict[str, str], finding: str) -> None:
    write(tmp_path, files)
    code, findings = tidy(tmp_path)
    assert code == 1
    assert len(findings) == 1
    assert findings[0].startswith(finding)


def workspace(root: Path, uses: dict[str, list[str]]) -> None:
    write(root, {"Cargo.toml": '[workspace]\nresolver = "3"\nmembers = ["crates/*"]\n'})
    for crate, others in uses.items():
        lines = [f'flyball-{other} = {{ path = "../{other}" }}' for other in others]
        manifest = f'[package]\nname = "flyball-{crate}"\nversion = "0.1.0"\nedition = "2024"\n[dependencies]\n'
        write(root / "crates" / crate, {"Cargo.toml": manifest + "\n".join(lines), "src/lib.rs": ROOM})


def test_an_arrow_against_the_table_is_found(tmp_path: Path) -> None:
    workspace(tmp_path, {"core": [], "wire": ["core"], "plane": ["core", "wire"]})
    code, findings = tidy(tmp_path)
    assert code == 1
    assert findings == ["crates/plane/Cargo.toml:1 arrows plane must not use wire"]


def test_a_crate_without_a_place_in_the_table_is_found(tmp_path: Path) -> None:
    workspace(tmp_path, {"attic": []})
    assert tidy(tmp_path)[1] == [
        "crates/attic/Cargo.toml:1 arrows flyball-attic is not in the table of arrows; add it to tools/tidy.py"
    ]


GOOD = {
    "tests do not count": "//! X.\n#[cfg(test)]\nmod tests {\n" + "    fn a() { Some(1).unwrap(); }\n" * 600 + "}\n",
    "words in strings and comments do not count": (
        '//! X.\n// never .unwrap() here, nor todo!()\npub const A: &str = r#"x.unwrap() { "#;\n'
        "pub const B: char = '\"';\npub fn f<'a>(x: &'a str) -> &'a str {\n    x /* { dbg!() */\n}\n"
    ),
    "a function of seventy lines is allowed": "//! X.\n" + rust_function("walk", 70),
    "plain words are allowed": "//! X.\n// The caller gets an error; the file is in the folder.\n",
    "a mark with its issue is allowed": "//! X.\n// " + "TO" + "DO(#12): more\n",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_what_the_rules_allow_is_not_found(tmp_path: Path, text: str) -> None:
    write(tmp_path, {"crates/core/src/x.rs": text})
    assert tidy(tmp_path) == (0, [])
