"""`--model-repository` on the command line: what people and machines are shown, what is written, and what is refused."""

import json
import sys

import pytest

from flyball.cli.repository import show_or_log
from flyball.documents.snapshot import read
from flyball.triton.compile import read_repository
from tests.support import model_repositories


@pytest.fixture
def repository(tmp_path):
    """One model that maps, one that does not in full, one that cannot be served."""
    folder = tmp_path / "models"
    model_repositories.add(folder, "plain", versions=(1, 2))
    model_repositories.add(folder, "tuned", "max_batch_size: 8 instance_group { count: 2 } colour: [red]")
    model_repositories.add_other(folder, "trt", "model.plan", 'platform: "tensorrt_plan"')
    return folder


def test_inspect_shows_what_maps_what_differs_and_what_is_refused(run, repository):
    code, out, _ = run("inspect", "--model-repository", repository)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "plain served, version 2" in lines
    assert "maps max_batch_size limits.batch_rows_max 8" in lines
    assert any(line.startswith("differs instance_group(count) the number of lanes") for line in lines)
    assert any(line.startswith("differs colour unknown field") for line in lines)
    assert any(line.startswith('trt refused: platform "tensorrt_plan"') for line in lines)
    assert "2 served, 1 refused; fields that do not map or differ: 2" in lines
    assert out.endswith(f"Next: flyball serve --model-repository {repository}\n".replace("Next: ", "Next:  "))


def test_inspect_gives_machines_the_same(run, repository):
    code, out, _ = run("inspect", "--model-repository", repository, "--json")
    assert code == 0
    report = json.loads(out)
    assert report["repository"] == str(repository)
    assert [(model["name"], model["served"]) for model in report["models"]] == [
        ("plain", True),
        ("trt", False),
        ("tuned", True),
    ]
    fields = [(note["field"], note["mapped"]) for note in report["models"][2]["notes"]]
    assert fields == [("max_batch_size", True), ("instance_group(count)", False), ("colour", False)]


def test_snapshot_packs_what_can_be_served_and_tells_of_the_rest(run, repository, tmp_path):
    out = tmp_path / "out"
    code, shown, _ = run("snapshot", "--model-repository", repository, "--out", out, "--deadline-ms", "5", "--json")
    assert code == 0
    told = json.loads(shown)
    assert [entry["name"] for entry in told["deployments"]] == ["plain", "tuned"]
    assert told["repository"]["models"][1]["refusal"].startswith("platform")
    plain, tuned = read(out / "index.json").deployments()
    assert (plain.route.version, plain.slo.deadline_ms) == ("2", 5)
    assert (tuned.limits.batch_rows_max, tuned.slo.deadline_ms) == (8, 5)
    assert (out / plain.versions[0].artifact.path).read_bytes() == (repository / "plain/2/model.onnx").read_bytes()


def test_snapshot_shows_people_the_mapping_and_the_digests(run, repository, tmp_path):
    code, shown, _ = run("snapshot", "--model-repository", repository, "--out", tmp_path / "out")
    assert code == 0
    assert "2 served, 1 refused" in shown
    assert "sha256:" in shown


@pytest.mark.parametrize("verb", [["serve"], ["snapshot", "--out", "out"]])
def test_a_repository_of_which_nothing_can_be_served_ends_the_command_with_3(run, tmp_path, verb):
    model_repositories.add_other(tmp_path / "models", "trt", "model.plan")
    code, _, errors = run(*verb, "--model-repository", tmp_path / "models")
    assert code == 3
    assert "trt: version 1: model.plan is a model of TensorRT" in errors


@pytest.mark.parametrize("verb", [["serve"], ["snapshot", "--out", "out"], ["inspect"]])
def test_a_repository_beside_models_and_nothing_at_all_are_wrong_usage(run, repository, verb):
    assert run(*verb, "a.onnx", "--model-repository", repository)[0] == 2
    assert run(*verb)[0] == 2


def test_inspect_and_snapshot_use_the_custom_configuration_and_the_next_command_does_too(run, repository, tmp_path):
    model_repositories.customize(repository / "tuned", "fast", "max_batch_size: 32")
    given = ("--model-repository", repository, "--model-config-name", "fast")
    code, shown, _ = run("inspect", *given)
    assert code == 0
    assert "limits.batch_rows_max 32" in " ".join(shown.split())
    assert shown.endswith(f"flyball serve --model-repository {repository} --model-config-name fast\n")
    code, _, _ = run("snapshot", *given, "--out", tmp_path / "out")
    assert code == 0
    assert read(tmp_path / "out/index.json").deployments()[1].limits.batch_rows_max == 32


@pytest.mark.parametrize("verb", [["serve"], ["snapshot", "--out", "out"], ["inspect"]])
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../fast", "/fast"])
def test_a_custom_configuration_is_named_without_folders(run, repository, verb, name):
    code, _, errors = run(*verb, "--model-repository", repository, "--model-config-name", name)
    assert code == 2
    assert f"--model-config-name: '{name}' is not the name of a file in configs/" in " ".join(errors.split())


@pytest.mark.parametrize("verb", [["serve"], ["snapshot", "--out", "out"], ["inspect"]])
@pytest.mark.parametrize("name", ["fast", ""])
def test_a_custom_configuration_needs_a_repository(run, verb, name):
    code, _, errors = run(*verb, "a.onnx", "--model-config-name", name)
    assert code == 2
    assert "--model-config-name needs --model-repository" in errors


def test_a_log_has_one_line_for_each_refusal_and_for_each_field_that_does_not_map(repository, capsys):
    show_or_log(read_repository([repository]).report)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["model"], line.get("field")) for line in lines] == [
        ("ERROR", "trt", None),
        ("WARN", "tuned", "instance_group(count)"),
        ("WARN", "tuned", "colour"),
    ]
    assert all(line["reason"] for line in lines)


def test_a_terminal_gets_the_table(repository, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    show_or_log(read_repository([repository]).report)
    out, errors = capsys.readouterr()
    assert out == ""
    assert "2 served, 1 refused" in errors
