"""A model that would not fit into `memory_bytes_max` is refused with its reason, and what is served is served on."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import onnx_models, serving, snapshots
from tests.support.crowd import crowd
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server
from tests.support.wire import Http, assert_same, infer_path, json_request

Model = Callable[[str], Path]
Reference = Callable[[str, Arrays], Arrays]

# A process that serves small models takes less than a third of the budget; loading the heavy model takes twice of it.
BUDGET_MIB, HEAVY_MIB = 192, 128
REASON = rf"loading it takes \d+ MiB or more, \d+ MiB are in use and {BUDGET_MIB} MiB are allowed: .*raise memory_bytes_max"


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_models.heavy(tmp_path_factory.mktemp("heavy"), HEAVY_MIB)


@pytest.fixture
def begin(start: Callable[..., Server], tmp_path: Path) -> Callable[..., Server]:
    """flyballd on one lane with so many mebibytes."""

    def begun(memory_mib: int, *documents: dict[str, Any]) -> Server:
        index = snapshots.write(tmp_path, 1, list(documents))
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"lanes": 1, "memory_bytes_max": memory_mib << 20}))
        return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)

    return begun


def refusal(server: Server, name: str) -> str:
    line = server.log_line(lambda fields: name in str(fields) and "deployment refused" in str(fields))
    return str(line)


def test_a_model_that_does_not_fit_is_refused_with_its_reason_and_the_others_are_served(
    begin: Callable[..., Server], heavy: Path, model: Model, reference: Reference
) -> None:
    server = begin(BUDGET_MIB, snapshots.deployment("heavy", heavy), snapshots.deployment("linear", model("linear")))
    assert server.models == {"linear:1"}
    assert re.search(REASON, refusal(server, "heavy")), refusal(server, "heavy")
    with Http(server) as connection:
        assert_same(connection.infer("linear", row("linear", 1)), reference("linear", row("linear", 1)))
        assert connection.get("/v2/models/heavy/ready").status == 400
        refused = connection.post(infer_path("heavy"), json_request({"x": np.zeros((1, 1), np.int64)}))
        assert refused.status == 503
        assert re.search(REASON, refused.error), refused.error


def test_the_same_model_is_served_where_there_is_room(begin: Callable[..., Server], heavy: Path) -> None:
    server = begin(8 * BUDGET_MIB, snapshots.deployment("heavy", heavy))
    with Http(server) as connection:
        assert connection.infer("heavy", {"x": np.zeros((1, 1), np.int64)})["y"].tolist() == [[0.0]]


def test_a_new_version_that_does_not_fit_leaves_the_old_one_serving(
    begin: Callable[..., Server], heavy: Path, model: Model, reference: Reference, tmp_path: Path
) -> None:
    server = begin(BUDGET_MIB, snapshots.deployment("m", model("linear")), snapshots.deployment("linear", model("linear")))
    with crowd(server, "linear", reference, connections=4), Http(server) as connection:
        again = [snapshots.deployment("m", heavy), snapshots.deployment("linear", model("linear"))]
        snapshots.write(tmp_path, 2, again)
        server.signal(signal.SIGHUP)
        assert re.search(REASON, refusal(server, "m"))
        assert_same(connection.infer("m", row("linear", 3)), reference("linear", row("linear", 3)))
    assert server.stop().code == 0


def test_a_server_of_which_nothing_fits_does_not_start(heavy: Path, tmp_path: Path) -> None:
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("heavy", heavy)])
    (tmp_path / "config.json").write_text(json.dumps({"memory_bytes_max": BUDGET_MIB << 20}))
    command = [*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"]
    ending = serving.run([*command, "--config", str(tmp_path / "config.json")])
    assert ending.code == 3
    assert re.search(REASON, " ".join(ending.text.split())), ending.text


def test_what_is_kept_warm_is_dropped_first_where_memory_is_short(
    start: Callable[..., Server], model: Model, tmp_path: Path
) -> None:
    # Loading a heavy model takes three times its size, and a small server with one in it has less than that left.
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = (onnx_models.heavy(tmp_path / name, 64) for name in ("a", "b"))
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("m", first)])
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"lanes": 1, "memory_bytes_max": 290 << 20}))
    server = start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config, "--watch")
    small = snapshots.deployment("m", model("linear"))
    snapshots.write(tmp_path, 2, [small])
    server.log_line(lambda fields: fields.get("warm") == 1)
    both = [small, snapshots.deployment("n", second)]
    snapshots.write(tmp_path, 3, both)
    server.log_line(lambda fields: "the warm deployments are dropped" in str(fields))

    def applied(generation: int) -> dict[str, Any]:
        wanted = {"generation": generation, "message": "snapshot applied"}
        return server.log_line(lambda fields: wanted.items() <= fields.items())

    # On a busy machine the survey of the first holds it longer than a load waits; the next snapshot finds the room.
    generation, line = 3, applied(3)
    while line["serving"] < 2 and generation < 10:
        generation += 1
        snapshots.write(tmp_path, generation, both)
        line = applied(generation)
    assert (line["serving"], line["refused"], line["warm"]) == (2, 0, 0)
