"""Attempts with models that never end or trap: they blocked loads, revocations and lanes, or ended the server."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from bench.claims.hardening.attempts import Seen, attempt
from bench.claims.hardening.watched_server import (
    Watched,
    dividing,
    document,
    doubling,
    endless,
    holding,
    publish,
    run,
    until,
)

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

# The longest that the default limits let a model be probed on a busy machine, and some more.
REFUSED_S = 150.0
# A product of matrices of this size takes some ten seconds, in one operator, and more on a busy machine.
HELD, HELD_S = 3000, 90.0


def _settings(folder: Path, **settings: Any) -> list[str]:
    path = folder / "settings.json"
    path.write_text(json.dumps(settings))
    return ["--config", str(path)]


@attempt("a model that loops for ever keeps every later model from being loaded")
def looping_model_wedges_later_loads(build: Build, folder: Path) -> Seen:
    """Apply a snapshot with an endless model, then one with another good model."""
    good, index = document("doubling", doubling(folder)), folder / "snapshot"
    publish(index, 1, [good])
    command = [build.flyballd, "--snapshot", str(index / "index.json"), "--unsigned", "allow", "--watch"]
    with Watched([*command, "--listen", "127.0.0.1:0"], build, folder) as server:
        publish(index, 2, [good, document("endless", endless(folder))])
        until(lambda: "endless" in server.states(), 3.0)
        publish(index, 3, [good, document("later", doubling(folder))])
        if until(lambda: server.ready("later"), REFUSED_S):
            return Seen("the endless model is refused, and the next snapshot is applied", holds=True)
        return Seen(f"the next snapshot is not applied within {REFUSED_S:.0f} s", holds=False)


@attempt("one row ends the server: the smallest integer, which a model divides by -1")
def a_division_traps(build: Build, folder: Path) -> Seen:
    """Ask a model of one Div for the one quotient that the processor has not."""
    index = publish(folder / "snapshot", 1, [document("dividing", dividing(folder)), document("doubling", doubling(folder))])
    command = [build.flyballd, "--snapshot", str(index), "--unsigned", "allow", "--listen", "127.0.0.1:0"]
    with Watched(command, build, folder) as server:
        status = server.ask("dividing", "INT64", [1], -(2**63))
        alive = server.process.poll() is None and server.ask("doubling", "FP32", [1, 1], 1.0) == 200
        ended = server.process.poll()
    if alive:
        return Seen(f"its caller gets {status}, and the server answers on", holds=status == 500)
    return Seen(f"the server ended with {ended}", holds=False)


@attempt("what a revoked key signed goes on serving while a model that loops for ever is being loaded")
def revoked_key_goes_on_serving(build: Build, folder: Path) -> Seen:
    """Serve a signed model beside an unsigned endless one, and revoke the signer's key."""
    home = _registry(build, folder)
    _registered(build, folder, "doubling", doubling(folder))
    placed = run(build, folder, "promote", "doubling@1", "--environment", "production", "--reason", "first")
    if placed.returncode:
        raise RuntimeError(f"it is not promoted: {placed.stderr[-200:]}")
    snapshot = _compiled(build, folder, home)
    trust = ["--trust-root", str(home / "root.pub"), "--trust-policy", str(home / "trust.json"), "--unsigned", "allow"]
    command = [build.flyballd, "--snapshot", str(snapshot / "index.json"), *trust, "--watch", "--listen", "127.0.0.1:0"]
    with Watched(command, build, folder) as server:
        signed = [json.loads(path.read_bytes()) for path in (snapshot / "deployments").glob("*.json")]
        publish(snapshot, 1000, [*signed, document("endless", endless(folder))])
        # Loads begin within a tenth of a second; the one of the endless model takes half a minute at least.
        until(lambda: False, 2.0)
        revoked = run(build, folder, "trust", "revoke", "ada", "--reason", "stolen")
        if revoked.returncode:
            raise RuntimeError(f"the key is not revoked: {revoked.stderr[-200:]}")
        gone = until(lambda: server.ask("doubling", "FP32", [1, 1], 1.0) == 503, 5.0)
        state = server.states().get("doubling")
    if gone:
        return Seen(f"it is out of service within seconds, and /v1/deployments says {state}", holds=True)
    return Seen(f"it answers on after 5 s, and /v1/deployments says {state}", holds=False)


@attempt("a model that loops for ever is registered, signed, approved and promoted")
def endless_loop_passes_promote(build: Build, folder: Path) -> Seen:
    """Take an endless model through every gate."""
    _registry(build, folder)
    _registered(build, folder, "endless", endless(folder))
    placed = run(build, folder, "promote", "endless@1", "--environment", "production", "--reason", "why not")
    words = " ".join((placed.stdout + placed.stderr).split())
    if placed.returncode == 0:
        return Seen("it is promoted", holds=False)
    _, found, reason = words.partition("the probe did not end")
    return Seen(f"it is not promoted: {(found + reason or words)[:120]}", holds=bool(found))


@attempt("a model with an operator that cannot be interrupted takes its lane every time it is asked")
def uninterruptible_operator_takes_its_lane_again(build: Build, folder: Path) -> Seen:
    """Hold the only compute lane of a server, then ask the model for something short."""
    index, limits = folder / "snapshot", {"run_ms_max": 500, "queue_wait_ms_max": 10_000}
    publish(index, 1, [document("holding", holding(folder), limits=limits)])
    command = [build.flyballd, "--snapshot", str(index / "index.json"), "--unsigned", "allow", "--listen", "127.0.0.1:0"]
    with Watched([*command, *_settings(folder, lanes=1)], build, folder) as server:

        def lost() -> int:
            return server.log().count("does not stop")

        def answers() -> bool:
            return server.ask("holding", "INT64", [1], 3) == 200

        asked = 0
        for _ in range(3):
            if not until(answers, HELD_S):
                return Seen(f"it held its lane {lost()} times, and answers nothing for {HELD_S:.0f} s", holds=False)
            server.ask("holding", "INT64", [1], HELD)
            asked += 1
            until(lambda: lost() >= asked, 5.0)  # noqa: B023
        seen = f"asked {asked} times for a long product, it took a lane {lost()} times"
        return Seen(seen, holds=lost() == 1 and bool(until(answers, HELD_S)))


def _registry(build: Build, folder: Path) -> Path:
    """A registry of one environment whose people have their keys."""
    home = folder / ".flyball/registry"
    for command in (
        ["registry", "init", "--environment", "production"],
        ["key", "new", "root.pem"],
        ["key", "new", "ada.pem"],
        ["key", "new", "grace.pem"],
        ["key", "new", "control.pem"],
    ):
        _done(build, folder, *command)
    (home / "root.pub").write_bytes((folder / "root.pub").read_bytes())
    _done(build, folder, "trust", "init")
    for name, role in (("ada", "signer"), ("grace", "approver"), ("control", "publisher")):
        _done(build, folder, "trust", "add", f"{name}.pub", "--name", name, "--role", role)
    return home


def _registered(build: Build, folder: Path, name: str, model: Path) -> None:
    _done(build, folder, "register", name, str(model), "--by", "ada")
    _done(build, folder, "sign", f"{name}@1", "--key", "ada.pem", "--by", "ada")
    _done(build, folder, "approve", f"{name}@1", "--key", "grace.pem", "--by", "grace")


def _compiled(build: Build, folder: Path, home: Path) -> Path:
    """The snapshot that `flyball control` makes of the registry."""
    out = folder / "placed"
    key = str(folder / "control.pem")
    command = [build.flyball, "control", "--registry", str(home), "--out", str(out), "--publisher-key", key]
    with (folder / "control.log").open("wb") as log:
        control = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        if not until(lambda: (out / "index.json").is_file() and list((out / "deployments").glob("*.json")), 60.0):
            raise RuntimeError(f"no snapshot was made: {(folder / 'control.log').read_text()[-200:]}")
    finally:
        control.terminate()
        try:
            control.wait(20.0)
        except subprocess.TimeoutExpired:
            control.kill()
            control.wait()
    return out


def _done(build: Build, folder: Path, *arguments: str) -> None:
    ended = run(build, folder, *arguments)
    if ended.returncode:
        raise RuntimeError(f"flyball {' '.join(arguments[:2])}: {ended.stderr.strip()[-200:]}")
