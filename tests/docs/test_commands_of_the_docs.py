"""The README, the guides and the examples are run as they are printed, and show what their commands print.

FLYBALL_GOLDEN=write pytest tests/docs/test_commands_of_the_docs.py writes the output into the pages.
"""

import os
import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.printed_pages import Command, Followed, commands, follow, masked, same
from tests.support.serving import REPOSITORY

EXAMPLES = sorted((REPOSITORY / "examples").glob("*/README.md"))
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs" / "guides").glob("*.md"))]
OUTPUT = re.compile(r"(^\$ python \S+/run\.py\n```\n\n```\n)(.*?)^```$", re.MULTILINE | re.DOTALL)
WRITE = "run  FLYBALL_GOLDEN=write pytest tests/docs/test_commands_of_the_docs.py -k"
LONG = {"benchmark.md", "explain-latency.md", "optimize.md", "records.md", "registry.md", "tails.md"}


def read_by(page: Path) -> object:
    """Guides that take half a minute or more: their commands have tests of their own, and README walks the registry."""
    full = os.environ.get("FLYBALL_TESTS") == "full"
    long = pytest.mark.skipif(
        page.name in LONG and not full, reason="it takes half a minute or more: make test-full runs it"
    )
    return pytest.param(page, id=page.name, marks=long)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [read_by(page) for page in PAGES])
def test_the_commands_of_a_page_work_and_print_what_it_shows(page: Path) -> None:
    found = followed(page)
    if os.environ.get("FLYBALL_GOLDEN") == "write":
        page.write_text(found.page)
    elif found.differences:
        pytest.fail("\n".join([*found.differences, f"{WRITE} {page.name}"]))


@cache
def followed(page: Path) -> Followed:
    """A page is run once, whoever asks."""
    with TemporaryDirectory() as folder:
        return follow(page.read_text(), Path(folder))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.parent.name)
def test_an_example_runs_with_one_command_and_ends_with_what_its_readme_shows(page: Path, tmp_path: Path) -> None:
    folder, text = Path("examples", page.parent.name), page.read_text()
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("made", "__pycache__"))
    shown = follow(text, tmp_path).printed[f"python {folder / 'run.py'}"]
    picture = tmp_path / folder / "made" / f"{folder.name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert f"picture: {picture.relative_to(tmp_path)}\n" in shown
    if os.environ.get("FLYBALL_GOLDEN") == "write":
        page.write_text(OUTPUT.sub(lambda found: f"{found[1]}{shown}```", text))
        shutil.copy(picture, REPOSITORY / "docs" / "images")
        return
    printed = OUTPUT.search(text)
    assert printed
    assert outcomes(shown) == outcomes(printed[2]), f"{WRITE} {folder.name}"
    assert words(shown) == words(printed[2]), f"{WRITE} {folder.name}"
    for letter in re.findall(r"letter: (\S+)", shown):
        assert "The main reasons are:\n1. " in (tmp_path / letter).read_text()


def outcomes(text: str) -> list[tuple[str, list[str]]]:
    """What was decided about each case and the code of the first reason: scores and small reasons are another machine's."""
    cases = re.findall(r"^(\S.*?) +(\w+) \(0\.\d+\)\n(?: {4}(\w+)  )?", text, re.MULTILINE)
    return [(title, [outcome, code]) for title, outcome, code in cases]


def words(text: str) -> list[str]:
    """Sentences, heads of tables and names of letters: the lines that are another machine's are indented, with numbers."""
    lines = [line for line in text.splitlines() if not re.match(r" .*\d", line) or "letter:" in line]
    return [masked(line) for line in lines if line]


@pytest.mark.timeout(300)
def test_the_first_model_that_a_reader_serves_can_share_runs() -> None:
    page = REPOSITORY / "docs" / "guides" / "serve-a-model.md"
    assert "batching on" in followed(page).printed["flyball inspect risk.onnx"]


def test_a_command_goes_on_after_a_backslash_and_its_output_is_below_it() -> None:
    text = "$ one \\\n  two\nprinted\n\nmore\n$ three\n"
    assert commands(text) == [Command("one \\\n  two", ["printed", "", "more"]), Command("three")]


def test_output_is_compared_without_what_differs_from_run_to_run() -> None:
    assert masked("p99 0.91 ms at 2,000/s") == masked("p99  1.2 ms  at 1,950/s")
    assert masked("0192f6c1-77aa-7000-8000-0123456789ab  reject (0.914)") == masked(
        "0192f6c2-0000-7000-8000-abcdefabcdef reject (0.9)"
    )
    assert masked("2026-11-15 07:32:01.118  pass") == masked("2027-01-02 00:00:00.001  pass")
    assert masked("sha256:3f9c01aa…  11.8 MB") == masked("sha256:00000000…  9 kB")
    assert masked("reject (0.914)") != masked("review (0.914)")
    assert masked("sha256:ad9e…   policy") == masked("sha256:3211…   policy")
    assert masked("2 faults") != masked("2 fault")
    whole = f'{{"id": "0192f6c1-77aa-7000", "score": 0.25, "reasons": "{"r" * 140}"}}'
    cut = f"{whole[:139]}…"
    assert same(cut, whole.replace("0.25", "0.123456789"))
    assert not same(cut, whole.replace("score", "price"))
