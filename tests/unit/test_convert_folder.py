"""What a conversion may write over: an earlier conversion and nothing else, never what it reads."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from flyball.errors import UsageError
from flyball.models.convert.folder import OutputFolder, foreign

WRITTEN = [
    "model.onnx", "model.trees.json", "decision.yaml", "fitted.json", "expected.parquet", "conversion.json",
    "equivalence.json", "samples/1.json",
]  # fmt: skip


def filled(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_an_earlier_conversion_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = filled(tmp_path / "fraud", *WRITTEN)
    with OutputFolder(target).whole_folder(force=True) as making:
        filled(making, "conversion.json")
        assert set(contents(target)) == set(WRITTEN)
    assert contents(tmp_path) == {"fraud/conversion.json": "conversion.json"}


def test_an_empty_folder_may_be_written_over(tmp_path: Path) -> None:
    (tmp_path / "fraud").mkdir()
    with OutputFolder(tmp_path / "fraud").whole_folder(force=True) as making:
        filled(making, "conversion.json")
    assert contents(tmp_path) == {"fraud/conversion.json": "conversion.json"}


def linked(target: Path) -> None:
    filled(target.parent / "elsewhere", *WRITTEN)
    target.symlink_to(target.parent / "elsewhere")


def with_a_link(target: Path) -> None:
    filled(target, "conversion.json")
    (target / "model.onnx").symlink_to(filled(target.parent, "theirs") / "theirs")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda target: filled(target, "fraud.txt", "rows.csv"), r"not from a conversion: fraud\.txt, rows\.csv"),
        (lambda target: filled(target, *WRITTEN, "notes.md"), r"not from a conversion: notes\.md"),
        (lambda target: filled(target, *WRITTEN, "samples/mine.json"), r"not from a conversion: samples"),
        (lambda target: filled(target, *WRITTEN, "model.trees/x"), r"not from a conversion: model\.trees"),
        (lambda target: filled(target, "model.onnx"), r"not from a conversion: model\.onnx"),
        (lambda target: filled(target, *"abcdefg"), r"not from a conversion: a, b, c, d, e and 2 more"),
        (with_a_link, r"not from a conversion: model\.onnx"),
        (lambda target: filled(target.parent, target.name), r"is a file, not a folder"),
        (linked, r"is a file, not a folder"),
    ],
    ids=["no conversion", "a file", "a sample", "a folder", "without document", "many", "link within", "file", "link"],
)
@pytest.mark.parametrize("name", ["fraud", "fraud.failed"])
def test_nothing_else_is_written_over_neither_by_the_folder_nor_by_what_failed(
    name: str, make: Callable[[Path], None], said: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    before = contents(tmp_path)
    with (
        pytest.raises(UsageError, match=rf"--out: .*/{name} (?:contains files that are )?{said}\n.*--out DIR"),
        OutputFolder(tmp_path / "fraud").whole_folder(force=True),
    ):
        pytest.fail("it began")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["fraud", "fraud.failed"])
def test_a_folder_that_holds_what_is_read_is_not_written_over(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / name, *WRITTEN)
    monkeypatch.chdir(tmp_path)
    output = OutputFolder(Path("fraud"), [Path("other/../" + name, "model.onnx")])
    with (
        pytest.raises(UsageError, match=r"contains .*model\.onnx, which is being converted"),
        output.whole_folder(force=True),
    ):
        pytest.fail("it began")
    assert set(contents(tmp_path / name)) == set(WRITTEN)


def test_what_somebody_puts_there_meanwhile_is_kept(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"not from a conversion: notes\.md"),
        OutputFolder(tmp_path / "fraud").whole_folder(force=True),
    ):
        filled(tmp_path / "fraud", "notes.md")
    assert contents(tmp_path / "fraud") == {"notes.md": "notes.md"}


def test_what_failed_takes_the_place_of_what_failed_before(tmp_path: Path) -> None:
    filled(tmp_path / "fraud.failed", *WRITTEN)
    output = OutputFolder(tmp_path / "fraud")
    with contextlib.suppress(UsageError), output.whole_folder(force=False) as making:
        output.keep_failed(filled(making, "conversion.json"))
        raise UsageError("it differs")
    assert contents(tmp_path) == {"fraud.failed/conversion.json": "conversion.json"}


@pytest.mark.parametrize("name", [".", "..", "fraud/..", "/"])
def test_a_folder_without_a_name_of_its_own_is_told_as_such(name: str) -> None:
    with pytest.raises(UsageError, match=r"is not a folder that can be created\n.*--out DIR"):
        OutputFolder(Path(name))


def test_an_earlier_conversion_has_nothing_foreign(tmp_path: Path) -> None:
    assert foreign(filled(tmp_path / "fraud", *WRITTEN)) == []
