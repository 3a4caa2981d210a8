"""Modules of PyTorch become decisions over columns, or plain models over other tensors, with equal answers."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from flyball.errors import InvalidInputError, ModelRefusedError, UsageError
from flyball.models.convert import convert
from flyball.native.model_runs import Model
from tests.support import trained_models

pytestmark = [pytest.mark.timeout(180), pytest.mark.filterwarnings("ignore")]
COLUMNS = ["amount", "mcc", "card age"]
FRAME = trained_models.payments(300)[[*COLUMNS, "fraud"]]


def perceptron() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1), nn.Sigmoid())


class Pictures(nn.Module):
    """A small network over pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = self.layers(image)
        return answers


def answers(module: Any, frame: pd.DataFrame) -> Any:
    with torch.no_grad():
        return module.eval()(torch.from_numpy(frame[COLUMNS].to_numpy(dtype=np.float32))).numpy()[:, 0]


def test_a_module_over_columns_becomes_a_decision(tmp_path: Path) -> None:
    module = perceptron().train()  # as training leaves it
    made = convert(module, data=FRAME, out=tmp_path / "risk", target="fraud", rows=500)
    np.testing.assert_allclose(trained_models.scores(made, FRAME), answers(module, FRAME), rtol=0, atol=1e-5)
    assert made.document["explained_by"] == "ablation"
    assert "torch" in made.document["packages"]


def test_an_exported_program_is_loaded_apart_and_only_with_trust(tmp_path: Path) -> None:
    module = perceptron().eval()
    rows = torch.from_numpy(FRAME[COLUMNS].to_numpy(dtype=np.float32)[:4])
    program = torch.export.export(module, (rows,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    torch.export.save(program, tmp_path / "risk.pt2")
    data = trained_models.saved(FRAME, tmp_path / "rows.csv")
    with pytest.raises(UsageError, match=r"may run whatever its maker wrote"):
        convert(tmp_path / "risk.pt2", data=data, out=tmp_path / "out", target="fraud")
    made = convert(tmp_path / "risk.pt2", data=data, out=tmp_path / "out", target="fraud", trust_pickle=True, rows=500)
    np.testing.assert_allclose(trained_models.scores(made, FRAME), answers(module, FRAME), rtol=0, atol=1e-5)


def test_a_program_for_a_fixed_number_of_rows_is_told_how_to_be_exported(tmp_path: Path) -> None:
    program = torch.export.export(perceptron().eval(), (torch.zeros(4, 3),))
    with pytest.raises(InvalidInputError, match=r"(?s)cannot answer .* rows.*dynamic_shapes"):
        convert(program, data=FRAME, out=tmp_path / "out", target="fraud", rows=500)


def test_a_module_over_pictures_is_a_plain_model(tmp_path: Path) -> None:
    module = Pictures()
    images = np.random.default_rng(1).normal(size=(6, 3, 16, 16)).astype(np.float32)
    made = convert(module, data={"image": images}, out=tmp_path / "pictures")
    assert not made.decision_file.exists()
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(images)).numpy()
    found = next(iter(Model(made.folder / "model.onnx").run({"image": images}).values()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)
    with pytest.raises(InvalidInputError, match=r"no array 'image'.*\n.*takes image"):
        convert(module, data={"picture": images}, out=tmp_path / "other")


class Choosing(nn.Module):
    """Rows decide which way is taken, which no exporter can follow."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows[:, :1] if rows.sum() > 0 else -rows[:, :1]


def test_a_module_that_does_not_export_is_told_why(tmp_path: Path) -> None:
    with pytest.raises(ModelRefusedError, match=r"(?s)torch.onnx cannot export the module: .*\n.*operators that export"):
        convert(Choosing(), data=FRAME, out=tmp_path / "out", target="fraud")


def test_a_function_of_the_caller_s_own_code_gives_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import torch\n\n\ndef trained():\n    torch.manual_seed(1)\n    return torch.nn.Linear(3, 1)\n"
    (tmp_path / "own_models.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    made = convert("own_models:trained", data=FRAME, out="out", target="fraud", rows=500)
    assert made.decision_file.exists()
