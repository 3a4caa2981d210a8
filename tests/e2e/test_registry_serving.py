"""A version's whole life on a laptop's defaults: from an empty folder to decisions, and back to the version before.

The commands run in this process, as they are typed; servers are real ones.
"""

import contextlib
import io
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bench.claims.callers import Callers
from bench.parts.postgres import PostgresServer
from flyball.cli.app import application
from flyball.control.loop import ControlLoop
from flyball.control.state_folder import StateFolder
from flyball.errors import FlyballError, UnavailableError
from tests.support import decision_folders, external_servers, serving
from tests.support.registry_people import ADA, Desk, Paper
from tests.support.serving import Server
from tests.support.wire import Http

HOME = Path(".flyball/registry")
ROW = {"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE"}
MILD = decision_folders.PLAIN
STERN = decision_folders.PLAIN.replace(
    'pass: "< 0.40", review: "< 0.97", reject: ">= 0.97"', 'pass: "< 0.01", reject: ">= 0.01"'
)
STERN = STERN.replace("then: review", "then: reject").replace("guard_violated: review", "guard_violated: {outcome: reject}")


T = TypeVar("T")


def until(what: str, probe: Callable[[], T | None]) -> T:
    """A control loop polls, a server watches, and other tests run beside: this waits longer than most."""
    return serving.until(what, probe, timeout_s=serving.PATIENCE_S)


def flyball(*command: str) -> str:
    """A command as it is typed; gives what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        application(command[0])(list(command), standalone_mode=False)
    return out.getvalue()


class Laptop:
    """A folder with a registry and everybody's keys, as the guide makes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        flyball("registry", "init")
        for name in ("root", "ada", "bob", "publisher"):
            flyball("key", "new", f"{name}.pem")
        shutil.copyfile("root.pub", HOME / "root.pub")
        self.trust("init")
        for name, role in (("ada", "signer"), ("bob", "approver"), ("publisher", "publisher")):
            self.trust("add", f"{name}.pub", "--name", name, "--role", role)

    def trust(self, *command: str) -> None:
        flyball("trust", *command)

    def ready(self, spec: str = MILD, *, alarmed: bool = False) -> str:
        """A version of the decision `plain` that is signed and approved; an alarmed model scores everything high."""
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        path = decision_folders.plain(source, spec)
        if alarmed:
            alarm(source / "plain.onnx")
        told = flyball("register", "plain", "--decision", str(path), "--by", "ada", "--json")
        ref = f"plain@{json.loads(told)['number']}"
        flyball("sign", ref, "--key", "ada.pem", "--by", "ada")
        flyball("approve", ref, "--key", "bob.pem")
        return ref

    def promote(self, ref: str) -> None:
        for environment in ("dev", "staging", "production"):
            flyball("promote", ref, "--environment", environment, "--by", "ada", "--reason", "it is better")

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(flyball("status", "--json"))
        return told

    def node(self) -> dict[str, Any] | None:
        return next(iter(self.status()["nodes"]), None)


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laptop:
    monkeypatch.chdir(tmp_path)
    return Laptop(tmp_path)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[], Server]]:
    running: list[Server] = []

    def start() -> Server:
        command = [*serving.flyball(), "serve", "--registry", str(HOME), "--publisher-key", "publisher.pem"]
        running.append(Server([*command, "--listen", "127.0.0.1:0"], cwd=tmp_path))
        return running[-1]

    yield start
    for server in running:
        server.kill()


def alarm(path: Path) -> None:
    model = onnx.load(path)
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "b")
    bias.CopyFrom(numpy_helper.from_array(np.float32([-99, 99]), "b"))
    path.write_bytes(model.SerializeToString())


def outcome(server: Server) -> str | None:
    """What is decided now; none where nothing is."""
    with Http(server) as connection:
        reply = connection.post("/v1/decisions/plain", {"input": ROW})
    return str(reply.json["outcome"]) if reply.status == 200 else None


def question(_number: int) -> tuple[str, bytes]:
    return "/v1/decisions/plain", json.dumps({"input": ROW}).encode()


def outcomes(traffic: Callers, since: float = 0.0) -> set[str | None]:
    """What was decided from then on; none stands for what failed."""
    return {one.content["outcome"] if one.status == 200 else None for one in traffic.all(since)}


@pytest.mark.timeout(120)
def test_a_decision_lives_from_init_to_rollback_and_serves_on_without_its_registry(
    laptop: Laptop, serve: Callable[[], Server], tmp_path: Path
) -> None:
    first = laptop.ready()
    laptop.promote(first)
    server = serve()
    assert outcome(server) == "pass"
    node = until("the server reports", laptop.node)
    assert (node["deployment"], node["environment"], node["state"]) == ("plain", "production", "applied")

    second = laptop.ready(STERN)
    laptop.promote(second)
    until("the second version decides", lambda: outcome(server) == "reject" or None)
    with Callers(server.url, [question] * 4) as traffic:
        until("there is traffic", lambda: outcomes(traffic) or None)
        flyball("rollback", "plain", "--environment", "production", "--by", "ada", "--reason", "it rejects everybody")
        until("the first version decides again", lambda: "pass" in outcomes(traffic) or None)
        until("and the second no more", lambda: _settled(traffic) or None)
    assert outcomes(traffic) == {"reject", "pass"}

    assert server.stop().code == 0
    HOME.rename(tmp_path / "away")
    server = serve()
    assert outcome(server) == "pass"
    server.log_line(lambda fields: "last good" in fields.get("message", ""))
    (tmp_path / "away").rename(HOME)
    server.log_line(lambda fields: "reachable again" in fields.get("message", ""))

    flyball("revoke", second, "--by", "ada", "--reason", "bands were never validated", "--stop")
    with pytest.raises(FlyballError, match="bands were never validated") as error:
        flyball("promote", second, "--environment", "production", "--by", "ada")
    assert error.value.exit_code == 4
    history = flyball("registry", "history", "plain", "--json").splitlines()
    assert [json.loads(line)["kind"] for line in history][-2:] == ["revoked", "refused"]


def _settled(traffic: Callers) -> bool:
    now = time.monotonic()
    until("answers come", lambda: outcomes(traffic, now) or None)
    return outcomes(traffic, now) == {"pass"}


@pytest.mark.timeout(120)
def test_a_package_that_the_trust_policy_revokes_is_refused_with_the_reason_and_shown_by_status(
    laptop: Laptop, serve: Callable[[], Server]
) -> None:
    first, second = laptop.ready(), laptop.ready(STERN)
    laptop.promote(first)
    server = serve()
    shown = json.loads(flyball("registry", "show", second, "--json"))
    laptop.promote(second)
    until("the second version decides", lambda: outcome(server) == "reject" or None)
    laptop.trust("revoke", shown["root"], "--reason", "leaked labels")
    node = until("the server says no", lambda: _refused(laptop))
    assert "package_revoked" in node["reason"]
    assert "leaked labels" in node["reason"]
    until("the version before it decides", lambda: outcome(server) == "pass" or None)


@pytest.mark.timeout(120)
def test_a_candidate_gets_its_share_and_a_rollback_takes_it_away(laptop: Laptop, serve: Callable[[], Server]) -> None:
    laptop.promote(laptop.ready())
    second = laptop.ready(alarmed=True)
    for environment in ("dev", "staging"):
        flyball("promote", second, "--environment", environment, "--by", "ada")
    server = serve()
    assert outcome(server) == "pass"
    flyball("promote", second, "--environment", "production", "--shadow", "--by", "ada")
    node = until("the server reports", lambda: _at(laptop, 1))
    assert node["state"] == "applied"
    assert outcome(server) == "pass"
    flyball("promote", second, "--environment", "production", "--share", "1.0", "--by", "ada")
    until("the candidate decides", lambda: outcome(server) == "reject" or None)
    flyball("rollback", "plain", "--environment", "production", "--by", "ada", "--reason", "it rejects everybody")
    until("the champion decides alone", lambda: outcome(server) == "pass" or None)
    placed = next(one for one in laptop.status()["placements"] if one["environment"] == "production")
    assert (placed["version"], placed["candidate"]) == (1, None)


def _at(laptop: Laptop, version: int) -> dict[str, Any] | None:
    """What the server says of what is placed now, once it has seen it."""
    status = laptop.status()
    placed = next(one for one in status["placements"] if one["environment"] == "production")
    last = [json.loads(line) for line in flyball("registry", "history", "plain", "--json").splitlines()][-1]["sequence"]
    assert placed["version"] == version
    return next((node for node in status["nodes"] if node["generation"] >= last), None)


def _refused(laptop: Laptop) -> dict[str, Any] | None:
    node = laptop.node()
    return node if node and node["state"] == "refused" else None


def _answered(laptop: Laptop, out: Path) -> dict[str, Any] | None:
    """The server's report on the snapshot in the folder; None while the control loop waits for its answer."""
    node = laptop.node()
    if node is None or node["state"] == "waiting":
        return None
    return node if node["generation"] == json.loads((out / "index.json").read_bytes())["generation"] else None


@pytest.mark.timeout(120)
def test_flyballd_follows_the_folder_that_flyball_control_keeps(laptop: Laptop, tmp_path: Path) -> None:
    laptop.promote(laptop.ready())
    out, address = tmp_path / "out", f"127.0.0.1:{serving.free_port()}"
    named = ["--registry", str(HOME), "--publisher-key", "publisher.pem", "--out", str(out), "--node", f"http://{address}"]
    control = serving.subprocess.Popen(
        [*serving.flyball(), "control", *named],
        env=serving.environment(),
        stdin=serving.subprocess.DEVNULL,
    )
    try:
        until("a snapshot is there", lambda: (out / "index.json").is_file() or None)
        trust = ["--trust-root", str(out / "root.pub"), "--trust-policy", str(out / "trust.json")]
        command = [*serving.flyballd(), "--snapshot", str(out / "index.json"), "--watch", *trust]
        with serving.serving([*command, "--listen", address]) as server:
            assert outcome(server) == "pass"
            laptop.promote(laptop.ready(STERN))
            until("the second version decides", lambda: outcome(server) == "reject" or None)
            node = until("the server reports", lambda: _answered(laptop, out))
            assert (node["node"], node["state"]) == (f"http://{address}", "applied")
    finally:
        control.terminate()
        assert control.wait(serving.STOP_S) == 0


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """One that may be killed: other tests share theirs."""
    with external_servers.postgres() as server:
        yield server


def test_a_registry_in_postgresql_is_followed_and_a_killed_database_stops_nobody(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    desk = Desk(tmp_path, own_postgres.new_database())
    desk.promote(desk.ready())
    plane = Paper()
    loop = ControlLoop(desk.home.folder, "production", desk.keys["publisher"], StateFolder(tmp_path / "state"), actor="node")
    try:
        plane.apply(loop.first())
        loop.tick(plane)
        assert desk.registry.status().nodes[0].state == "applied"
        assert [one.name for one in desk.registry.names()] == ["fraud"]
        own_postgres.kill()
        with pytest.raises(UnavailableError):
            loop.tick(plane)
        with pytest.raises(UnavailableError):
            desk.registry.rollback("fraud", "production", actor=ADA)
        own_postgres.run()
        desk.promote(desk.ready())

        def applied() -> bool:
            loop.tick(plane)
            return len(plane.applied) == 2

        until("the promotion is applied", applied)
        first, second = (bundle.parsed_index().generation for bundle in plane.applied)
        assert first < second
        assert desk.registry.verify().findings == []
    finally:
        loop.stop()
        desk.registry.close()
