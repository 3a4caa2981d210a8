"""The steps of a run, and its folder: what is taken up again, and what is never believed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flyball.errors import LockedError, RefusedError
from flyball.models.convert.optional_packages import versions
from flyball.models.optimize.all_steps import subject_key
from flyball.models.optimize.pipeline import StepResults, run_steps
from flyball.models.optimize.rows import Rows
from flyball.models.optimize.run import Run
from flyball.models.optimize.subject import Subject
from flyball.models.optimize.work_folder import WorkFolder
from flyball.native.journal import runtime_fingerprint
from flyball.native.models import model_files
from tests.support import onnx_models
from tests.support.silent_progress import Silent


@dataclass
class Counted:
    """A step that counts its runs, and can be made to die."""

    name: str
    setting: int = 0
    runs: int = 0
    dies: bool = False
    seen: list[str] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, Any]:
        return {"setting": self.setting}

    def run(self, found: StepResults, progress: Any) -> dict[str, Any]:
        if self.dies:
            raise KeyboardInterrupt
        self.runs += 1
        self.seen = list(found.documents)
        return {"from": self.name, "setting": self.setting}


def ran(made: list[Counted], tmp_path: Path, key: str, progress: Any, **how: Any) -> Any:
    work = WorkFolder(tmp_path / "work")
    with work.held():
        return run_steps(made, work, key, progress, **how)


def steps() -> list[Counted]:
    return [Counted(name) for name in ("one", "two", "three", "four")]


@pytest.mark.parametrize("index", range(4))
def test_a_run_that_ended_goes_on_with_the_step_that_was_not_finished(tmp_path: Path, index: int) -> None:
    made = steps()
    made[index].dies = True
    with pytest.raises(KeyboardInterrupt):
        ran(made, tmp_path, "key", Silent())
    made[index].dies = False
    ended = ran(made, tmp_path, "key", Silent())
    assert [one.runs for one in made] == [1, 1, 1, 1]
    assert ended.reused == [one.name for one in made[:index]]
    assert made[index].seen == [one.name for one in made[:index]]


def test_a_changed_setting_runs_its_step_and_all_that_follow_again(tmp_path: Path) -> None:
    made = steps()
    ran(made, tmp_path, "key", Silent())
    made[1].setting = 7
    ended = ran(made, tmp_path, "key", Silent())
    assert [one.runs for one in made] == [1, 2, 2, 2]
    assert ended.documents["two"]["setting"] == 7


def test_another_subject_and_a_fresh_start_take_nothing_from_before(tmp_path: Path) -> None:
    made = steps()
    ran(made, tmp_path, "key", Silent())
    ran(made, tmp_path, "another", Silent())
    ran(made, tmp_path, "another", Silent(), fresh=True)
    assert [one.runs for one in made] == [3, 3, 3, 3]


def test_nothing_is_taken_from_a_run_of_other_packages_another_engine_build_or_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = Subject("n", tmp_path / "n.onnx", "sha256:0", "score", None, [])
    run = Run(subject, Rows({}, None, None, "sha256:1"), WorkFolder(tmp_path))
    here = {"onnxruntime": "1.31.1", "cpu": "some", "cpu_features": ["avx2"], "flyball": "0.1.0", "commit": "a"}
    monkeypatch.setattr("flyball.models.optimize.all_steps.runtime_fingerprint", lambda: here)
    packages = {"onnxruntime": "1.31.1", "onnx": "1.19.0"}
    monkeypatch.setattr(
        "flyball.models.optimize.all_steps.versions", lambda *names: {name: packages[name] for name in names}
    )
    keys = [subject_key(run), subject_key(run)]
    assert keys[0] == keys[1]
    for told, name in [*((here, name) for name in here), *((packages, name) for name in packages)]:
        monkeypatch.setitem(told, name, "another")
        keys.append(subject_key(run))
    assert len(set(keys)) == len(keys) - 1


def test_the_key_of_a_run_knows_what_the_engine_tells_of_itself() -> None:
    assert {"onnxruntime", "cpu", "cpu_features", "flyball", "commit"} <= runtime_fingerprint().keys()
    assert versions("onnxruntime", "onnx").keys() == {"onnxruntime", "onnx"}


@pytest.mark.parametrize("damage", ["torn", "no JSON object", "gone"])
def test_a_step_whose_document_is_damaged_runs_again_with_all_that_rest_on_it(tmp_path: Path, damage: str) -> None:
    made = steps()
    ran(made, tmp_path, "key", Silent())
    kept = tmp_path / "work" / "steps" / "03-three.json"
    if damage == "gone":
        kept.unlink()
    else:
        kept.write_text(kept.read_text()[:20] if damage == "torn" else "[1]")
    ran(made, tmp_path, "key", Silent())
    assert [one.runs for one in made] == [1, 1, 2, 2]


def test_a_model_that_was_changed_since_makes_its_step_run_again(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path / "work")
    with work.held():
        pass
    digest = model_files(onnx_models.linear(work.models)).digest
    work.finish(1, "export", "key", {"made": True}, {"linear.onnx": digest})
    assert work.finished(1, "export", "key") == {"made": True}
    onnx_models.linear(work.models, seed=9)
    assert work.finished(1, "export", "key") is None


def test_a_folder_with_other_files_is_not_worked_in(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "models").mkdir()
    with pytest.raises(RefusedError, match="contains other files"), WorkFolder(tmp_path).held():
        pass
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("thesis.txt", "models")] == []


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_is_there(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path / "work")
    with work.held(), pytest.raises(LockedError, match="another run uses"), work.held():
        pass
    with work.held():
        pass


def test_a_run_takes_away_what_another_came_to_and_what_a_killed_one_left_half(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path / "work")
    with work.held():
        (work.folder / "chosen.onnx").write_text("of another model")
        (work.folder / "equivalence.json").write_text("{}")
        (work.models / "flyball-rewrite-x1").mkdir()
        (work.models / "float32.onnx").write_text("kept: a step's document says whether it is believed")
    with work.held():
        assert sorted(path.name for path in work.folder.iterdir()) == [".flyball-optimize", "models", "steps"]
        assert [path.name for path in work.models.iterdir()] == ["float32.onnx"]
