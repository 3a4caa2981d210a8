"""`flyball serve`: runs the data plane in this process until a signal ends it.

Signals are blocked before the data plane's threads start, so that they inherit the mask and only the main thread
receives them (`signals.py`). Must never import `onnxruntime`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.compaction import CompactEvery, Keep, schedule_of
from flyball.cli.flag_faults import FlagFault, refused
from flyball.cli.follow import AdminListen, PublisherKey, RegistryHome, follower_of
from flyball.cli.listen_options import (
    SERVER_OPTIONS,
    address_instead,
    allowed_for_flags,
    flag_of,
    refuse_files_as_folders,
)
from flyball.cli.model_sources import source_of
from flyball.cli.option import argument, option, with_options
from flyball.cli.repository import ControlMode, LoadModel, ModelConfigName, ModelRepository, PollSeconds, control_of
from flyball.cli.signals import Signals
from flyball.cli.terms import TERMS_OPTIONS, terms_of
from flyball.documents.log import log, write_as
from flyball.errors import (
    ConfigRefusedError,
    FlyballError,
    ModelRefusedError,
    ServerFaultError,
    SnapshotRefusedError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.cli.model_sources import Source
    from flyball.decision_log.retention.background import Schedule
    from flyball.documents.config.server import ServerConfig
    from flyball.documents.snapshot import Bundle
    from flyball.native.server import Server

_POLL_S = 1.0
_DRAIN_POLL_S = 0.05
_REFUSED_STOP_S = 5.0
_INTERRUPTED = 130  # the exit code of shells after Ctrl-C


@with_options(SERVER_OPTIONS | TERMS_OPTIONS)
def serve(
    models: Annotated[list[str] | None, argument("ONNX files, each PATH or NAME=PATH.", metavar="MODEL...")] = None,
    snapshot: Annotated[Path | None, option("Serve a snapshot instead: its index file. SIGHUP reloads it.")] = None,
    model_repository: ModelRepository = None,
    model_control_mode: ControlMode = None,
    load_model: LoadModel = None,
    repository_poll_secs: PollSeconds = None,
    model_config_name: ModelConfigName = None,
    decision: Annotated[
        list[Path] | None, option("A decision in YAML; may be repeated. SIGHUP reloads it.", metavar="FILE")
    ] = None,
    reload: Annotated[
        bool, option("While developing: serve models and decisions anew whenever their files are edited.", "--reload")
    ] = False,
    lanes: Annotated[int | None, option("Lanes; by default one per usable core.")] = None,
    config: Annotated[Path | None, option("Server configuration file, in JSON.")] = None,
    registry: RegistryHome = None,
    publisher_key: PublisherKey = None,
    admin_listen: AdminListen = None,
    compact_every: CompactEvery = None,
    keep: Keep = None,
    **flags: Any,
) -> None:
    """Serve ONNX models and decisions over HTTP and gRPC on one port, without configuration.

    flyball serve fraud.onnx

    flyball serve --decision card-fraud.yaml --journal-folder journal

    flyball serve --registry .flyball/registry --environment production --publisher-key control.pem
    """
    given = {key: str(value) if isinstance(value := flags.get(key), Path) else value for key in SERVER_OPTIONS}
    # Files named on the command line are meant to be served, signed or not.
    given |= {"lanes": lanes, "unsigned": given["unsigned"] or (None if snapshot or registry else "allow")}
    control = control_of(model_repository, model_control_mode, load_model, repository_poll_secs, model_config_name)
    if control is not None and control.load is not None:
        given["allow_model_control"] = True
    elif control is not None and control.poll_s is not None and given["allow_model_control"]:
        raise UsageError("--allow-model-control and --model-control-mode poll exclude each other: a poll would undo loads")
    state = None if flags.get("state_folder") is None else Path(flags["state_folder"])
    if registry is not None:
        given["state_folder"] = None  # the follower's own; the server's is in it, beside its trust policy
    where = (registry, given["environment"], publisher_key, state, flags.get("trust_root"))
    follower = follower_of(*where, admin_listen=admin_listen)
    settings = _settings(config, given | (follower.settings if follower else {}))
    write_as(settings.log_format)
    terms = terms_of("serve", flags)
    schedule = schedule_of(settings.journal_folder, compact_every, keep)
    source = source_of(models, snapshot, model_repository, terms, decision, follower, control, reload=reload)
    bundle = source.read()
    signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    from flyball.native.server import Server

    server = Server(settings, bundle.to_bytes(), source.on_load if settings.allow_model_control else None)
    _stop_if_interrupted(server, signals)
    if follower is None:
        _refuse_if_not_served(server, _inspections(models, decision, bundle), must_all_serve=bool(models or decision))
    else:
        follower.begin(server)
    sys.stdout.write(server.ready_line() + "\n")
    sys.stdout.flush()
    _until_signalled(server, source, schedule, signals)


def become_serve(*arguments: str) -> None:
    """Replace this process by `flyball serve`, for its signals and exit code."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "flyball", "serve", *arguments])  # noqa: S606 - no shell


def _stop_if_interrupted(server: Server, signals: Signals) -> None:
    """Handle Ctrl-C while models were loading."""
    if signals.pending(signal.SIGINT):
        server.drain()
        server.wait(_REFUSED_STOP_S)
        raise typer.Exit(_INTERRUPTED)


def _settings(path: Path | None, flags: dict[str, Any]) -> ServerConfig:
    from flyball.documents.config.server import ServerConfig, read_server_config
    from flyball.native.checks import check_config

    written = (read_server_config(path) if path else ServerConfig()).model_dump()
    written.update({key: value for key, value in flags.items() if value not in (None, [])})
    # The file was checked before, so every fault here is a flag's. An omitted flag is null in the file.
    faults = check_config("server", json.dumps(written).encode())
    if faults:
        found = [FlagFault(flag_of(fault.path), fault.found, allowed_for_flags(fault.allowed)) for fault in faults]
        raise refused(found, address_instead(faults[0]) or "see the usage:  flyball serve --help")
    if flags.get("callers"):
        _refuse_callers(Path(flags["callers"]))
    refuse_files_as_folders({key: value for key, value in flags.items() if value is not None})
    return ServerConfig.model_validate(written)


def _refuse_callers(file: Path) -> None:
    """Raise for a callers' file that is missing or not valid, before the server starts."""
    from flyball.documents.config.callers import read_callers

    if not file.exists():
        step = f"make it:  flyball caller add NAME --may infer --callers {shlex.quote(str(file))}"
        raise ConfigRefusedError(f"cannot read the callers' file {file}: no such file", next_step=step)
    read_callers(file)


def _inspections(models: list[str] | None, decisions: list[Path] | None, bundle: Bundle) -> dict[str, tuple[str, str]]:
    """Each deployment's verb and file to inspect it: the file as typed, else the snapshot's."""
    from flyball.documents.snapshot import ModelSource, parse

    files = {}
    for document in bundle.documents:
        with contextlib.suppress(SnapshotRefusedError):  # its deployment is refused for the same reason
            deployment = parse("deployment", document)
            for item in deployment.versions:
                if item.version == deployment.route.version:
                    files[deployment.name] = ("inspect", str(bundle.base / item.artifact.path))
    typed = map(ModelSource.from_argument, models or [])
    files |= {source.name: ("inspect", str(source.path)) for source in typed}
    if decisions:
        from flyball.decision.decision import Decision

        files |= {Decision.load(path).name: ("check", str(path)) for path in decisions}
    return files


def _refuse_if_not_served(server: Server, inspections: dict[str, tuple[str, str]], *, must_all_serve: bool) -> None:
    """Raise if a deployment named on the command line was refused, or all were. The server logs each."""
    acks = server.acks()
    refused = [ack for ack in acks if ack.state == "refused"]
    if refused and (must_all_serve or len(refused) == len(acks)):
        server.drain()
        server.wait(_REFUSED_STOP_S)
        reasons = "; ".join(f"{inspections.get(ack.name, ('', ack.name))[1]}: {ack.reason}" for ack in refused)
        verb, file = inspections.get(refused[0].name, ("", ""))
        look = f"see the details:  flyball {verb} {shlex.quote(file)}" if verb else None
        journal = "journal_folder" in str(refused[0].reason)  # the server names the missing setting
        raise ModelRefusedError(reasons, next_step="give it a journal:  --journal-folder DIR" if journal else look)


def _until_signalled(server: Server, source: Source, schedule: Schedule | None, signals: Signals) -> None:
    """Handle signals: SIGHUP reloads the snapshot or the repository, SIGTERM and SIGINT drain."""
    looked = time.monotonic()
    while True:
        received = signals.next(min(_POLL_S, source.poll_s or _POLL_S))
        if schedule is not None:
            schedule.tick()
        if source.changed is not None and time.monotonic() - looked >= source.poll_s:
            _reload(server, source.changed)
            looked = time.monotonic()
        if received is None:
            if server.wait(0):
                raise ServerFaultError("the server stopped unexpectedly; see its log on stderr", code="server_stopped")
        elif received == signal.SIGHUP:
            if source.can_change:
                _reload(server, source.read)
            elif source.follower is not None:
                source.follower.wake()
        else:
            if source.follower is not None:
                source.follower.end()
            _drain(server, signals)
            if schedule is not None:
                schedule.stop()
            return


def _reload(server: Server, read: Callable[[], Bundle | None]) -> None:
    """Apply what is read, if anything; what cannot be read or is refused is logged and changes nothing."""
    try:
        bundle = read()
        if bundle is not None:
            server.apply(bundle.to_bytes())
    except (FlyballError, OSError) as error:
        log("ERROR", "snapshot refused", reason=str(error))


def _drain(server: Server, signals: Signals) -> None:
    """Let requests in flight finish. The server's grace period bounds this; a second signal ends it immediately."""
    server.drain()
    while not server.wait(_DRAIN_POLL_S):
        if signals.next(0, among=(signal.SIGTERM, signal.SIGINT)) is not None:
            sys.stderr.flush()
            os._exit(1)  # no destructor may wait for the abandoned drain
