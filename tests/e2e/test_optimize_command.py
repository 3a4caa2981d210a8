"""`flyball optimize` as a user runs it: a killed run goes on where it was, and what comes out serves and is promoted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.models.equivalence.certificate import read_certificate
from flyball.native.model_runs import Model
from tests.support import idle_columns, onnx_models
from tests.support.command_line import flyball
from tests.support.serving import environment, until

STEPS = ["budget", "baseline", "features", "export", "equal", "graph", "quantise", "batch", "benchmark", "burst", "retest"]


def subject(folder: Path) -> list[str]:
    """The words after `flyball`: trees, for which everything is quick."""
    model = onnx_models.gbdt(folder)
    name, width = Model(model).facts.inputs[0].name, Model(model).facts.inputs[0].shape[1]
    np.savez(folder / "rows.npz", **{name: np.random.default_rng(4).normal(size=(500, width)).astype(np.float32)})
    work = ["--out", str(folder / "work"), "--seconds", "0.5"]
    return ["optimize", str(model), "--data", str(folder / "rows.npz"), *work]


def kept(folder: Path, place: int) -> Path:
    return folder / "work" / "steps" / f"{place:02}-{STEPS[place - 1]}.json"


@pytest.mark.timeout(120)
def test_a_run_that_is_killed_goes_on_where_it_was_and_leaves_a_model_that_serves(tmp_path: Path) -> None:
    words = subject(tmp_path)
    seen: dict[Path, int] = {}
    for place in (3, 6):
        command = [sys.executable, "-m", "flyball", *words]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            until(f"step {place} is kept", lambda place=place: kept(tmp_path, place).exists() or None, timeout_s=60)
            run.kill()
        for path, written in seen.items():
            assert path.stat().st_mtime_ns == written, f"{path.name} was done again"
        seen = {path: path.stat().st_mtime_ns for path in (tmp_path / "work" / "steps").glob("*.json")}
        assert kept(tmp_path, place) in seen
    ended = flyball(*words, "--json")
    assert ended.code == 0, ended.stderr
    assert all(path.stat().st_mtime_ns == written for path, written in seen.items())
    document: dict[str, Any] = json.loads("\n".join(ended.stdout))
    assert list(document["steps"]) == STEPS
    assert document["steps"]["retest"]["rollback"] == document["subject"]["digest"]
    assert all(
        document["steps"][step][who]["failed"] == 0 for step in ("benchmark", "burst") for who in ("original", "chosen")
    )
    certificate = read_certificate(tmp_path / "work" / "equivalence.json")
    assert certificate.outcome == "equal"
    assert Model(tmp_path / "work" / "chosen.onnx").facts.digest == certificate.candidate.digest
    page = (tmp_path / "work" / "report.html").read_text()
    assert "TreeEnsemble" in page
    assert "<svg" in page


@pytest.mark.timeout(120)
def test_a_decision_comes_out_as_a_folder_that_serves_and_can_be_registered(tmp_path: Path) -> None:
    (tmp_path / "loans").mkdir()
    decision = idle_columns.write(tmp_path / "loans")
    words = ["--data", decision.parent / "rows.csv", "--target", "label", "--seconds", "0.5", "--out", tmp_path / "work"]
    ended = flyball("optimize", decision, *words)
    assert ended.code == 0, ended.stderr
    shown = "\n".join(ended.stdout)
    assert "is without idle, channel=shop, channel=fax" in " ".join(shown.split())
    report = json.loads((tmp_path / "work" / "report.json").read_text())
    assert report["budget"]["p99_ms"] == 7
    names = {one["name"] for one in report["steps"]["graph"]["candidates"]}
    assert names == {"float32", "basic", "extended"}, "a model of fixed rows cannot serve a decision"
    assert report["decision"]["differ"] == 0
    assert report["decision"]["requests"] == 200
    chosen = tmp_path / "work" / "chosen"
    assert flyball("check", chosen / "decision.yaml").code == 0
    home = tmp_path / "home"
    assert flyball("registry", "init", home).code == 0
    registered = flyball("register", "loans", chosen, "--registry", home, "--by", "ada")
    assert registered.code == 0, registered.stderr
    assert read_certificate(tmp_path / "work" / "equivalence.json").candidate.way is None  # of chosen.onnx alone
    assert read_certificate(chosen / "equivalence.json").candidate.way is not None
    fitted = json.loads((chosen / "fitted.json").read_text())
    fitted["transforms"][0]["mean"][0] += 0.1
    (chosen / "fitted.json").write_text(json.dumps(fitted))
    refused = flyball("register", "loans", chosen, "--registry", home, "--by", "ada")
    assert refused.code == 3
    assert "is the compared model, but its decision has changed since" in " ".join(refused.stderr)


def test_what_cannot_be_read_is_told_with_the_way_forward(tmp_path: Path) -> None:
    model = onnx_models.linear(tmp_path)
    for words, told in {
        ("--data", str(tmp_path / "rows.npz"), "--bound", "inf"): "inf is not a finite number",
        ("--data", str(tmp_path / "rows.npz"), "--threshold", "nan"): "nan is not a finite number",
        ("--data", str(tmp_path / "none.csv")): "cannot read",
        ("--data", str(model)): "not a supported file of rows",
        ("--data", str(tmp_path / "rows.npz"), "--budget", "p99"): "--budget: 'p99' is not valid",
        ("--data", str(tmp_path / "rows.npz"), "--segments", "where"): "lacks where",
    }.items():
        np.savez(tmp_path / "rows.npz", x=np.zeros((5, 4), dtype=np.float32))
        ended = flyball("optimize", model, *words)
        assert ended.code in (2, 3)
        assert told in "\n".join(ended.stderr)
