"""Whole model folders: which are served, with what, which are refused and why, and what is kept when they are read again."""

import errno
import json

import onnx
import pytest

from flyball.documents.snapshot import BatchWait, Limits, Slo, Terms, compile_models, read
from flyball.errors import ModelRefusedError, UsageError
from flyball.native import models as native_models
from flyball.triton.compile import proved, read_repository
from flyball.triton.live import LiveRepository
from tests.support import model_repositories, onnx_models

LABELLED = 'output { name: "y" data_type: TYPE_FP32 dims: 2 label_filename: "labels.txt" }'


def only(repository, flags=None):
    """The one model of a repository, as it is served, and its report."""
    found = read_repository([repository], flags)
    (report,) = found.report.models
    assert report.refusal is None, report.refusal
    (deployment,) = compile_models(found.sources, read=found.files.__getitem__).deployments()
    return deployment, report


def refusal(repository):
    (report,) = read_repository([repository]).report.models
    assert report.refusal is not None
    return report.refusal


def said(report):
    return {note.field: note.text for note in report.warnings}


def test_a_model_without_a_configuration_is_served_with_our_defaults(tmp_path):
    folder = model_repositories.add(tmp_path, "m", versions=(1, 12, 3))
    deployment, report = only(tmp_path)
    assert (deployment.name, deployment.route.version, deployment.format) == ("m", "12", 1)
    assert [item.artifact.path for item in deployment.versions] == [str(folder / "12/model.onnx")]
    assert (report.versions, report.notes) == (("12",), ())


def test_all_versions_are_served_in_order_and_the_highest_answers(tmp_path):
    model_repositories.add(tmp_path, "m", "version_policy { all { } }", versions=(2, 10, 1))
    deployment, report = only(tmp_path)
    assert [item.version for item in deployment.versions] == ["1", "2", "10"]
    assert (deployment.route.version, report.versions) == ("10", ("1", "2", "10"))


def test_what_lies_beside_versions_and_models_is_passed_over(tmp_path):
    folder = model_repositories.add(tmp_path, "m")
    for name in ("latest", "02", "0", "1a", "-1"):
        (folder / name).mkdir()
    (folder / "9").write_text("a file")
    (tmp_path / ".git").mkdir()
    (tmp_path / "README").write_text("a file")
    deployment, _ = only(tmp_path)
    assert deployment.route.version == "1"


def test_labels_batches_and_another_file_name_reach_the_deployment(tmp_path):
    text = f"""default_model_filename: "net.onnx" max_batch_size: 8 {LABELLED}
        dynamic_batching {{ preferred_batch_size: 4 max_queue_delay_microseconds: 2000 }}"""
    folder = model_repositories.add(tmp_path, "m", text, file="net.onnx")
    (folder / "labels.txt").write_bytes("Käse\r\n\ndog\n".encode())
    deployment, report = only(tmp_path)
    assert deployment.labels == {"y": ["Käse", "", "dog"]}
    assert (deployment.limits.batch_rows_max, deployment.batch) == (8, BatchWait(size=4, window_ms=2))
    assert deployment.versions[0].artifact.path.endswith("/1/net.onnx")
    assert report.warnings == []


@pytest.mark.parametrize(
    ("content", "file", "words"),
    [
        (None, "labels.txt", "cannot read labels.txt: No such file"),
        (b"\xff", "labels.txt", "not UTF-8"),
        (b"x" * 257, "labels.txt", "above the limits of a snapshot"),
        (b"a\n" * 65_537, "labels.txt", "above the limits of a snapshot"),
        (b"a", "../labels.txt", "is not a file in the model's folder"),
    ],
)
def test_labels_that_cannot_be_read_are_said_and_the_model_is_served(tmp_path, content, file, words):
    folder = model_repositories.add(tmp_path, "m", LABELLED.replace("labels.txt", file))
    if content is not None:
        (folder / "labels.txt").write_bytes(content)
    deployment, report = only(tmp_path)
    assert deployment.labels == {}
    assert words in said(report)['output "y" label_filename']


def test_tensors_are_compared_with_those_of_the_models_file(tmp_path):
    model_repositories.add(tmp_path, "m", 'max_batch_size: 4 input { name: "x" data_type: TYPE_INT64 dims: 5 }')
    _, report = only(tmp_path)
    assert said(report) == {
        'input "x" data_type': "INT64 differs from the model's FP32",
        'input "x" dims': "[5] after the batch axis differs from the model's [-1, 4]",
    }


@pytest.mark.parametrize(
    ("operator", "attributes", "warnings"),
    [
        ("Identity", {}, {}),
        (
            "StringNormalizer",
            {"case_change_action": "LOWER"},
            {"input x": "BYTES must be UTF-8: this model computes on texts"},
        ),
    ],
)
def test_a_model_that_computes_on_texts_says_that_they_must_be_utf_8(tmp_path, operator, attributes, warnings):
    path = model_repositories.add(tmp_path, "m") / "1/model.onnx"
    node = onnx.helper.make_node(operator, ["x"], ["y"], **attributes)
    tensors = [onnx_models.value(name, onnx.TensorProto.STRING, ["n"]) for name in "xy"]
    onnx_models.save(path, [node], tensors[:1], tensors[1:])
    _, report = only(tmp_path)
    assert said(report) == warnings


def test_flags_go_before_configurations_and_the_rest_of_these_stays(tmp_path):
    text = "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 2000 }"
    model_repositories.add(tmp_path, "m", text)
    flags = Terms.model_validate({"limits": {"queue_wait_ms_max": 7}, "slo": {"deadline_ms": 9}, "batch": None})
    deployment, _ = only(tmp_path, flags)
    assert deployment.limits == Limits(batch_rows_max=8, queue_wait_ms_max=7)
    assert (deployment.slo, deployment.batch) == (Slo(deadline_ms=9), BatchWait(size=8, window_ms=2))


@pytest.mark.parametrize(("rows_max", "batch"), [(4, BatchWait(size=4, window_ms=2)), (1, None)])
def test_a_wait_is_cut_to_the_rows_that_a_flag_allows(tmp_path, rows_max, batch):
    model_repositories.add(tmp_path, "m", "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 2000 }")
    deployment, report = only(tmp_path, Terms.model_validate({"limits": {"batch_rows_max": rows_max}}))
    assert (deployment.limits.batch_rows_max, deployment.batch) == (rows_max, batch)
    assert f"limit of {rows_max} rows" in said(report)["batch.size"]


@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [
        ("m", 'backend: "tensorrt"', 'backend "tensorrt"'),
        ("m", 'name: "m', "cannot parse config.pbtxt: line 1"),
        ("m", 'default_model_filename: "../m.onnx"', "is not a file in the version's folder"),
        ("m", 'default_model_filename: "other.onnx"', "1/other.onnx does not exist (the folder has model.onnx)"),
        ("my model", None, "rename its folder"),
        ("m\n", None, "rename its folder"),
    ],
)
def test_a_model_that_cannot_be_served_has_its_reason(tmp_path, name, config, reason):
    model_repositories.add(tmp_path, name, config)
    assert reason in refusal(tmp_path)


def test_a_model_without_versions_is_refused(tmp_path):
    (tmp_path / "m").mkdir()
    assert "no version folder" in refusal(tmp_path)


def test_another_backends_file_is_named_where_no_configuration_does(tmp_path):
    model_repositories.add_other(tmp_path, "m", "model.plan")
    assert refusal(tmp_path) == "version 1: model.plan is a model of TensorRT; only ONNX is supported"


def test_a_model_that_is_a_folder_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "m/1/model.onnx").mkdir(parents=True)
    assert "move the folder's content up to 1/" in refusal(tmp_path)


def test_a_file_that_is_no_model_refuses_all_versions_as_a_snapshot_would(tmp_path):
    folder = model_repositories.add(tmp_path, "m", "version_policy { all { } }", versions=(1, 2))
    (folder / "1/model.onnx").write_bytes(b"not a model")
    assert refusal(tmp_path).startswith("version 1: ")


def test_a_configuration_that_is_no_text_is_refused(tmp_path):
    folder = model_repositories.add(tmp_path, "m")
    (folder / "config.pbtxt").write_bytes(b"\xff\xfe")
    assert "config.pbtxt is not UTF-8" in refusal(tmp_path)


def test_a_folder_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    def model_folder(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    folder = model_repositories.add(tmp_path, "m")
    monkeypatch.setattr("flyball.triton.compile.model_folder", model_folder)
    assert refusal(tmp_path) == f"cannot read {folder}: Permission denied"


def test_weights_beside_a_model_come_with_it(tmp_path):
    (tmp_path / "m/1").mkdir(parents=True)
    onnx_models.external(tmp_path / "m/1").rename(tmp_path / "m/1/model.onnx")
    deployment, _ = only(tmp_path)
    assert [item.name for item in deployment.versions[0].artifact.external_data] == ["external-weights.bin"]


def test_weights_behind_a_link_are_refused(tmp_path):
    (tmp_path / "m/1").mkdir(parents=True)
    onnx_models.external(tmp_path / "m/1").rename(tmp_path / "m/1/model.onnx")
    (tmp_path / "m/1/external-weights.bin").rename(tmp_path.parent / f"{tmp_path.name}-weights")
    (tmp_path / "m/1/external-weights.bin").symlink_to(tmp_path.parent / f"{tmp_path.name}-weights")
    assert "is a link" in refusal(tmp_path)


def test_one_model_holds_no_other_back(tmp_path):
    model_repositories.add(tmp_path, "good")
    model_repositories.add(tmp_path, "broken", "name: {")
    model_repositories.add_other(tmp_path, "plan", "model.plan", 'platform: "tensorrt_plan"')
    report = read_repository([tmp_path]).report
    assert [model.name for model in report.served] == ["good"]
    assert [model.name for model in report.refused] == ["broken", "plan"]
    assert json.loads(json.dumps(report.document()))["models"][1] == {
        "name": "good",
        "served": True,
        "versions": ["1"],
        "refusal": None,
        "notes": [],
    }


def test_a_repository_that_is_none_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="has no model"):
        read_repository([tmp_path])
    with pytest.raises(UsageError, match="is not a folder"):
        read_repository([tmp_path / "none"])


def test_a_files_bytes_are_read_once(tmp_path, monkeypatch):
    folder = model_repositories.add(tmp_path, "m")
    opened = []
    monkeypatch.setattr(
        "flyball.triton.compile.model_files", lambda path: opened.append(path) or native_models.model_files(path)
    )
    monkeypatch.setattr(
        "flyball.documents.snapshot.compile.model_files", lambda path: opened.append(path) or native_models.model_files(path)
    )
    LiveRepository([tmp_path]).read()
    assert opened == [folder / "1/model.onnx"]


def names(bundle):
    return {entry.name: entry.digest for entry in bundle.parsed_index().deployments}


def test_a_repository_read_again_has_what_is_there_now_with_a_later_generation(tmp_path):
    model_repositories.add(tmp_path, "a")
    model_repositories.add(tmp_path, "b")
    live = LiveRepository([tmp_path])
    first, _ = live.read()
    (tmp_path / "b").rename(tmp_path / "c")
    second, _ = live.read()
    assert (sorted(names(first)), sorted(names(second))) == (["a", "b"], ["a", "c"])
    assert names(first)["a"] == names(second)["a"]
    assert second.parsed_index().generation == first.parsed_index().generation + 1
    assert second.faults() == []


def test_a_model_that_cannot_be_served_any_more_keeps_its_last_good_state(tmp_path):
    folder = model_repositories.add(tmp_path, "a")
    live = LiveRepository([tmp_path])
    first, _ = live.read()
    (folder / "config.pbtxt").write_text("name: {")
    second, report = live.read()
    assert names(second) == names(first)
    assert [model.name for model in report.refused] == ["a"]


def test_a_repository_without_any_model_to_serve_is_refused_with_all_reasons(tmp_path):
    model_repositories.add_other(tmp_path, "plan", "model.plan")
    model_repositories.add(tmp_path, "broken", "name: {")
    with pytest.raises(ModelRefusedError, match=r"plan: version 1: model\.plan") as caught:
        LiveRepository([tmp_path]).read()
    assert "broken: cannot parse config.pbtxt" in caught.value.message
    assert "flyball inspect --model-repository" in str(caught.value)


def test_a_rescan_writes_a_snapshot_in_which_only_that_model_is_new(tmp_path):
    repository, out = tmp_path / "models", tmp_path / "out"
    for name in ("a", "b"):
        model_repositories.add(repository, name)
    live = LiveRepository([repository])
    before = names(live.read()[0])
    for name in ("a", "b"):
        model_repositories.add(repository, name, versions=(2,))
    index = live.rescan("a", out)
    bundle = read(index)
    assert bundle.faults() == []
    assert names(bundle)["b"] == before["b"]
    assert names(bundle)["a"] != before["a"]
    changed = next(item for item in bundle.deployments() if item.name == "a")
    assert changed.route.version == "2"


def test_a_rescan_takes_up_a_model_that_is_new_and_leaves_the_rest_alone_when_it_refuses_one(tmp_path):
    repository, out = tmp_path / "models", tmp_path / "out"
    model_repositories.add(repository, "a")
    live = LiveRepository([repository])
    live.read()
    model_repositories.add(repository, "fresh")
    assert sorted(names(read(live.rescan("fresh", out)))) == ["a", "fresh"]
    model_repositories.add(repository, "a", "name: {")
    with pytest.raises(ModelRefusedError, match=r"^cannot parse config\.pbtxt"):
        live.rescan("a", out)
    assert sorted(names(read(out / "index.json"))) == ["a", "fresh"]


@pytest.mark.parametrize("name", ["none", "..", ".", "a/1", "../a", "", "a\0", "a\n"])
def test_a_rescan_of_what_is_no_model_gives_nothing(tmp_path, name):
    model_repositories.add(tmp_path, "a")
    live = LiveRepository([tmp_path])
    live.read()
    assert live.rescan(name, tmp_path / "out") is None


def unavailable(bundle):
    return {model.name: model.reason for model in bundle.parsed_index().unavailable}


def test_every_folder_is_listed_and_one_that_is_not_served_with_its_reason(tmp_path):
    model_repositories.add(tmp_path, "a")
    model_repositories.add_other(tmp_path, "vision", "model.plan")
    model_repositories.add(tmp_path, "two words")
    bundle, _ = LiveRepository([tmp_path]).read()
    assert bundle.faults() == []
    assert list(names(bundle)) == ["a"]
    assert "model.plan is a model of TensorRT" in unavailable(bundle)["vision"]
    assert "rename its folder" in unavailable(bundle)["two words"]


def test_a_model_in_two_repositories_is_refused_and_the_others_are_served(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    model_repositories.add(one, "a")
    model_repositories.add(two, "b")
    for repository in (one, two):
        model_repositories.add(repository, "twice")
    bundle, _ = LiveRepository([one, two]).read()
    assert sorted(names(bundle)) == ["a", "b"]
    assert unavailable(bundle)["twice"].startswith("model appears in two or more repositories")


def test_only_the_named_models_are_loaded_and_the_others_wait_for_a_client(tmp_path):
    repository = tmp_path / "models"
    for name in ("a", "b", "c"):
        model_repositories.add(repository, name)
    live = LiveRepository([repository], load=["a"], may_be_empty=True)
    bundle, _ = live.read()
    assert (list(names(bundle)), unavailable(bundle)) == (["a"], {"b": "", "c": ""})
    loaded = read(live.rescan("b", tmp_path / "out"))
    assert (sorted(names(loaded)), unavailable(loaded)) == (["a", "b"], {"c": ""})


def test_the_folder_of_a_model_that_a_client_loaded_may_be_removed(tmp_path):
    repository = tmp_path / "models"
    for name in ("a", "b"):
        model_repositories.add(repository, name)
    live = LiveRepository([repository], load=["a"], may_be_empty=True)
    live.read()
    live.rescan("b", tmp_path / "out")
    (repository / "b").rename(tmp_path / "b")
    assert list(names(live.read()[0])) == ["a"]


def test_no_model_need_be_loaded_and_one_that_is_missing_is_named(tmp_path):
    model_repositories.add(tmp_path, "a")
    bundle, _ = LiveRepository([tmp_path], load=[], may_be_empty=True).read()
    assert (names(bundle), unavailable(bundle)) == ({}, {"a": ""})
    with pytest.raises(UsageError, match="has no model 'b'") as caught:
        LiveRepository([tmp_path], load=["b"], may_be_empty=True).read()
    assert "it has a" in str(caught.value)


def test_a_change_of_a_folder_is_found_without_reading_the_others(tmp_path, monkeypatch):
    for name in ("a", "b"):
        model_repositories.add(tmp_path, name)
    live = LiveRepository([tmp_path], may_be_empty=True)
    first, _ = live.read()
    assert live.changed() is None
    opened = []
    monkeypatch.setattr(
        "flyball.triton.compile.model_files", lambda path: opened.append(path) or native_models.model_files(path)
    )
    model_repositories.add(tmp_path, "b", versions=(2,))
    second, report = live.changed()
    assert {path.parts[-3] for path in opened} == {"b"}
    assert [model.name for model in report.models] == ["b"]
    assert names(second)["a"] == names(first)["a"]
    assert names(second)["b"] != names(first)["b"]
    (tmp_path / "a").rename(tmp_path / ".a")
    third, _ = live.changed()
    assert list(names(third)) == ["b"]
    (tmp_path / "b/config.pbtxt").write_text("name: {")
    fourth, report = live.changed()
    assert (names(fourth), unavailable(fourth)) == (names(third), {})
    assert [model.name for model in report.refused] == ["b"]


def test_a_configured_tensor_that_the_model_does_not_have_refuses_it(tmp_path):
    model_repositories.add(tmp_path, "a", 'output [ { name: "z" data_type: TYPE_FP32 dims: [ 2 ] } ]')
    (report,) = read_repository([tmp_path]).report.models
    assert report.refusal == 'output "z": the model has no such output; it has y'


def test_what_the_runtime_refuses_is_refused_before_it_is_served(tmp_path):
    model_repositories.add(tmp_path, "good")
    path = model_repositories.add(tmp_path, "late") / "1/model.onnx"
    model = onnx.load(path)
    model.ir_version = 99
    path.write_bytes(model.SerializeToString())
    begun = []
    report = proved(read_repository([tmp_path]), lambda _, name: begun.append(name))
    assert begun == ["good", "late"]
    assert [model.name for model in report.served] == ["good"]
    assert report.refused[0].refusal.startswith("version 1: ")
    assert "IR version" in report.refused[0].refusal
