"""What callers from elsewhere read of the server's paths: names of files, and nothing of where they are."""

from pathlib import Path

import pytest

from flyball.registry.remote.hidden_paths import without_paths


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{folder}/.passing-x/folder/m.onnx: cannot read {folder}/m.onnx: gone", "m.onnx: cannot read m.onnx: gone"),
        ("'{folder}/a b' is not a folder", "'a b' is not a folder"),
        ("cannot open {folder}/registry.db", "cannot open registry.db"),
        ("sqlite:///{folder}/registry.db: unable to open", "a file: unable to open"),
        ("name it: --registry {folder}", "name it: --registry home"),
        ("here/registry.db is locked", "registry.db is locked"),
        ("./here/x and ~/.ssh/id", "x and id"),
        ("list all routes:  GET /v1/registry/fraud", None),
        ("files/0/model.onnx is no model", None),
        ("see https://example.org/tmp/x", None),
        ("a rate of 3/s, and/or none", None),
    ],
)  # fmt: skip
def test_the_server_s_folders_are_left_out_and_all_else_is_kept(
    text: str, shown: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "here").mkdir(parents=True)
    monkeypatch.chdir(home)
    said = text.format(folder=home)
    assert without_paths(said) == (said if shown is None else shown)
