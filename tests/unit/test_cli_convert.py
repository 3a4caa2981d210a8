"""`flyball convert`: what it prints for people and machines, how it warns, and what it says of files that are no models."""

import json
import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
from sklearn.linear_model import LogisticRegression

from tests.support import trained_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("convert")
    frame = trained_models.payments(400)[["amount", "mcc", "fraud"]]
    trained_models.saved(frame, path / "rows.csv")
    model = LogisticRegression(max_iter=500).fit(frame[["amount", "mcc"]], frame["fraud"])
    (path / "risk.pkl").write_bytes(pickle.dumps(model))
    return path


def test_the_help_teaches_by_three_examples(run) -> None:
    code, out, _ = run("convert", "--help")
    assert code == 0
    assert out.partition("Usage:")[2].partition("\n")[2].count("flyball convert ") == 3


def test_a_conversion_says_what_was_compared_and_what_to_do_next(run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "risk"
    words = (
        "convert",
        str(folder / "risk.pkl"),
        "--data",
        str(folder / "rows.csv"),
        "--target",
        "fraud",
        "--rows-max",
        "500",
    )
    code, shown, said = run(*words, "--out", str(out), "--trust-pickle", "--owner", "risk@example.com", "--bands", BANDS)
    assert code == 0, said
    assert "Warning: loading" in said
    assert "which can read every file that you can read" in said
    assert "equal to the original: 500 rows (" in shown
    assert f"flyball serve --decision {out}/decision.yaml" in shown
    text = (out / "decision.yaml").read_text()
    assert "owner: risk@example.com" in text
    assert "reject:" in text
    code, shown, _ = run(*words, "--out", str(out), "--trust-pickle", "--force", "--json")
    assert code == 0
    assert json.loads(shown)["comparison"]["equal"] is True


BANDS = '{pass: "< 0.2", review: "< 0.7", reject: ">= 0.7"}'


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder as the current one, with files in it that are no models."""
    monkeypatch.chdir(folder)
    Path("empty").write_bytes(b"")
    Path("rows.txt").write_text("amount\n1\n")
    Path("x.csv").write_text("x,y\n1,2\n")
    with zipfile.ZipFile("state.pt", "w") as file:
        file.writestr("state/data.pkl", b"")
    with zipfile.ZipFile("program.pt2", "w") as file:
        file.writestr("program/archive_format", b"pt2")
    return folder


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["risk.pkl", "--data", "rows.csv"], 2, "can run arbitrary code"),
        (["risk.pkl", "--trust-pickle"], 2, "--data is required"),
        (["risk.pkl", "--data", "none.csv", "--trust-pickle"], 3, "cannot read none.csv"),
        (["risk.pkl", "--data", "rows.txt", "--trust-pickle"], 3, "rows.txt is not a supported file of rows"),
        (["rows.csv", "--data", "rows.csv"], 3, "rows.csv is not a supported model file"),
        (["nothing.onnx", "--data", "rows.csv"], 3, "cannot read nothing.onnx"),
        (["empty", "--data", "rows.csv"], 3, "empty is empty"),
        (["x.csv", "--data", "rows.csv"], 3, "x.csv is not a supported model file"),
        (["state.pt", "--data", "rows.csv"], 3, "holds a module's state_dict, not its program"),
        (["program.pt2", "--data", "images.npz", "--trust-pickle"], 2, "name a function that loads it"),
        (["models_here:missing", "--data", "rows.csv"], 3, "cannot find models_here:missing"),
        (["risk.pkl", "--data", "rows.csv", "--bands", "0.3"], 2, "--bands: '0.3' is not a mapping"),
        (["risk.pkl", "--data", "rows.csv", "--bound", "nan"], 2, "--bound: 'nan' is not a number of 0 or more"),
        (["risk.pkl", "--data", "rows.csv", "--bound", "inf"], 2, "inf is not a finite number"),
        (["risk.pkl", "--data", "rows.csv", "--name", "no/name"], 2, "'no/name' is not a valid decision name"),
    ],
)
def test_what_cannot_be_converted_is_told_with_the_way_forward(
    words: list[str], code: int, said: str, run, inside: Path
) -> None:
    got, _, told = run("convert", *words, "--out", "out")
    assert (got, said in told) == (code, True), told
    assert len(told.strip().splitlines()) >= 2, told
    assert not Path("out").exists()


@pytest.mark.parametrize("out", ["here", "."])
def test_the_folder_of_the_model_and_its_rows_is_not_written_over_even_by_force(
    out: str, run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    shutil.copytree(folder, here)
    monkeypatch.chdir(tmp_path if out == "here" else here)
    words = (str(here / "risk.pkl"), "--data", str(here / "rows.csv"), "--trust-pickle")
    code, _, told = run("convert", *words, "--out", out, "--force")
    assert code == 2
    assert "--out DIR" in told
    assert (here / "risk.pkl").read_bytes() == (folder / "risk.pkl").read_bytes()
    assert (here / "rows.csv").exists()


def test_a_folder_that_is_there_is_not_written_over(run, folder: Path, tmp_path: Path) -> None:
    code, _, told = run("convert", str(folder / "risk.pkl"), "--data", str(folder / "rows.csv"), "--out", str(tmp_path))
    assert code == 2
    assert f"{tmp_path} exists\n" in told
    assert "--force" in told
