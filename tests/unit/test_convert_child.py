"""Whatever the process that takes a file apart leaves or says, the one that started it tells it and goes on."""

import json
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.errors import FlyballError, ModelRefusedError
from flyball.models.convert.loader import load_in_process
from flyball.models.convert.table import read_table

ROWS = {"amount": np.arange(100.0)}
PARTS = {
    "kind": "x", "fields": {"amount": "amount"}, "columns": ["amount"], "score": "p[1]", "probability": True
}  # fmt: skip
LEFT = f"""
Path('parts.json').write_text({json.dumps(PARTS)!r})
Path('model.onnx').write_bytes(b'')
Path('examined.json').write_text('{{"columns": ["amount"], "unseen": []}}')
"""


@pytest.fixture
def ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Takes a file apart by a process that does something else."""

    def taken(act: str) -> Any:
        script = tmp_path / "python"
        script.write_text(f"#!{sys.executable} -IS\nimport os, sys\nfrom pathlib import Path\n{act}\n")
        script.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(script))
        return load_in_process(tmp_path / "x.pkl", "pickle", read_table(ROWS), name="x", element=None, rows_max=100)

    return taken


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("os.mkfifo('parts.json')", r"wrote parts\.json, which is a link, a pipe or a device"),
        ("os.mkdir('parts.json')", r"the output.*: IsADirectoryError"),
        (LEFT.replace('"kind": "x"', '"kind": 5'), r"the output.*: ValidationError: 1 validation error for Parts\n"),
        ("Path('model.onnx').write_bytes(b''); Path('parts.json').write_text('[' * 100_000)", r"the output.*: Recursion"),
        (
            LEFT + """Path('model.trees.json').write_text('{"trees": [{"feature": [7], "threshold": [1.0]}]}')""",
            r"the output.*: IndexError",
        ),
        (LEFT + "Path('answers.npy').write_bytes(b'')", r"the output.*: EOFError"),
        ("os.mkdir('error.json'); sys.exit(1)", r"the output.*: IsADirectoryError"),
        ("Path('error.json').write_text('[]'); sys.exit(1)", r"the output.*: TypeError"),
        ("Path('error.json').write_text('[' * 60_000); sys.exit(1)", r"the output.*: Recursion"),
        (
            """Path('error.json').write_text('{"kind": [], "message": 1, "code": 2, "next": 3}'); sys.exit(1)""",
            r"the output.*: TypeError: error fields are not text",
        ),
    ],
    ids=[
        "a pipe", "a folder", "of other types", "a deep document", "a sidecar of other columns", "no answers",
        "an error that is a folder", "an error that is a list", "a deep error", "an error of other types",
    ],
)  # fmt: skip
def test_what_is_left_in_place_of_parts_is_refused(act: str, said: str, ending: Callable[[str], Any]) -> None:
    with pytest.raises(ModelRefusedError, match=said) as refused:
        ending(act)
    assert refused.value.next_step == "do not trust the model file"


@pytest.mark.parametrize("kind", ["SignatureError", "Fault", "no such error"])
def test_an_error_that_the_process_cannot_have_is_told_by_its_words_alone(kind: str, ending: Callable[[str], Any]) -> None:
    told = json.dumps({"kind": kind, "message": "words", "code": "x", "next": None})
    with pytest.raises(FlyballError, match=r"^words$") as refused:
        ending(f"Path('error.json').write_text({told!r}); sys.exit(1)")
    assert type(refused.value) is FlyballError


def test_folders_that_packages_leave_beside_are_no_matter(ending: Callable[[str], Any], tmp_path: Path) -> None:
    np.save(tmp_path / "answers.npy", np.zeros((2, 100)))
    made = ending(LEFT + f"os.makedirs('.cache/fonts'); os.rename({str(tmp_path / 'answers.npy')!r}, 'answers.npy')")
    assert made.expected.tolist() == [0.0] * 100


def test_nothing_of_it_stays_however_deep_folders_lie_in_each_other(
    ending: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with pytest.raises(ModelRefusedError, match=r"cannot read the output of the model's process: FileNotFoundError"):
        ending("for _ in range(1200): os.mkdir('d', 0o300), os.chdir('d')")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_of_what_the_process_says_only_the_end_is_read(ending: Callable[[str], Any]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ModelRefusedError, match=r"ended with exit code 3: the last words\n"):
            ending("sys.stderr.write('x' * (32 << 20) + '\\nthe last words')\nsys.exit(3)")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20
