"""`ServerConfig`: the one document that starts a data plane. What it may say is checked by `crates/server`.

Each field carries its unit, default and limit in words; `reference.py` renders them, and tests hold the page to this model
and to the server. Must not know how the document reaches the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from flyball.errors import ConfigRefusedError
from flyball.native.checks import check_config

if TYPE_CHECKING:
    from pathlib import Path


def _setting(default: object, unit: str, limit: str, description: str) -> Any:
    return Field(default, description=description, json_schema_extra={"unit": unit, "limit": limit})


class ServerConfig(BaseModel):
    """The configuration of `flyball serve` and `flyballd`, as JSON. Unknown keys are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    listen: list[str] = _setting(
        ["127.0.0.1:8080"],
        "address",
        "1 to 16 of `host:port`, `tls://host:port` or `unix:/path`",
        "Addresses to listen on, 1 to 16; HTTP/1.1, HTTP/2 and gRPC share each of them.",
    )
    tls_cert: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "PEM file of the server's certificate and those between it and its authority; read when it changes.",
    )
    tls_key: str | None = _setting(None, "path", "a path or `null`", "PEM file of the certificate's private key.")
    tls_client_ca: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "PEM file of authorities; whoever connects by TLS must then show a certificate of theirs.",
    )
    unix_mode: str = _setting("0600", "octal", "three octal digits", "Mode of the sockets that unix: addresses make.")
    unix_owner: str | None = _setting(
        None,
        "name",
        "`user` or `user:group` or `null`",
        "Owner of the sockets that unix: addresses make, names or numbers; null leaves it as it comes.",
    )
    callers: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "JSON file of callers and their rights (`flyball caller` writes it); read when it changes.",
    )
    hosts: list[str] = _setting(
        [],
        "host",
        "up to 64 of `*` or a host without a port",
        "Hosts that requests may name beside localhost and this machine's addresses. With none, a loopback listener "
        "serves no others and an outer one serves any; `*` for any. Requests by Unix socket need none.",
    )
    allow_anonymous: bool | None = _setting(
        None,
        "switch",
        "`true` or `false` or `null`",
        "Serve callers that are not known; null for on loopback and Unix sockets only.",
    )
    lanes: int | None = _setting(
        None,
        "threads",
        "1 to 256 or `null`",
        "Lanes, each one thread; null for one on each core that affinity mask and cgroup quota allow.",
    )
    compute_lanes: int | None = _setting(
        None,
        "threads",
        "1 to 256 or `null`",
        "Threads without sockets that run slow models, no more than lanes; null for as many.",
    )
    inline_run_us_max: int = _setting(
        1000, "µs", "50 to 100000", "A run that is expected to take longer never runs on a lane that has sockets."
    )
    memory_bytes_max: int | None = _setting(
        None,
        "bytes",
        "67108864 to 9007199254740991 or `null`",
        "A load that would take the process beyond this is refused, and so are runs while it is exceeded; null for "
        "the cgroup's limit, else the machine's memory.",
    )
    run_memory_bytes_max: int | None = _setting(
        None,
        "bytes",
        "1048576 to 9007199254740991 or `null`",
        "A run of a model that would take more memory fails, alone, with 422; null for half of memory_bytes_max.",
    )
    probe_ms_max: int = _setting(
        30_000,
        "ms",
        "100 to 3600000",
        "CPU time for loading and probing a model in its own process before it serves; a model that takes longer, or "
        "four times as long on the clock, is refused.",
    )
    probe_memory_bytes_max: int | None = _setting(
        None,
        "bytes",
        "67108864 to 9007199254740991 or `null`",
        "Memory for loading and probing a model in its own process; null: what memory_bytes_max leaves.",
    )
    mlock: bool = _setting(
        False,
        "switch",
        "`true` or `false`",
        "Keep the server's memory from being swapped out. Needs a right (`flyball doctor` tells whether it is "
        "granted); without it the server does not start.",
    )
    ort_path: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "ONNX Runtime's shared library; null to find it (ORT_DYLIB_PATH, or the installed package's).",
    )
    body_bytes_max: int = _setting(
        64 << 20, "bytes", "1024 to 2147483647", "Largest request body; a larger one is refused with 413."
    )
    answer_bytes_max: int = _setting(
        256 << 20,
        "bytes",
        "1048576 to 2147483647",
        "Largest answer, numbers in JSON counted at their longest; a larger one is refused with 422 before it is written.",
    )
    header_bytes_max: int = _setting(
        65_536, "bytes", "8192 to 1048576", "A request head up to this is taken; one of twice the size gets 431."
    )
    connections_max: int = _setting(
        4096,
        "connections",
        "1 to 1000000",
        "Open connections; one more closes the one that has been idle for longest, or waits where none is.",
    )
    connections_per_address_max: int = _setting(
        1024,
        "connections",
        "1 to 1000000",
        "Open connections from one IP address, loopback apart; more are closed at once.",
    )
    streams_max: int = _setting(1024, "requests", "1 to 100000", "Requests at once on one HTTP/2 connection.")
    streams_total_max: int = _setting(
        4096,
        "requests",
        "1 to 1000000",
        "Requests at once on all HTTP/2 connections, of 4 KiB of headers each on average; more are refused unread "
        "(`REFUSED_STREAM`). Unknown callers get half of them, and 16 of a connection.",
    )
    in_flight_max: int = _setting(
        4096, "requests", "1 to 1000000", "Requests in the server at once, over all models; more are refused with 503."
    )
    header_timeout_ms: int = _setting(
        10_000,
        "ms",
        "10 to 3600000",
        "Longest time from a head's first byte to its last; also for a TLS handshake and HTTP/2's preface.",
    )
    body_timeout_ms: int = _setting(10_000, "ms", "10 to 3600000", "Longest wait for a whole body; then 408.")
    idle_timeout_ms: int = _setting(120_000, "ms", "10 to 3600000", "An idle connection is closed after this.")
    grace_ms: int = _setting(
        30_000, "ms", "0 to 3600000", "Time that a drain gives to requests in flight before it closes their connections."
    )
    trust_root: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "PEM file of the public keys whose owners may say whom to trust; without one the server starts only where "
        '`unsigned` is "allow".',
    )
    trust_policy: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "The trust policy that a key of `trust_root` signed (`flyball trust`); read when it changes.",
    )
    state_folder: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "Folder that the serial of the trust policy and the generation of the signed snapshot that were taken last "
        "are kept in, so that nothing older is taken after a restart; null for `<trust_policy>.state`.",
    )
    environment: str = _setting(
        "production",
        "name",
        "1 to 128 of `A-Z a-z 0-9 . _ -`",
        "What this server is for: releases and snapshots for other environments are refused.",
    )
    unsigned: Literal["refuse", "allow"] = _setting(
        "refuse",
        "word",
        "`refuse`, `allow`",
        "What becomes of deployments that nobody signed; those that are allowed are told loudly.",
    )
    previous_kept: int = _setting(
        1, "deployments", "0 to 3", "Of each name, kept loaded after they were replaced, so that going back loads nothing."
    )
    watch_snapshot: bool = _setting(
        False, "switch", "`true` or `false`", "Apply the snapshot again whenever its index changes on disk."
    )
    allow_model_control: bool = _setting(False, "switch", "`true` or `false`", "Let clients load and unload models.")
    allow_shared_memory: bool = _setting(
        False,
        "switch",
        "`true` or `false`",
        "Let clients have tensors read from and written to shared memory of this machine.",
    )
    features_folder: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "Folder that the windows of features are kept in over restarts; null for memory alone. Not opened with `offline`.",
    )
    journal_folder: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "Folder that decisions are recorded in; null records none. One server writes to it. Not opened with `offline`.",
    )
    journal_sync_ms: int = _setting(
        200, "ms", "10 to 10000", "A record that nobody waits for is on the disk after this at the latest."
    )
    journal_loss_ms_max: int = _setting(
        2000,
        "ms",
        "100 to 60000",
        "Nothing more is recorded while the oldest that is not on the disk is older; twice `journal_sync_ms` or more.",
    )
    journal_segment_bytes: int = _setting(
        64 << 20, "bytes", "1048576 to 4294967296", "A file of the journal is sealed, and the next begun, at this size."
    )
    journal_segment_s: int = _setting(
        3600, "s", "1 to 604800", "A file of the journal is sealed, and the next begun, at this age."
    )
    journal_checkpoint_s: int = _setting(
        60, "s", "1 to 3600", "A signed checkpoint is written this often, also when nothing was decided."
    )
    journal_key: str | None = _setting(
        None,
        "path",
        "a path or `null`",
        "File of the key that signs checkpoints, 64 hex digits; null for the folder's own, which is made.",
    )
    journal_kek: str | None = _setting(
        None,
        "place",
        "`file:PATH`, `env:NAME`, `command:PROGRAM ARGUMENT…` or `null`",
        "Where the key is that subjects' keys are encrypted under, 64 hex digits: a file that others cannot read, a "
        "variable, or what a program prints within 10 s; null for the folder's own, which is made.",
    )
    offline: bool = _setting(
        False,
        "switch",
        "`true` or `false`",
        "Rows come from files: nothing is looked up or counted, and rows may bring the values of features.",
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
        "Shorter answers are never compressed; longer ones are where the client takes it.",
    )
    log: Literal["error", "warn", "info", "debug"] = _setting(
        "info", "level", "`error`, `warn`, `info`, `debug`", "Least severity that is written to stderr, as JSON lines."
    )


def read_server_config(path: Path) -> ServerConfig:
    """Read a JSON file; every fault is told at once."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigRefusedError(f"cannot read the configuration {path}: {error.strerror}") from error
    refuse_faults("server", data, f"the configuration {path}", "see docs/reference/server-config.md for every key")
    return ServerConfig.model_validate_json(data)


def refuse_faults(kind: Literal["server", "callers"], data: bytes, what: str, next_step: str) -> None:
    """Raise with all faults of a document, where it has any."""
    faults = check_config(kind, data)
    if [fault.path for fault in faults] == [""]:
        raise ConfigRefusedError(f"{what} is not JSON: {faults[0].found}", faults=faults, next_step=next_step)
    if faults:
        count = f"{len(faults)} fault{'s' * (len(faults) != 1)}"
        raise ConfigRefusedError(f"{what} has {count}", faults=faults, next_step=next_step)
