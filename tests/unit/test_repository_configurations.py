"""Which configuration a model has: a client's, its custom file or config.pbtxt; and until when."""

import json

import pytest

from flyball.documents.snapshot import compile_models, read
from flyball.errors import ModelRefusedError
from flyball.triton.compile import read_repository
from flyball.triton.config import CONFIG_BYTES_MAX, read_json
from flyball.triton.live import LiveRepository
from tests.support import model_repositories


class Served:
    """A live repository with the model `m`, and what a server would have after each step."""

    def __init__(self, folder, config="max_batch_size: 4", **settings):
        self.models, self.out = folder / "models", folder / "out"
        self.folder = model_repositories.add(self.models, "m", config)
        self.live = LiveRepository([self.models], **settings)
        self.bundle, _ = self.live.read()

    @property
    def rows_max(self):
        """Of each model, its largest batch."""
        return {item.name: item.limits.batch_rows_max for item in self.bundle.deployments()}

    def load(self, name="m", config=None):
        self.bundle = read(self.live.rescan(name, self.out, config))
        return self.rows_max[name]

    def hang_up(self):
        """As SIGHUP does."""
        self.bundle, _ = self.live.read()
        return self.rows_max.get("m")

    def poll(self):
        found = self.live.changed()
        if found is None:
            return None
        self.bundle, _ = found
        return self.rows_max.get("m")

    def configure(self, text):
        (self.folder / "config.pbtxt").write_text(text)


@pytest.fixture
def served(tmp_path):
    return Served(tmp_path)


def rows_max_with(repository, config_name):
    found = read_repository([repository], config_name=config_name)
    bundle = compile_models(found.sources, read=found.files.__getitem__)
    return {item.name: item.limits.batch_rows_max for item in bundle.deployments()}


def test_a_model_with_a_custom_configuration_uses_it_and_the_others_use_config_pbtxt(tmp_path):
    for name in ("a", "b"):
        model_repositories.add(tmp_path, name, "max_batch_size: 4")
    model_repositories.customize(tmp_path / "a", "fast", "max_batch_size: 32")
    model_repositories.customize(tmp_path / "b", "slow", "max_batch_size: 1")
    assert rows_max_with(tmp_path, "fast") == {"a": 32, "b": 4}
    assert rows_max_with(tmp_path, None) == {"a": 4, "b": 4}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"max_batch_size: many", "cannot parse configs/fast.pbtxt: line 1: "),
        (b"\xff\xfe", "configs/fast.pbtxt is not UTF-8 text"),
        (b"#" * (CONFIG_BYTES_MAX + 1), "configs/fast.pbtxt is larger than"),
    ],
)
def test_a_broken_custom_configuration_is_refused_by_its_name(tmp_path, content, reason):
    folder = model_repositories.add(tmp_path, "m", "max_batch_size: 4")
    model_repositories.customize(folder, "fast", "")
    (folder / "configs/fast.pbtxt").write_bytes(content)
    (report,) = read_repository([tmp_path], config_name="fast").report.models
    assert report.refusal.startswith(reason)


def test_polling_notices_that_a_custom_configuration_appears_changes_and_disappears(tmp_path):
    served = Served(tmp_path, config_name="fast")
    assert (served.rows_max, served.poll()) == ({"m": 4}, None)
    model_repositories.customize(served.folder, "fast", "max_batch_size: 8")
    assert (served.poll(), served.poll()) == (8, None)
    model_repositories.customize(served.folder, "fast", "max_batch_size: 16")
    assert (served.poll(), served.poll()) == (16, None)
    (served.folder / "configs/fast.pbtxt").unlink()
    assert (served.poll(), served.poll()) == (4, None)


def test_a_sent_configuration_replaces_the_whole_file(tmp_path):
    served = Served(tmp_path, "max_batch_size: 4 version_policy { all { } }")
    model_repositories.add(served.models, "m", versions=(2, 3))
    assert served.load() == 4
    config = {"backend": "onnxruntime", "version_policy": {"specific": {"versions": [2]}}}
    read(served.live.rescan("m", served.out, json.dumps(config)))
    (deployment,) = read(served.out / "index.json").deployments()
    assert [item.version for item in deployment.versions] == ["2"]
    assert deployment.limits.batch_rows_max == 64  # nobody states it any more


def test_a_sent_configuration_is_for_its_model_only(served):
    model_repositories.add(served.models, "other", "max_batch_size: 4")
    served.hang_up()
    served.load("m", '{"max_batch_size": 16}')
    served.hang_up()
    assert served.rows_max == {"m": 16, "other": 4}


def test_a_sent_configuration_replaces_a_custom_file_too(tmp_path):
    served = Served(tmp_path, config_name="fast")
    model_repositories.customize(served.folder, "fast", "max_batch_size: 8")
    assert served.load() == 8
    assert served.load(config='{"max_batch_size": 16}') == 16
    served.configure("max_batch_size: 5")  # which is not the model's configuration file
    assert served.load() == 16
    model_repositories.customize(served.folder, "fast", "max_batch_size: 32")
    assert served.load() == 32


def test_a_sent_configuration_is_kept_over_loads_signals_polls_and_other_files(served):
    assert served.load(config='{"max_batch_size": 16}') == 16
    assert served.load() == 16
    assert served.hang_up() == 16
    model_repositories.add(served.models, "m", versions=(2,))
    assert served.poll() == 16
    (deployment,) = served.bundle.deployments()
    assert deployment.route.version == "2"


def test_a_sent_configuration_replaces_the_one_before(served):
    assert served.load(config='{"max_batch_size": 16}') == 16
    assert served.load(config='{"max_batch_size": 32}') == 32
    assert served.load() == 32


@pytest.mark.parametrize("step", [Served.load, Served.hang_up, Served.poll])
def test_a_sent_configuration_ends_when_the_file_changes(served, step):
    served.load(config='{"max_batch_size": 16}')
    served.configure("max_batch_size: 5")
    assert step(served) == 5
    assert served.load() == 5


@pytest.mark.parametrize("step", [Served.load, Served.hang_up, Served.poll])
def test_a_sent_configuration_ends_when_a_file_appears(tmp_path, step):
    served = Served(tmp_path, None)
    assert served.load(config='{"max_batch_size": 16}') == 16
    served.configure("max_batch_size: 5")
    assert step(served) == 5


def test_a_sent_configuration_does_not_come_back_with_the_file_that_it_replaced(served):
    served.load(config='{"max_batch_size": 16}')
    (served.folder / "config.pbtxt").rename(served.models / "aside")
    assert served.hang_up() == 64
    (served.models / "aside").rename(served.folder / "config.pbtxt")
    assert served.hang_up() == 4


def test_a_change_of_the_file_before_the_load_does_not_end_a_sent_configuration(served):
    served.configure("max_batch_size: 5")
    assert served.load(config='{"max_batch_size": 16}') == 16
    assert served.load() == 16


def test_a_sent_configuration_ends_with_the_models_folder(served):
    model_repositories.add(served.models, "other")
    served.load(config='{"max_batch_size": 16}')
    served.folder.rename(served.models / ".m")
    assert served.hang_up() is None
    (served.models / ".m").rename(served.folder)
    assert served.hang_up() == 4


@pytest.mark.parametrize(
    "config",
    [
        '{"max_batch_size": "many"}',
        '{"backend": "tensorrt"}',
        '{"version_policy": {"specific": {"versions": [9]}}}',
        '{"default_model_filename": "other.onnx"}',
        '{"dynamic_batching": {}, "sequence_batching": {}}',
    ],
)
def test_a_sent_configuration_that_cannot_be_served_changes_nothing(served, config):
    served.load(config='{"max_batch_size": 16}')
    with pytest.raises(ModelRefusedError):
        served.load(config=config)
    assert served.load() == 16


def test_a_refused_configuration_does_not_load_a_model_that_nobody_loaded(tmp_path):
    served = Served(tmp_path, load=[], may_be_empty=True)
    with pytest.raises(ModelRefusedError):
        served.load(config="[]")
    assert served.hang_up() is None
    assert served.load() == 4


def test_a_model_that_its_file_cannot_serve_is_served_with_a_sent_configuration(tmp_path):
    served = Served(tmp_path, 'backend: "tensorrt"', may_be_empty=True)
    assert served.rows_max == {}
    assert served.load(config='{"max_batch_size": 16}') == 16


def test_a_refusal_names_the_reason_and_not_the_model(served):
    with pytest.raises(ModelRefusedError) as caught:
        served.load(config='{"backend": "tensorrt"}')
    assert str(caught.value) == 'backend "tensorrt": only onnxruntime is supported; export the model to ONNX'


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ('{"max_batch_size": "16"}', "max_batch_size", 16),
        ('{"maxBatchSize": 16}', "max_batch_size", 16),
        (' \n{"backend": "onnxruntime"}', "backend", "onnxruntime"),
    ],
)
def test_json_is_protobufs_mapping(text, field, value):
    assert getattr(read_json(text).message, field) == value


def test_a_batch_of_zero_in_json_is_told_from_none():
    assert read_json('{"max_batch_size": 0}').states("max_batch_size")
    assert not read_json("{}").states("max_batch_size")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not an object"),
        ("[]", "it is not an object"),
        ("null", "it is not an object"),
        ("max_batch_size: 8", "it is not an object"),
        ("{", "line 1 column 2"),
        ('{"colour": 1}', 'Message type "ModelConfig" has no field named "colour" at "ModelConfig"; write'),
        ('{"input": [{"colour": 1}]}', 'no field named "colour" at "ModelConfig.input[0]"; write'),
        ('{"max_batch_size": "many"}', "max_batch_size"),
        ('{"max_batch_size": 99999999999}', "Value out of range"),
        ('{"name": 5}', "name"),
        ('{"name": "a", "name": "b"}', "duplicate key name"),
        ('{"input": [{"data_type": "TYPE_FP8"}]}', "Invalid enum value TYPE_FP8 for enum type DataType"),
        ('{"input": ' * 50_000, "recursion"),
    ],
)
def test_json_that_is_no_configuration_is_refused_with_the_reason_and_an_example(text, reason):
    with pytest.raises(ModelRefusedError, match=r"^config: not a model configuration in JSON: ") as caught:
        read_json(text)
    assert reason in caught.value.message
    assert caught.value.message.endswith('; write it as {"max_batch_size": 8}')
    assert len(caught.value.message) < 500
    assert "flyball.triton" not in caught.value.message


def test_json_that_is_far_too_long_is_not_parsed():
    with pytest.raises(ModelRefusedError, match=r"^config: longer than"):
        read_json("{" + " " * CONFIG_BYTES_MAX + "}")
