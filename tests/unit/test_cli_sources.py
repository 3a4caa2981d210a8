"""Where `flyball serve` has its models from, and what it can give a client that wants one loaded."""

import pytest

from flyball.cli.model_sources import source_of
from flyball.cli.repository import Control
from flyball.documents.snapshot import Slo, Terms, compile_models, read
from flyball.errors import ModelRefusedError, UsageError
from tests.support import model_repositories


def names(bundle):
    return [entry.name for entry in bundle.parsed_index().deployments]


def test_models_by_name_are_read_once_and_for_all(here):
    source = source_of(["a.onnx"], None, None, None)
    assert names(source.read()) == ["a"]
    assert (source.can_change, source.on_load) == (False, None)


def test_a_snapshot_is_its_own_newest(here):
    index = compile_models(["a.onnx"]).write(here / "out")
    source = source_of(None, index, None, None)
    assert names(source.read()) == ["a"]
    assert (source.can_change, source.on_load("a", None, False)) == (True, index)


def test_a_snapshots_models_cannot_be_loaded_with_a_configuration(here):
    source = source_of(None, compile_models(["a.onnx"]).write(here / "out"), None, None)
    with pytest.raises(ModelRefusedError, match="only models of --model-repository"):
        source.on_load("a", "{}", False)


def test_flags_for_models_beside_a_snapshot_are_refused(tmp_path):
    with pytest.raises(UsageError, match="do not apply to --snapshot"):
        source_of(None, tmp_path / "index.json", None, Terms(slo=Slo(deadline_ms=1)))


def test_a_load_reads_one_model_of_a_repository_again(tmp_path):
    model_repositories.add(tmp_path, "a")
    source = source_of(None, None, [tmp_path], None)
    assert names(source.read()) == ["a"]
    model_repositories.add(tmp_path, "b")
    assert names(read(source.on_load("b", None, False))) == ["a", "b"]
    assert source.on_load("none", None, False) is None
    model_repositories.add(tmp_path, "b", "name: {")
    with pytest.raises(ModelRefusedError, match=r"^cannot parse config"):
        source.on_load("b", None, False)


def test_a_client_loads_a_model_of_a_repository_with_its_own_configuration(tmp_path):
    model_repositories.add(tmp_path, "a", "max_batch_size: 4")
    source = source_of(None, None, [tmp_path], None)
    source.read()
    (deployment,) = read(source.on_load("a", '{"max_batch_size": "16"}', False)).deployments()
    assert deployment.limits.batch_rows_max == 16


def test_the_custom_configuration_of_the_flag_is_served(tmp_path):
    folder = model_repositories.add(tmp_path, "a", "max_batch_size: 4")
    model_repositories.customize(folder, "fast", "max_batch_size: 32")
    (deployment,) = source_of(None, None, [tmp_path], None, control=Control(config_name="fast")).read().deployments()
    assert deployment.limits.batch_rows_max == 32


@pytest.mark.parametrize("given", [(None, None, None), (["a.onnx"], "index.json", None), (["a.onnx"], None, ["models"])])
def test_none_and_several_are_wrong_usage(given):
    with pytest.raises(UsageError, match="give one source to serve"):
        source_of(*given, None)
