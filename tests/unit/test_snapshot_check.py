"""The snapshot's checks, through the boundary, and its schema against the golden files that Rust's tests read too."""

import json
from pathlib import Path

import jsonschema
import pytest

from flyball.documents.snapshot import Deployment, Index, check, parse
from flyball.errors import RefusedError, SnapshotRefusedError

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/snapshot"
SCHEMA = json.loads((ROOT / "docs/reference/snapshot.schema.json").read_text())
GOOD = sorted(GOLDEN.glob("good/*.json"))
BAD = sorted(GOLDEN.glob("bad/*.json"))
# What a JSON Schema cannot say, or says otherwise: its integers include 1.0, and it knows no references between values.
BEYOND_SCHEMA = {
    "duplicate-names",
    "duplicate-versions",
    "no-versions-and-no-decision",
    "route-is-not-judged-without-versions",
    "route-unknown-version",
    "float-for-int",
    "batch-larger-than-a-run",
    "batch-larger-than-a-run-by-default",
    "batch-larger-than-a-run-that-takes-one-row",
    "candidate-versions-that-the-deployment-has",
    "candidate-versions-twice",
    "shapes-of-other-elements",
}


def stem(path):
    return f"{path.parts[-2]}/{path.stem}"


def load(path):
    return json.loads(path.read_text())


@pytest.mark.parametrize("path", GOOD, ids=stem)
def test_a_good_document_has_no_fault(path):
    golden = load(path)
    assert check(golden["kind"], golden["document"]) == []
    parsed = parse(golden["kind"], json.dumps(golden["document"]).encode())
    assert isinstance(parsed, {"index": Index, "deployment": Deployment}[golden["kind"]])


@pytest.mark.parametrize("path", BAD, ids=stem)
def test_a_bad_document_has_exactly_the_faults_of_its_golden_file(path):
    golden = load(path)
    found = check(golden["kind"], json.dumps(golden["document"]).encode())
    assert [fault.path for fault in found] == golden["faults"]
    assert all(fault.allowed for fault in found)


def test_the_golden_files_are_many():
    assert len(GOOD) >= 30
    assert len(BAD) >= 100


@pytest.mark.parametrize("path", GOOD + BAD, ids=stem)
def test_the_json_schema_agrees_with_the_check(path):
    golden = load(path)
    schema = {**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{golden['kind'].capitalize()}"}]}
    good = jsonschema.Draft202012Validator(schema).is_valid(golden["document"])
    assert good == (path in GOOD or path.stem in BEYOND_SCHEMA)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"format": NaN}', b'{"format": 1, "format": 1}', b"[" * 100_000])
def test_what_is_no_json_is_one_fault_of_the_whole_document(text):
    assert [fault.path for fault in check("index", text)] == [""]


def test_an_unknown_key_is_answered_with_the_known_ones():
    (fault,) = check("index", {"format": 1, "generation": 1, "deployments": [], "deployment": []})
    assert fault.allowed == "no such key; keys are format, generation, deployments, registry, environment, unavailable"


def test_a_thousand_deployments_are_taken_and_one_more_is_not():
    def index(count):
        entries = [{"name": f"d{number}", "digest": "sha256:" + "0" * 64} for number in range(count)]
        return {"format": 1, "generation": 1, "deployments": entries}

    assert check("index", index(1000)) == []
    assert [fault.path for fault in check("index", index(1001))] == ["deployments"]


def test_parse_raises_with_all_faults():
    with pytest.raises(SnapshotRefusedError, match="3 faults") as caught:
        parse("index", b"{}")
    assert [fault.path for fault in caught.value.faults] == ["deployments", "format", "generation"]


def test_defaults_are_those_of_the_specification():
    deployment = parse("deployment", json.dumps(load(GOLDEN / "good/deployment-least.json")["document"]).encode())
    assert deployment.limits.model_dump() == {
        "in_flight_max": 1024,
        "batch_rows_max": 64,
        "concurrency_max": 256,
        "queue_wait_ms_max": 1000,
        "run_ms_max": 10_000,
        "share": 100,
    }
    assert (deployment.slo.deadline_ms, deployment.batch, deployment.labels) == (None, None, {})
    assert deployment.decision is None
    assert deployment.versions[0].artifact.external_data == []


def test_a_batch_that_no_run_may_have_is_told_with_the_limit():
    document = load(GOLDEN / "bad/batch-larger-than-a-run.json")["document"]
    (fault,) = check("deployment", document)
    assert fault.allowed == "at most limits.batch_rows_max, which is 8"


def test_a_label_that_is_no_text_is_told_with_its_place_and_its_bounds():
    document = load(GOLDEN / "good/deployment-least.json")["document"]
    (fault,) = check("deployment", {**document, "labels": {"y": ["cat", 7]}})
    assert (fault.path, fault.found, fault.allowed) == ("labels.y[1]", 7, "a text of 0 to 256 characters")


def test_a_decision_is_told_only_that_it_is_no_object():
    document = load(GOLDEN / "good/deployment-least.json")["document"]
    (fault,) = check("deployment", {**document, "decision": ["card-fraud"]})
    assert (fault.path, fault.found, fault.allowed) == (
        "decision",
        ["card-fraud"],
        "an object: a decision, as 'flyball plan' compiles it; null for none",
    )
    assert check("deployment", {**document, "decision": {"anything": [1.5, None]}}) == []


def test_as_many_labels_are_taken_as_the_limit_says_and_no_more():
    document = load(GOLDEN / "good/deployment-least.json")["document"]
    assert check("deployment", {**document, "labels": {"y": ["a"] * 65_536}}) == []
    assert [fault.path for fault in check("deployment", {**document, "labels": {"y": ["a"] * 65_537}})] == ["labels.y"]


def test_a_kind_that_does_not_exist_is_refused():
    with pytest.raises(RefusedError, match="'route' is no kind"):
        check("route", b"{}")
