"""`ServerConfig`: the configuration of a data plane, validated by `crates/server`.

Each field states its unit, default and limit; `reference.py` renders them, and tests compare the page with this model and
the server. Must not know how the document reaches the server.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from flyball.errors import ConfigRefusedError
from flyball.native.checks import check_config

if TYPE_CHECKING:
    from pathlib import Path


def _setting(default: object, unit: str, limit: str, description: str) -> Any:
    return Field(default, description=description, json_schema_extra={"unit": unit, "limit": limit})


def _path(description: str) -> Any:
    return _setting(None, "path", "a path or `null`", description)


def _switch(description: str) -> Any:
    return _setting(False, "switch", "`true` or `false`", description)


class ServerConfig(BaseModel):
    """The configuration of `flyball serve` and `flyballd`, as JSON. Unknown keys are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    listen: list[str] = _setting(
        ["127.0.0.1:8080"],
        "address",
        "1 to 16 of `host:port`, `tls://host:port` or `unix:/path`",
        "Addresses to listen on, 1 to 16; HTTP/1.1, HTTP/2 and gRPC share each of them.",
    )
    tls_cert: str | None = _path(
        "PEM file of the server's certificate and its intermediate certificates; read again when it changes."
    )
    tls_key: str | None = _path("PEM file of the certificate's private key.")
    tls_client_ca: str | None = _path(
        "PEM file of authorities; every TLS client must then show a certificate of one of them."
    )
    unix_mode: str = _setting("0600", "octal", "three octal digits", "Mode of the sockets of unix: addresses.")
    unix_owner: str | None = _setting(
        None,
        "name",
        "`user` or `user:group` or `null`",
        "Owner of the sockets of unix: addresses, names or numbers; null for the server's own user.",
    )
    callers: str | None = _path(
        "JSON file of callers and their rights (`flyball caller` writes it); read again when it changes."
    )
    hosts: list[str] = _setting(
        [],
        "host",
        "up to 64 of `*` or a host without a port",
        "Hosts that requests may name beside localhost and this machine's addresses. If empty, a loopback "
        "listener serves no others and any other listener serves all; `*` for all. Unix sockets are "
        "exempt.",
    )
    allow_anonymous: bool | None = _setting(
        None,
        "switch",
        "`true` or `false` or `null`",
        "Serve unknown callers; null for loopback and Unix sockets only.",
    )
    lanes: int | None = _setting(
        None,
        "threads",
        "1 to 256 or `null`",
        "Lanes, each one thread; null for one per core that affinity mask and cgroup quota allow.",
    )
    compute_lanes: int | None = _setting(
        None,
        "threads",
        "1 to 256 or `null`",
        "Threads without sockets that run slow models, at most as many as lanes; null for as many.",
    )
    inline_run_us_max: int = _setting(
        1000, "µs", "50 to 100000", "A run that is expected to take longer never runs on a lane with sockets."
    )
    memory_bytes_max: int | None = _setting(
        None,
        "bytes",
        "67108864 to 9007199254740991 or `null`",
        "A load that would exceed this is refused, and so are runs while the process exceeds it; null for "
        "the cgroup's limit, else the machine's memory.",
    )
    run_memory_bytes_max: int | None = _setting(
        None,
        "bytes",
        "1048576 to 9007199254740991 or `null`",
        "A run of a model that needs more memory fails alone with 422; null for half of memory_bytes_max.",
    )
    probe_ms_max: int = _setting(
        30_000,
        "ms",
        "100 to 3600000",
        "CPU time for loading and probing a model in its own process before it serves; a model that needs "
        "more, or four times as much wall-clock time, is refused.",
    )
    probe_memory_bytes_max: int | None = _setting(
        None,
        "bytes",
        "67108864 to 9007199254740991 or `null`",
        "Memory for loading and probing a model in its own process; null for the rest of memory_bytes_max.",
    )
    mlock: bool = _switch(
        "Keep the server's memory from being swapped out. Needs a privilege (`flyball doctor` shows "
        "whether it is granted); without it the server does not start."
    )
    ort_path: str | None = _path(
        "ONNX Runtime's shared library; null to find it (ORT_DYLIB_PATH, or the installed package's)."
    )
    body_bytes_max: int = _setting(
        64 << 20, "bytes", "1024 to 2147483647", "Largest request body; a larger one is refused with 413."
    )
    answer_bytes_max: int = _setting(
        256 << 20,
        "bytes",
        "1048576 to 2147483647",
        "Largest answer, JSON numbers counted at their longest form; a larger one is refused with 422 before it is written.",
    )
    header_bytes_max: int = _setting(
        65_536, "bytes", "8192 to 1048576", "Request heads up to this size are accepted; one of twice the size gets 431."
    )
    connections_max: int = _setting(
        4096,
        "connections",
        "1 to 1000000",
        "Open connections; one more closes the longest idle one, or waits if none is idle.",
    )
    connections_per_address_max: int = _setting(
        1024,
        "connections",
        "1 to 1000000",
        "Open connections from one IP address, except loopback; more are closed at once.",
    )
    streams_max: int = _setting(1024, "requests", "1 to 100000", "Concurrent requests on one HTTP/2 connection.")
    streams_total_max: int = _setting(
        4096,
        "requests",
        "1 to 1000000",
        "Concurrent requests on all HTTP/2 connections, with 4 KiB of headers each on average; more are "
        "refused unread (`REFUSED_STREAM`). Unknown callers get half of them, and 16 per connection.",
    )
    in_flight_max: int = _setting(
        4096, "requests", "1 to 1000000", "Concurrent requests in the server, over all models; more are refused with 503."
    )
    header_timeout_ms: int = _setting(
        10_000,
        "ms",
        "10 to 3600000",
        "Longest time from a head's first byte to its last; also for a TLS handshake and HTTP/2's preface.",
    )
    body_timeout_ms: int = _setting(10_000, "ms", "10 to 3600000", "Longest wait for the complete body; then 408.")
    idle_timeout_ms: int = _setting(120_000, "ms", "10 to 3600000", "An idle connection is closed after this.")
    grace_ms: int = _setting(
        30_000, "ms", "0 to 3600000", "Time for requests in flight during a drain, before their connections are closed."
    )
    trust_root: str | None = _path(
        "PEM file of the root keys that may sign the trust policy; without one the server starts only if "
        '`unsigned` is "allow".'
    )
    trust_policy: str | None = _path(
        "The trust policy that a key of `trust_root` signed (`flyball trust`); read again when it changes."
    )
    state_folder: str | None = _path(
        "Folder for the anti-rollback state: the last accepted serial of the trust policy and generation "
        "of the signed snapshot, so that older ones are refused after a restart; null for "
        "`<trust_policy>.state`."
    )
    environment: str = _setting(
        "production",
        "name",
        "1 to 128 of `A-Z a-z 0-9 . _ -`",
        "The server's environment: releases and snapshots for other environments are refused.",
    )
    unsigned: Literal["refuse", "allow"] = _setting(
        "refuse",
        "word",
        "`refuse`, `allow`",
        "Whether unsigned deployments are refused or allowed; allowed ones cause warnings.",
    )
    previous_kept: int = _setting(
        1, "deployments", "0 to 3", "Replaced deployments of each name that stay loaded, so that a rollback loads nothing."
    )
    watch_snapshot: bool = _switch("Apply the snapshot again whenever its index changes on disk.")
    allow_model_control: bool = _switch("Let clients load and unload models.")
    allow_shared_memory: bool = _switch("Let clients pass tensors in shared memory of this machine.")
    server_name: str = _setting(
        "flyball",
        "name",
        "1 to 128 of `A-Z a-z 0-9 . _ -`",
        "The name in the server's metadata. Some of Triton's clients expect `triton`.",
    )
    triton_statuses: bool = _switch(
        "Answer a tensor request whose body is too large with 400, as Triton does, instead of 413."
    )
    strict_json: bool = _switch("Refuse NaN and Infinity in the JSON of requests and answers, which the standard lacks.")
    strict_readiness: bool = _switch("Report the server as ready only while every model that should serve does.")
    features_folder: str | None = _path(
        "Folder that keeps feature windows across restarts; null for memory only. Not opened with `offline`."
    )
    journal_folder: str | None = _path(
        "Folder of the decision journal; null records nothing. One server writes to it. Not opened with `offline`."
    )
    journal_sync_ms: int = _setting(200, "ms", "10 to 10000", "Maximum fsync delay for buffered records.")
    journal_loss_ms_max: int = _setting(
        2000,
        "ms",
        "100 to 60000",
        "The journal accepts nothing while its oldest unsynced record is older; at least twice `journal_sync_ms`.",
    )
    journal_segment_bytes: int = _setting(
        64 << 20,
        "bytes",
        "1048576 to 4294967296",
        "A segment of the journal is sealed, and the next one begun, at this size.",
    )
    journal_segment_s: int = _setting(
        3600, "s", "1 to 604800", "A segment of the journal is sealed, and the next one begun, at this age."
    )
    journal_checkpoint_s: int = _setting(60, "s", "1 to 3600", "Interval of signed checkpoints, also without new decisions.")
    journal_key: str | None = _path(
        "File of the key that signs checkpoints, 64 hex digits; null for one created in the folder."
    )
    journal_kek: str | None = _setting(
        None,
        "place",
        "`file:PATH`, `env:NAME`, `command:PROGRAM ARGUMENT…` or `null`",
        "Location of the key-encryption key for subjects' keys, 64 hex digits: a file that others cannot "
        "read, a variable, or a program's output within 10 s; null for one created in the folder.",
    )
    offline: bool = _switch("Rows come from files: nothing is looked up or counted, and rows may contain feature values.")
    restricted_apis: list[str] = _setting(
        [],
        "API",
        "up to 16 of `API[,API…]:HEADER=VALUE`",
        "APIs that need a header with a fixed value, as Triton's `--http-restricted-api`: `health`, `metadata`, "
        "`inference`, `shared-memory`, `model-config`, `model-repository`, `statistics`, `trace` or `logging`. "
        "Over gRPC the header's name starts with `triton-grpc-protocol-`.",
    )
    cors_origins: list[str] = _setting(
        [],
        "origin",
        "up to 64 of `*` or `http[s]://host[:port]`",
        "Web pages of these origins may read answers; none by default.",
    )
    compress_bytes_min: int = _setting(
        1024,
        "bytes",
        "0 to 2147483647",
        "Shorter answers are never compressed; longer ones are if the client accepts it.",
    )
    log: Literal["error", "warn", "info", "debug"] = _setting(
        "info", "level", "`error`, `warn`, `info`, `debug`", "Lowest severity written to stderr."
    )
    log_format: Literal["auto", "json", "text"] = _setting(
        "auto",
        "name",
        "`auto`, `json`, `text`",
        "How log lines are written: JSON objects, text for people, or `auto`: text if stderr is a terminal, else JSON.",
    )


def read_server_config(path: Path) -> ServerConfig:
    """Read a JSON file; reports all faults at once."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigRefusedError(f"cannot read the configuration {path}: {error.strerror}") from error
    refuse_faults("server", data, f"the configuration {path}", "see docs/reference/server-config.md for every key")
    return ServerConfig.model_validate_json(data)


def server_config(**settings: object) -> ServerConfig:
    """A configuration made in Python; keys that are not given have their defaults. Reports all faults at once."""
    document = json.dumps(settings, default=str).encode()
    refuse_faults("server", document, "the server's configuration", "see docs/reference/server-config.md for every key")
    return ServerConfig.model_validate_json(document)


def refuse_faults(kind: Literal["server", "callers"], data: bytes, what: str, next_step: str) -> None:
    """Raise with all faults of a document, if any."""
    faults = check_config(kind, data)
    if [fault.path for fault in faults] == [""]:
        raise ConfigRefusedError(f"{what} is not JSON: {faults[0].found}", faults=faults, next_step=next_step)
    if faults:
        count = f"{len(faults)} fault{'s' * (len(faults) != 1)}"
        raise ConfigRefusedError(f"{what} has {count}", faults=faults, next_step=next_step)
