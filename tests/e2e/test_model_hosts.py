"""Models that never end, and operators that cannot be interrupted: each costs a process of its own, and nothing else."""

import json
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import onnx_models, serving, snapshots
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server, until
from tests.support.signers import Office
from tests.support.wire import Http, Raw, assert_same, infer_path, json_request, raw_infer

# CPU time, so that a busy machine changes nothing: more than any model of these tests needs.
PROBE_MS_MAX = 3000
REASON = f"the probe did not end within {PROBE_MS_MAX} ms (probe_ms_max)"
# Multiplying matrices of this size takes some twenty seconds, and cannot be stopped.
HELD = 3500
Model = Callable[[str], Path]


def settings(folder: Path, **more: Any) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps({"lanes": 1, "probe_ms_max": PROBE_MS_MAX, **more}))
    return str(path)


def hosts_of(server: Server) -> list[int]:
    """The model hosts of a server: its children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == server.process.pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("program", ["flyball", "flyballd"])
def test_a_model_without_an_end_is_refused_and_what_is_loaded_after_it_serves(
    start: Callable[..., Server], model: Model, reference: Callable[[str, Arrays], Arrays], tmp_path: Path, program: str
) -> None:
    documents = [
        snapshots.deployment("endless", onnx_models.endless(tmp_path)),
        snapshots.deployment("linear", model("linear")),
    ]
    index = snapshots.write(tmp_path, 1, documents)
    command = serving.serve_snapshot() if program == "flyball" else serving.flyballd()
    server = start(*command, "--snapshot", index, "--listen", "127.0.0.1:0", "--config", settings(tmp_path))
    assert server.models == {"linear:1"}
    line = server.log_line(lambda fields: "endless" in str(fields) and "refused" in str(fields).lower())
    assert REASON in str(line)
    inputs = row("linear", 1)
    with Http(server) as connection:
        assert_same(connection.infer("linear", inputs), reference("linear", inputs))
        refused = connection.post(infer_path("endless"), json_request(inputs))
    assert refused.status == 503
    assert REASON in refused.error
    assert hosts_of(server) == [], "no process is left behind"


def test_serve_refuses_a_model_without_an_end(tmp_path: Path) -> None:
    command = [*serving.flyball(), "serve", str(onnx_models.endless(tmp_path)), "--listen", "127.0.0.1:0"]
    ending = serving.run([*command, "--config", settings(tmp_path)])
    assert ending.code == 3
    assert REASON in " ".join(ending.text.split())


class Revoking:
    """A server of signed deployments that is asked to load a model without an end while a signed one serves."""

    def __init__(self, start: Callable[..., Server], folder: Path, probe_ms_max: int) -> None:
        self.office = Office(folder)
        self.good = self.office.deployment("fraud", 1, onnx_models.linear(folder, "first", seed=1))
        self.index = self.office.write(folder / "snapshot", 1, [self.good])
        flags = ["--listen", "127.0.0.1:0", "--watch", *self.office.flags]
        config = settings(folder, probe_ms_max=probe_ms_max)
        self.server = start(*serving.flyballd(unsigned=False), "--snapshot", self.index, *flags, "--config", config)
        self.folder = folder

    def load_endless(self) -> None:
        endless = self.office.deployment("endless", 1, onnx_models.endless(self.folder), by="dora")
        self.office.write(self.folder / "snapshot", 2, [self.good, endless])

    def state(self, name: str) -> str | None:
        with Http(self.server) as connection:
            lines = connection.get("/v1/deployments").json["deployments"]
        states = [line["state"] for line in lines if line["name"] == name]
        return states[0] if states else None

    def status(self, name: str) -> int:
        with Http(self.server) as connection:
            return connection.post(infer_path(name), json_request(row("linear", 1))).status


def test_a_revoked_key_is_out_of_service_while_a_model_without_an_end_is_being_loaded(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    revoking = Revoking(start, tmp_path, probe_ms_max=600_000)
    assert revoking.status("fraud") == 200
    revoking.load_endless()
    until("the endless model is being probed", lambda: hosts_of(revoking.server) or None)
    revoking.office.revoke("anna")
    until("what she signed is out of service", lambda: revoking.status("fraud") == 503 or None)
    assert hosts_of(revoking.server), "the load is still under way"
    assert revoking.state("fraud") == "refused"
    # A server that leaves does not wait for it either.
    assert revoking.server.stop().code == 0


def test_what_is_revoked_while_it_is_being_loaded_never_serves(start: Callable[..., Server], tmp_path: Path) -> None:
    revoking = Revoking(start, tmp_path, probe_ms_max=600_000)
    revoking.load_endless()
    (host,) = until("the endless model is being probed", lambda: hosts_of(revoking.server) or None)
    revoking.office.revoke("dora")
    until("the policy is read", lambda: "read again" in "".join(revoking.server.log.all()) or None)
    os.kill(host, signal.SIGKILL)
    until("the load has ended", lambda: revoking.state("endless") == "refused" or None)
    assert revoking.status("fraud") == 200


def test_a_model_host_that_is_killed_costs_its_load_and_nothing_else(
    start: Callable[..., Server], model: Model, tmp_path: Path
) -> None:
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"))])
    config = settings(tmp_path, probe_ms_max=600_000)
    server = start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--watch", "--config", config)
    documents = [
        snapshots.deployment("endless", onnx_models.endless(tmp_path)),
        snapshots.deployment("int64", model("int64")),
        snapshots.deployment("linear", model("linear")),
    ]
    snapshots.write(tmp_path, 2, documents)
    (host,) = until("the endless model is being probed", lambda: hosts_of(server) or None)
    os.kill(host, signal.SIGKILL)
    line = server.log_line(lambda fields: "endless" in str(fields) and "refused" in str(fields).lower())
    assert "the model host ended: killed by signal 9" in str(line)
    with Http(server) as connection:
        connection.infer("linear", row("linear", 1))
        until("the next one serves", lambda: connection.get("/v2/models/int64/ready").status == 200 or None)


def size(elements: int) -> Arrays:
    return {"x": np.array([elements], np.int64)}


def lane_lost(server: Server, asking: Raw) -> bool:
    """Beside other work a run may be stopped before its long operator begins; then the request is sent again."""
    if select.select([asking.socket], [], [], 0)[0] and asking.reply() is not None:
        asking.send(raw_infer("holding", size(HELD)))
    return any("the model runs in a model host from now on" in line for line in server.log.all())


def test_a_model_that_held_its_lane_runs_in_a_process_of_its_own_from_then_on(
    start: Callable[..., Server], model: Model, reference: Callable[[str, Arrays], Arrays], tmp_path: Path
) -> None:
    limits = {"run_ms_max": 300}
    documents = [
        snapshots.deployment("holding", onnx_models.holding(tmp_path), limits=limits),
        snapshots.deployment("looped", model("looped")),
    ]
    index = snapshots.write(tmp_path, 1, documents)
    config = settings(tmp_path)
    server = start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)
    stopped = "the model ran for more than 300 ms on this input and was stopped"
    with Raw(server) as first, Http(server) as connection:
        first.send(raw_infer("holding", size(HELD)))
        until("its lane is lost", lambda: lane_lost(server, first))
        # The only compute lane is lost. What runs there otherwise goes on, and so does the model itself.
        counted = {"x": np.array([5], np.int64)}
        assert_same(connection.infer("looped", counted), reference("looped", counted))
        for _ in range(2):
            until(
                "it answers from its own process",
                lambda: connection.post(infer_path("holding"), json_request(size(3))).status == 200 or None,
            )
            assert connection.infer("holding", size(3))["y"].tolist() == [4]
            again = connection.post(infer_path("holding"), json_request(size(HELD)))
            assert (again.status, again.error) == (500, stopped)
    lost = [line for line in server.log.all() if "the model runs in a model host from now on" in line]
    assert len(lost) == 1, "it took a lane once"
    assert server.stop().code == 0
