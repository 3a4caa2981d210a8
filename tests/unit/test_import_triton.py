"""`flyball import triton`: every version that Triton would serve becomes one of the registry, oldest first."""

import json

import pytest

from flyball.errors import ModelRefusedError, UsageError
from flyball.registry.imports.triton import find
from tests.support import model_repositories

CONFIG = """
backend: "onnxruntime"
max_batch_size: 16
version_policy { latest { num_versions: 2 } }
dynamic_batching { preferred_batch_size: [8] max_queue_delay_microseconds: 2000 }
instance_group [ { kind: KIND_GPU } ]
"""


@pytest.fixture
def repository(tmp_path):
    place = tmp_path / "models"
    model_repositories.add(place, "fraud", CONFIG, versions=(1, 2, 7))
    model_repositories.add(place, "churn")
    model_repositories.add_other(place, "vision", "model.pt", 'backend: "pytorch"')
    return place


def test_every_version_that_triton_would_serve_is_found_oldest_first(repository):
    found, report = find(repository)
    assert [(one.name, one.parameters["triton"]["version"]) for one in found] == [
        ("churn", "1"),
        ("fraud", "2"),
        ("fraud", "7"),
    ]
    assert [one.name for one in report.refused] == ["vision"]
    assert found[1].source == "models/fraud/2 (Triton's layout)"
    assert found[1].parameters["triton"]["terms"]["batch"]["size"] == 8
    assert any("instance_group" in note for note in found[1].notes)


def test_one_model_can_be_named(repository):
    assert {one.name for one in find(repository, "churn")[0]} == {"churn"}
    with pytest.raises(UsageError, match="has no model vision") as caught:
        find(repository, "vision")
    assert "churn, fraud" in caught.value.next_step


def test_a_repository_of_which_nothing_can_be_served_is_refused(tmp_path):
    model_repositories.add_other(tmp_path / "models", "vision", "model.pt")
    with pytest.raises(ModelRefusedError, match="vision"):
        find(tmp_path / "models")


def test_the_verb_registers_them_all(run, repository, tmp_path):
    home = tmp_path / "registry"
    assert run("registry", "init", home)[0] == 0
    code, out, errors = run("import", "triton", repository, "--registry", home)
    assert (code, errors) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if "Triton's layout" in line] == ["churn@1", "fraud@1", "fraud@2"]
    assert "vision   refused" in out
    shown = json.loads(run("registry", "show", "fraud@2", "--registry", home, "--json")[1])
    assert shown["meta"]["lineage"]["parameters"]["triton"]["version"] == "7"
