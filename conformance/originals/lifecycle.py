"""The steps of Triton's lifecycle suite: repositories that change, are polled, or are loaded by clients."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from conformance.originals.stand_ins import add_sub, identity, stand_in
from conformance.originals.step import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.originals.repository import Repositories

    Models = Callable[[Repositories], None]

FILE = "lifecycle_test.py"
_FLOATS = "float32_float32_float32"
_ONE = "--model-repository models"
_TWO = "--model-repository models --model-repository models_0"
_POLL = "--model-control-mode poll --repository-poll-secs 1"
_EXPLICIT = "--model-control-mode explicit"
_WAITS = "--queue-wait-ms-max 60000"
_ONLY = "version_policy: {{ specific {{ versions: [{}] }}}}\n"
_LOAD_S = 4.0
"""The cases expect a load to last longer than three seconds."""
_LONG_LOAD_S = 6.0
"""Some expect ten seconds, on average of two models; a load runs its model more than once."""
_RUN_S = 3.0
"""Requests are in flight when the server is told to leave, a second after they were sent."""
_STRESS_S = 900
"""32,768 loads and as many unloads, one at a time."""
_ABSENT = "--model-repository xyzx"
"""A repository that does not exist, by the name that the suite gives it."""


def _floats(here: Repositories, *backends: str, to: str = "models") -> None:
    for backend in backends:
        here.take("qa_model_repository", f"onnx_{_FLOATS}", to, under=backend)


def _ints(here: Repositories) -> None:
    here.take("qa_model_repository", "onnx_int32_int32_int32", under="libtorch")


def _one_row(here: Repositories, *folders: str) -> None:
    for folder in folders:
        here.edit(here.here / folder / "config.pbtxt", r"max_batch_size:.*", "max_batch_size: 1")


def _remove(here: Repositories, pattern: str) -> None:
    for path in here.here.glob(pattern):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _model_fails(here: Repositories) -> None:
    here.empty("models_0")
    _floats(here, "openvino", "libtorch")
    _floats(here, "onnx", "plan", to="models_0")
    _remove(here, f"models/libtorch_{_FLOATS}/3/*")


def _outputs_fail(here: Repositories) -> None:
    here.empty("models_0")
    here.take("qa_sequence_model_repository", "onnx_sequence_int32")
    here.take("qa_model_repository", "onnx_int32_int32_int32", "models_0")
    for folder in ("models/onnx_sequence_int32", "models_0/onnx_int32_int32_int32"):
        here.edit(here.here / folder / "config.pbtxt", "OUTPUT", "_OUTPUT")
    _floats(here, "openvino", "libtorch")
    _floats(here, "onnx", to="models_0")


def _no_config(here: Repositories) -> None:
    """The model without a configuration is one of OpenVINO's, as in the suite; any file will do for it."""
    here.empty("models_0", f"models/openvino_{_FLOATS}/1")
    (here.here / f"models/openvino_{_FLOATS}/1/model.xml").write_text("<net/>")
    _floats(here, "libtorch")
    _floats(here, "onnx", "plan", to="models_0")


def _no_version(here: Repositories) -> None:
    _floats(here, "libtorch", "onnx", "plan", "openvino")
    _remove(here, f"models/openvino_{_FLOATS}/[0-9]*")


def _other_version_name(here: Repositories, name: str) -> None:
    _floats(here, "libtorch")
    folder = here.here / "models" / f"libtorch_{_FLOATS}"
    (folder / "3").rename(folder / name)


def _one_beside(here: Repositories) -> None:
    _floats(here, "openvino", "onnx", "plan")
    here.empty(f"libtorch_{_FLOATS}")
    _floats(here, "libtorch", to=".")


def _to_be_modified(here: Repositories) -> None:
    for backend in ("libtorch", "plan"):
        _floats(here, backend)
        folder = here.here / "models" / f"{backend}_{_FLOATS}"
        for name, pattern, replacement in (
            (f"config.pbtxt.{backend}", r"(?m)^version_policy.*\n", ""),
            (f"config.pbtxt.wrong.{backend}", "output0_labels", "wrong_output0_labels"),
        ):
            shutil.copyfile(folder / "config.pbtxt", here.here / name)
            here.edit(here.here / name, pattern, replacement)
        shutil.copyfile(folder / "output0_labels.txt", folder / "wrong_output0_labels.txt")
        here.edit(folder / "wrong_output0_labels.txt", "label", "label9")


def _two_repositories(here: Repositories) -> None:
    here.empty("models_0", f"libtorch_{_FLOATS}")
    _floats(here, "openvino", "libtorch")
    _floats(here, "onnx", to="models_0")
    _floats(here, "libtorch", to=".")
    _remove(here, f"models/libtorch_{_FLOATS}/3")


def _with_simple(here: Repositories) -> None:
    _floats(here, "onnx", "simple_onnx")
    _one_row(here, f"models/onnx_{_FLOATS}", f"models/simple_onnx_{_FLOATS}")


def _emptied(here: Repositories) -> None:
    _floats(here, "onnx")
    _remove(here, f"models/onnx_{_FLOATS}/*/*")
    _one_row(here, f"models/onnx_{_FLOATS}")


def _started(here: Repositories) -> None:
    here.empty("models_0")
    for backend in ("plan", "onnx"):
        _floats(here, backend)
        _floats(here, f"simple_{backend}", to="models_0")
        _one_row(here, f"models/{backend}_{_FLOATS}", f"models_0/simple_{backend}_{_FLOATS}")
    _floats(here, "libtorch")
    _floats(here, "libtorch", to="models_0")


def _indexed(here: Repositories) -> None:
    here.empty("models_0")
    for backend in ("plan", "libtorch"):
        _floats(here, backend)
        _floats(here, f"simple_{backend}", to="models_0")
    _floats(here, "onnx")
    _floats(here, "onnx", to="models_0")


def _identity(here: Repositories, *, seconds: float = 0, later: str = "", version: int = 1) -> None:
    """Triton delays the creation of this model; here its warm-up takes `seconds`.

    `later` is the configuration of a reload: version 1 is served first, then `version`.
    """
    folder = here.fixture("L0_lifecycle/identity_zero_1_int32")
    stand_in(folder, identity, seconds=seconds)
    if later:
        shutil.copytree(folder / "1", folder / "2")
        config = (folder / "config.pbtxt").read_text()
        (folder / "config.pbtxt").write_text(config + _ONLY.format(1))
        (here.here / later).write_text(config + _ONLY.format(version))


def _other_platform(here: Repositories) -> None:
    here.empty("simple_float32_float32_float32")
    for to in ("models", "."):
        here.take("qa_model_repository", f"onnx_{_FLOATS}", to, under="simple")


def _overridden(here: Repositories) -> None:
    _floats(here, "onnx")
    _remove(here, f"models/onnx_{_FLOATS}/1/*")
    _remove(here, f"models/onnx_{_FLOATS}/3/*")


def _one_version(here: Repositories) -> None:
    _floats(here, "onnx")
    _remove(here, f"models/onnx_{_FLOATS}/1")


def _one_identity(here: Repositories, *, config: bool = True, versions: int = 1) -> None:
    folder = here.fixture("python_models/identity_fp32")
    stand_in(folder, identity)
    for version in range(2, versions + 1):
        shutil.copytree(folder / "1", folder / str(version))
    if versions > 1:
        with (folder / "config.pbtxt").open("a") as file:
            file.write("\nversion_policy: { specific: { versions: [1, 2] } }\n")
    if not config:
        (folder / "config.pbtxt").unlink()


def _four_models(here: Repositories) -> None:
    """Triton delays the creation of each; here their warm-ups take long."""
    for number in (1, 2):
        for source, name in (
            ("L0_lifecycle/identity_zero_1_int32", f"identity_zero_1_int32_{number}"),
            ("python_models/identity_fp32", f"python_identity_fp32_{number}"),
        ):
            folder = here.fixture(source, name=name)
            here.edit(folder / "config.pbtxt", r"(?m)^name:.*$", f'name: "{name}"')
            stand_in(folder, identity, seconds=_LONG_LOAD_S)


def _slow_runs(here: Repositories) -> None:
    stand_in(here.fixture("custom_models/custom_zero_1_float32"), identity, seconds=_RUN_S)


def _with_ensemble(here: Repositories) -> None:
    """The ensemble is the suite's own."""
    here.fixture("L0_lifecycle/ensemble_zero_1_float32")
    _slow_runs(here)
    _identity(here, seconds=_LOAD_S)


def _long_load(here: Repositories) -> None:
    stand_in(here.fixture("python_models/identity_fp32"), identity, seconds=_LONG_LOAD_S)


def _add_sub(here: Repositories) -> None:
    stand_in(here.fixture("python_models/add_sub"), add_sub)


def _replaced_backend(here: Repositories) -> None:
    here.empty("models_v2")
    for source, to in (("L0_lifecycle/identity_zero_1_int32", "models"), ("python_models/identity_fp32", "models_v2")):
        folder = here.fixture(source, to, "identity_model")
        here.edit(folder / "config.pbtxt", r"(?m)^name:.*$", 'name: "identity_model"')
        stand_in(folder, identity)


def _with_configs(here: Repositories, *, made: bool) -> None:
    _floats(here, "libtorch")
    folder = here.here / "models" / f"libtorch_{_FLOATS}"
    (folder / "configs").mkdir()
    custom = folder / "configs" / "custom.pbtxt" if made else here.here / "config.pbtxt.custom.libtorch"
    shutil.copyfile(folder / "config.pbtxt", custom)
    here.edit(custom, r"(?m)^version_policy:.*", "version_policy: { specific: { versions: [2] }}")


def steps() -> tuple[Step, ...]:
    """Every case except those of GPUs, sequences and what only a Python backend does."""
    slow = partial(_identity, seconds=_LOAD_S)
    reloads: list[tuple[str, Models]] = [
        ("test_model_availability_on_reload", slow),
        ("test_model_availability_on_reload_2", partial(slow, later="config.pbtxt.v2", version=2)),
        ("test_model_availability_on_reload_3", partial(slow, later="config.pbtxt.new")),
    ]
    started = f"{_EXPLICIT} " + " ".join(f"--load-model {name}_{_FLOATS}" for name in ("libtorch", "plan", "simple_onnx"))
    indexed = f"{_EXPLICIT} " + " ".join(f"--load-model {name}_{_FLOATS}" for name in ("onnx", "plan", "simple_libtorch"))
    loaded = f"{_EXPLICIT} --load-model identity_zero_1_int32"
    table: list[tuple[str, Models, str]] = [
        ("test_parse_error_modelfail", _model_fails, f"{_TWO} --strict-readiness"),
        ("test_parse_error_modelfail_nostrict", _model_fails, _TWO),
        ("test_parse_error_no_model_config", _no_config, _TWO),
        ("test_init_error_modelfail", _outputs_fail, f"{_TWO} --strict-readiness"),
        ("test_parse_error_model_no_version", _no_version, f"{_ONE} --strict-readiness"),
        ("test_parse_ignore_zero_prefixed_version", partial(_other_version_name, name="003"), _ONE),
        ("test_parse_ignore_non_intergral_version", partial(_other_version_name, name="abc"), _ONE),
        ("test_dynamic_model_load_unload", _one_beside, f"{_ONE} {_POLL}"),
        ("test_dynamic_model_load_unload_disabled", _one_beside, _ONE),
        ("test_dynamic_version_load_unload", _ints, f"{_ONE} {_POLL}"),
        ("test_dynamic_version_load_unload_disabled", _ints, _ONE),
        ("test_dynamic_model_modify", _to_be_modified, f"{_ONE} {_POLL}"),
        ("test_dynamic_file_delete", lambda here: _floats(here, "onnx", "plan"), f"{_ONE} {_POLL}"),
        ("test_multiple_model_repository_polling", _two_repositories, f"{_TWO} {_POLL}"),
        ("test_multiple_model_repository_control", _two_repositories, f"{_TWO} {_EXPLICIT}"),
        ("test_model_control", _with_simple, f"{_ONE} {_EXPLICIT}"),
        ("test_model_control_fail", _emptied, f"{_ONE} {_EXPLICIT}"),
        ("test_model_control_ensemble", _with_simple, f"{_ONE} {_EXPLICIT}"),
        ("test_multiple_model_repository_control_startup_models", _started, f"{_TWO} {started}"),
        ("test_model_repository_index", _indexed, f"{_TWO} {indexed}"),
        ("test_load_same_model_different_platform", _other_platform, f"{_ONE} {_EXPLICIT} --load-model simple_{_FLOATS}"),
        ("test_config_override", _overridden, f"{_ONE} {_EXPLICIT}"),
        ("test_file_override", _one_version, f"{_ONE} {_EXPLICIT} --load-model onnx_{_FLOATS}"),
        ("test_file_override_security", _one_version, f"{_ONE} {_EXPLICIT} --load-model onnx_{_FLOATS}"),
        ("test_shutdown_dynamic", _slow_runs, f"{_ONE} {_WAITS}"),
        ("test_shutdown_ensemble", _with_ensemble, f"{_ONE} {_WAITS}"),
        ("test_concurrent_model_load_speedup", _four_models, f"{_ONE} {_EXPLICIT}"),
        ("test_concurrent_model_load", _replaced_backend, f"{_ONE} {_EXPLICIT}"),
        ("test_concurrent_model_load_unload", _with_ensemble, f"{_ONE} {_EXPLICIT}"),
        (
            "test_model_config_overwite",
            partial(_one_identity, config=False),
            f"{_ONE} {_EXPLICIT} --load-model identity_fp32",
        ),
        ("test_shutdown_while_loading", _long_load, f"{_ONE} {_EXPLICIT}"),
        ("test_shutdown_with_live_connection", _add_sub, _ONE),
        ("test_add_custom_config", partial(_with_configs, made=False), f"{_ONE} {_POLL} --model-config-name custom"),
        ("test_delete_custom_config", partial(_with_configs, made=True), f"{_ONE} {_POLL} --model-config-name custom"),
        ("test_load_new_model_version", partial(_one_identity, versions=3), f"{_ONE} {_EXPLICIT} --load-model *"),
    ]
    log = {"SERVER_LOG": "/dev/null"}
    found = [Step(FILE, models, flags, (f"LifeCycleTest.{case}",), log) for case, models, flags in table]
    # The suite does so four times, with one repository and with two: flyball starts with none of them.
    absent = ("LifeCycleTest.test_parse_error_noexit",)
    found.append(Step(FILE, lambda _: None, f"{_ONE} {_ABSENT}", absent))
    stress = ("LifeCycleTest.test_concurrent_same_model_load_unload_stress",)
    found.append(Step(FILE, _identity, f"{_ONE} {_EXPLICIT}", stress, limit_s=_STRESS_S))
    for protocol in ("grpc", "http"):
        environment = {"TRITONSERVER_USE_GRPC": "1"} if protocol == "grpc" else {}
        found += [
            Step(FILE, models, f"{_ONE} {loaded}", (f"LifeCycleTest.{case}",), environment, label=protocol)
            for case, models in reloads
        ]
    return tuple(found)
