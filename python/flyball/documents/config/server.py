"""`ServerConfig`: the one document that starts a data plane. The Rust reader has the same keys, defaults and limits.

Each field carries its unit, default and limit; `reference.py` renders them, and a test compares the page with this model.
Must not know how the document reaches the server.
"""

from __future__ import annotations

import json
import re
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from flyball.documents.faults import Allowed, faults_of
from flyball.errors import ConfigRefusedError, Fault

if TYPE_CHECKING:
    from pathlib import Path

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:/\s]+):([0-9]{1,5})\Z")
_ORIGIN = r"^(?:\*|https?://[!-.0-~]+)$"
_HOST = re.compile(r"(?:\*|[A-Za-z0-9._-]+)\Z")
_OWNER = r"^[A-Za-z0-9_.-]+(?::[A-Za-z0-9_.-]+)?$"
_UNIX_PATH_MOST = 107  # the kernel's limit on the path of a socket, less its closing zero
_TLS_FILE = "a path where listen has a tls:// address, else null"
_KIB = 1024
_MEMORY_LEAST = 64 * _KIB * _KIB
_MEMORY_MOST = 2**53 - 1  # the last whole number that every JSON reader keeps exactly


def _address(text: str) -> str:
    if (path := text.removeprefix("unix:")) != text:
        if not path or "\0" in path or len(path.encode()) > _UNIX_PATH_MOST:
            raise ValueError("not unix:/path")
        return text
    match = _ADDRESS.match(text.removeprefix("tls://"))
    if match is None or int(match[1]) > 65535:
        raise ValueError("not host:port")
    return text


def _host(text: str) -> str:
    if not _HOST.match(text):
        address = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        if IPv6Address(address).scope_id is not None:
            raise ValueError("a Host header has no zone")
    return text


def _no_more_than_lanes(value: int | None, info: ValidationInfo) -> int | None:
    lanes = info.data.get("lanes")  # not there when it is wrong itself
    if value is not None and lanes is not None and value > lanes:
        raise ValueError("more than lanes")
    return value


def _twice_sync(value: int, info: ValidationInfo) -> int:
    sync = info.data.get("journal_sync_ms")  # not there when it is wrong itself
    if sync is not None and value < 2 * sync:
        raise ValueError("less than two rounds to the disk")
    return value


def _beside_the_root(value: str | None, info: ValidationInfo) -> str | None:
    if "trust_root" in info.data and (value is None) != (info.data["trust_root"] is None):
        raise ValueError("a policy without the keys that may sign it, or the other way round")
    return value


def _kek_place(text: str | None) -> str | None:
    if text is not None:
        kind, _, rest = text.partition(":")
        named = rest.strip() and kind in ("file", "env", "command")
        if not named or (kind == "env" and ("=" in rest or "\0" in rest)):
            raise ValueError("no place of a key")
    return text


def _tls_file(value: str | None, listen: list[str] | None, *, needed: bool) -> None:
    """Certificate and key belong to `tls://` addresses: one without the other would serve what nobody meant."""
    if listen is None:  # refused itself
        return
    tls = any(address.startswith("tls://") for address in listen)
    if (value is not None and not tls) or (value is None and tls and needed):
        raise PydanticCustomError("not_allowed", "{allowed}", {"allowed": _TLS_FILE})


def _whole(unit: str, low: int, high: int, default: int, description: str) -> Any:
    """A whole number with a unit; one place, so that limit, schema and page cannot disagree."""
    return Field(default, ge=low, le=high, description=description, json_schema_extra={"unit": unit})


Address = Annotated[
    str,
    AfterValidator(_address),
    Allowed('"host:port", "tls://host:port" or "unix:/path"; an IPv6 host in brackets, port 0 for any free port'),
]
Origin = Annotated[str, Field(pattern=_ORIGIN), Allowed('"*", or "http[s]://host[:port]"')]
Host = Annotated[str, AfterValidator(_host), Allowed('"*", or a host name or address without a port')]
_TlsFile = Annotated[
    str | None, Field(min_length=1, validate_default=True, json_schema_extra={"unit": "path"}), Allowed(_TLS_FILE)
]


def _range(low: int, high: int) -> Allowed:
    return Allowed(f"a whole number, {low} to {high}")


_TIMEOUT = _range(10, 3_600_000)


class ServerConfig(BaseModel):
    """The configuration of `flyball serve` and `flyballd`, as JSON. Unknown keys are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    listen: Annotated[
        list[Address],
        Field(
            min_length=1,
            max_length=16,
            json_schema_extra={"unit": "address", "limit": "1 to 16 of `host:port`, `tls://host:port` or `unix:/path`"},
        ),
        Field(description="Addresses to listen on, 1 to 16; HTTP/1.1, HTTP/2 and gRPC share each of them."),
    ] = ["127.0.0.1:8080"]
    tls_cert: Annotated[
        _TlsFile,
        Field(
            description="PEM file of the server's certificate and its intermediate certificates; read again when it changes."
        ),
    ] = None
    tls_key: Annotated[_TlsFile, Field(description="PEM file of the certificate's private key.")] = None
    tls_client_ca: Annotated[
        _TlsFile,
        Field(description="PEM file of authorities; every TLS client must then show a certificate of one of them."),
    ] = None
    unix_mode: Annotated[
        str,
        Field(pattern=r"^0?[0-7]{3}$", json_schema_extra={"unit": "octal", "limit": "three octal digits"}),
        Field(description="Mode of the sockets of unix: addresses."),
        Allowed("three octal digits, with or without a leading 0"),
    ] = "0600"
    unix_owner: Annotated[
        str | None,
        Field(pattern=_OWNER, json_schema_extra={"unit": "name", "limit": "`user` or `user:group` or `null`"}),
        Field(description="Owner of the sockets of unix: addresses, names or numbers; null for the server's own user."),
        Allowed("null, or user or user:group, names or numbers"),
    ] = None
    callers: Annotated[
        str | None,
        Field(min_length=1, json_schema_extra={"unit": "path"}),
        Field(description="JSON file of callers and their rights (`flyball caller` writes it); read again when it changes."),
        Allowed("null, or the path of a file"),
    ] = None
    hosts: Annotated[
        list[Host],
        Field(max_length=64, json_schema_extra={"unit": "host", "limit": "up to 64 of `*` or a host without a port"}),
        Field(
            description="Hosts that requests may name beside localhost and this machine's addresses. If empty, a loopback "
            "listener serves no others and any other listener serves all; `*` for all. Unix sockets are exempt."
        ),
    ] = []
    allow_anonymous: Annotated[
        bool | None,
        Field(json_schema_extra={"unit": "switch"}),
        Field(description="Serve unknown callers; null for loopback and Unix sockets only."),
        Allowed("null, true or false"),
    ] = None
    lanes: Annotated[
        int | None,
        Field(ge=1, le=256, json_schema_extra={"unit": "threads"}),
        Field(description="Lanes, each one thread; null for one per core that affinity mask and cgroup quota allow."),
        Allowed("null, or a whole number, 1 to 256"),
    ] = None
    compute_lanes: Annotated[
        int | None,
        Field(ge=1, le=256, json_schema_extra={"unit": "threads"}),
        Field(description="Threads without sockets that run slow models, at most as many as lanes; null for as many."),
        AfterValidator(_no_more_than_lanes),
        Allowed("null, or a whole number, 1 to 256, no more than lanes"),
    ] = None
    inline_run_us_max: Annotated[int, _range(50, 100_000)] = _whole(
        "µs", 50, 100_000, 1000, "A run that is expected to take longer never runs on a lane with sockets."
    )
    memory_bytes_max: Annotated[
        int | None,
        Field(ge=_MEMORY_LEAST, le=_MEMORY_MOST, json_schema_extra={"unit": "bytes"}),
        Field(
            description="A load that would exceed this is refused, and so are runs while the process exceeds it; "
            "null for the cgroup's limit, else the machine's memory."
        ),
        Allowed(f"null, or a whole number, {_MEMORY_LEAST} to {_MEMORY_MOST}"),
    ] = None
    run_memory_bytes_max: Annotated[
        int | None,
        Field(ge=_KIB * _KIB, le=_MEMORY_MOST, json_schema_extra={"unit": "bytes"}),
        Field(
            description="A run of a model that needs more memory fails alone with 422; null for half of memory_bytes_max."
        ),
        Allowed(f"null, or a whole number, {_KIB * _KIB} to {_MEMORY_MOST}"),
    ] = None
    probe_ms_max: Annotated[int, _range(100, 3_600_000)] = _whole(
        "ms",
        100,
        3_600_000,
        30_000,
        "CPU time for loading and probing a model in its own process before it serves; a model that needs more, or four "
        "times as much wall-clock time, is refused.",
    )
    probe_memory_bytes_max: Annotated[
        int | None,
        Field(ge=_MEMORY_LEAST, le=_MEMORY_MOST, json_schema_extra={"unit": "bytes"}),
        Field(
            description="Memory for loading and probing a model in its own process; null for the rest of memory_bytes_max."
        ),
        Allowed(f"null, or a whole number, {_MEMORY_LEAST} to {_MEMORY_MOST}"),
    ] = None
    mlock: Annotated[
        bool,
        Field(
            description="Keep the server's memory from being swapped out. Needs a privilege (`flyball doctor` shows whether "
            "it is granted); without it the server does not start.",
            json_schema_extra={"unit": "switch"},
        ),
        Allowed("true or false"),
    ] = False
    ort_path: Annotated[
        str | None,
        Field(min_length=1, json_schema_extra={"unit": "path"}),
        Field(description="ONNX Runtime's shared library; null to find it (ORT_DYLIB_PATH, or the installed package's)."),
        Allowed("null, or the path of libonnxruntime.so"),
    ] = None
    body_bytes_max: Annotated[int, _range(_KIB, 2**31 - 1)] = _whole(
        "bytes", _KIB, 2**31 - 1, 64 * _KIB * _KIB, "Largest request body; a larger one is refused with 413."
    )
    answer_bytes_max: Annotated[int, _range(_KIB * _KIB, 2**31 - 1)] = _whole(
        "bytes",
        _KIB * _KIB,
        2**31 - 1,
        256 * _KIB * _KIB,
        "Largest answer, JSON numbers counted at their longest form; a larger one is refused with 422 before it is written.",
    )
    header_bytes_max: Annotated[int, _range(8 * _KIB, _KIB * _KIB)] = _whole(
        "bytes",
        8 * _KIB,
        _KIB * _KIB,
        64 * _KIB,
        "Request heads up to this size are accepted; one of twice the size gets 431.",
    )
    connections_max: Annotated[int, _range(1, 1_000_000)] = _whole(
        "connections",
        1,
        1_000_000,
        4096,
        "Open connections; one more closes the longest idle one, or waits if none is idle.",
    )
    connections_per_address_max: Annotated[int, _range(1, 1_000_000)] = _whole(
        "connections", 1, 1_000_000, 1024, "Open connections from one IP address, except loopback; more are closed at once."
    )
    streams_max: Annotated[int, _range(1, 100_000)] = _whole(
        "requests", 1, 100_000, 1024, "Concurrent requests on one HTTP/2 connection."
    )
    streams_total_max: Annotated[int, _range(1, 1_000_000)] = _whole(
        "requests",
        1,
        1_000_000,
        4096,
        "Concurrent requests on all HTTP/2 connections, with 4 KiB of headers each on average; more are refused unread "
        "(`REFUSED_STREAM`). Unknown callers get half of them, and 16 per connection.",
    )
    in_flight_max: Annotated[int, _range(1, 1_000_000)] = _whole(
        "requests", 1, 1_000_000, 4096, "Concurrent requests in the server, over all models; more are refused with 503."
    )
    header_timeout_ms: Annotated[int, _TIMEOUT] = _whole(
        "ms",
        10,
        3_600_000,
        10_000,
        "Longest time from a head's first byte to its last; also for a TLS handshake and HTTP/2's preface.",
    )
    body_timeout_ms: Annotated[int, _TIMEOUT] = _whole(
        "ms", 10, 3_600_000, 10_000, "Longest wait for the complete body; then 408."
    )
    idle_timeout_ms: Annotated[int, _TIMEOUT] = _whole(
        "ms", 10, 3_600_000, 120_000, "An idle connection is closed after this."
    )
    grace_ms: Annotated[int, _range(0, 3_600_000)] = _whole(
        "ms", 0, 3_600_000, 30_000, "Time for requests in flight during a drain, before their connections are closed."
    )
    trust_root: Annotated[
        str | None,
        Field(min_length=1, json_schema_extra={"unit": "path"}),
        Field(
            description="PEM file of the root keys that may sign the trust policy; without one the server starts only "
            'if `unsigned` is "allow".'
        ),
        Allowed("null, or the path of a file"),
    ] = None
    trust_policy: Annotated[
        str | None,
        Field(min_length=1, validate_default=True, json_schema_extra={"unit": "path"}),
        Field(
            description="The trust policy that a key of `trust_root` signed (`flyball trust`); read again when it changes."
        ),
        AfterValidator(_beside_the_root),
        Allowed("a path where trust_root has one, else null"),
    ] = None
    state_folder: Annotated[
        str | None,
        Field(min_length=1, json_schema_extra={"unit": "path"}),
        Field(
            description="Folder for the anti-rollback state: the last accepted serial of the trust policy and generation of "
            "the signed snapshot, so that older ones are refused after a restart; null for `<trust_policy>.state`."
        ),
        Allowed("null, or the path of a folder"),
    ] = None
    environment: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$",
            json_schema_extra={"unit": "name", "limit": "1 to 128 of `A-Z a-z 0-9 . _ -`"},
        ),
        Field(description="The server's environment: releases and snapshots for other environments are refused."),
        Allowed("1 to 128 of A-Z a-z 0-9 . _ - and not beginning with a dot"),
    ] = "production"
    unsigned: Annotated[
        Literal["refuse", "allow"],
        Field(
            description="Whether unsigned deployments are refused or allowed; allowed ones cause warnings.",
            json_schema_extra={"unit": "word"},
        ),
        Allowed("refuse or allow"),
    ] = "refuse"
    previous_kept: Annotated[int, _range(0, 3)] = _whole(
        "deployments", 0, 3, 1, "Replaced deployments of each name that stay loaded, so that a rollback loads nothing."
    )
    watch_snapshot: Annotated[
        bool,
        Field(
            description="Apply the snapshot again whenever its index changes on disk.",
            json_schema_extra={"unit": "switch"},
        ),
        Allowed("true or false"),
    ] = False
    allow_model_control: Annotated[
        bool,
        Field(description="Let clients load and unload models.", json_schema_extra={"unit": "switch"}),
        Allowed("true or false"),
    ] = False
    allow_shared_memory: Annotated[
        bool,
        Field(
            description="Let clients pass tensors in shared memory of this machine.",
            json_schema_extra={"unit": "switch"},
        ),
        Allowed("true or false"),
    ] = False
    features_folder: Annotated[
        str | None,
        Field(min_length=1, json_schema_extra={"unit": "path"}),
        Field(
            description="Folder that keeps feature windows across restarts; null for memory only. Not opened with `offline`."
        ),
        Allowed("null, or the path of a folder"),
    ] = None
    journal_folder: Annotated[
        str | None,
        Field(min_length=1, json_schema_extra={"unit": "path"}),
        Field(
            description="Folder of the decision journal; null records nothing. One server writes to it. "
            "Not opened with `offline`."
        ),
        Allowed("null, or the path of a folder"),
    ] = None
    journal_sync_ms: Annotated[int, _range(10, 10_000)] = _whole(
        "ms", 10, 10_000, 200, "Maximum fsync delay for buffered records."
    )
    journal_loss_ms_max: Annotated[
        int,
        AfterValidator(_twice_sync),
        Field(validate_default=True),
        Allowed("a whole number, 100 to 60000, twice journal_sync_ms or more"),
    ] = _whole(
        "ms", 100, 60_000, 2000,
        "The journal accepts nothing while its oldest unsynced record is older; at least twice `journal_sync_ms`.",
    )  # fmt: skip
    journal_segment_bytes: Annotated[int, _range(_KIB * _KIB, 4 * _KIB**3)] = _whole(
        "bytes",
        _KIB * _KIB,
        4 * _KIB**3,
        64 * _KIB * _KIB,
        "A segment of the journal is sealed, and the next one begun, at this size.",
    )
    journal_segment_s: Annotated[int, _range(1, 604_800)] = _whole(
        "s", 1, 604_800, 3600, "A segment of the journal is sealed, and the next one begun, at this age."
    )
    journal_checkpoint_s: Annotated[int, _range(1, 3600)] = _whole(
        "s", 1, 3600, 60, "Interval of signed checkpoints, also without new decisions."
    )
    journal_key: Annotated[
        str | None,
        Field(min_length=1, json_schema_extra={"unit": "path"}),
        Field(description="File of the key that signs checkpoints, 64 hex digits; null for one created in the folder."),
        Allowed("null, or the path of a file"),
    ] = None
    journal_kek: Annotated[
        str | None,
        AfterValidator(_kek_place),
        Field(
            json_schema_extra={"unit": "place", "limit": "`file:PATH`, `env:NAME`, `command:PROGRAM ARGUMENT…` or `null`"},
            description="Location of the key-encryption key for subjects' keys, 64 hex digits: a file that others cannot "
            "read, a variable, or a program's output within 10 s; null for one created in the folder.",
        ),
        Allowed("null, or file:PATH, env:NAME or command:PROGRAM ARGUMENT…"),
    ] = None
    offline: Annotated[
        bool,
        Field(
            description="Rows come from files: nothing is looked up or counted, and rows may contain feature values.",
            json_schema_extra={"unit": "switch"},
        ),
        Allowed("true or false"),
    ] = False
    cors_origins: Annotated[
        list[Origin],
        Field(max_length=64, json_schema_extra={"unit": "origin", "limit": "up to 64 of `*` or `http[s]://host[:port]`"}),
        Field(description="Web pages of these origins may read answers; none by default."),
    ] = []
    compress_bytes_min: Annotated[int, _range(0, 2**31 - 1)] = _whole(
        "bytes", 0, 2**31 - 1, 1024, "Shorter answers are never compressed; longer ones are if the client accepts it."
    )
    log: Annotated[
        Literal["error", "warn", "info", "debug"],
        Field(description="Lowest severity written to stderr, as JSON lines.", json_schema_extra={"unit": "level"}),
        Allowed("error, warn, info or debug"),
    ] = "info"

    @field_validator("tls_cert", "tls_key", "tls_client_ca")
    @classmethod
    def _tls_files(cls, value: str | None, info: ValidationInfo) -> str | None:
        _tls_file(value, info.data.get("listen"), needed=info.field_name != "tls_client_ca")
        return value


def read_server_config(path: Path) -> ServerConfig:
    """Read a JSON file; every fault is told at once."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigRefusedError(f"cannot read the configuration {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigRefusedError(f"the configuration {path} is not JSON: {error}") from error
    try:
        return ServerConfig.model_validate(document)
    except ValidationError as error:
        faults: list[Fault] = faults_of(error, ServerConfig)
        raise ConfigRefusedError(
            f"the configuration {path} has {len(faults)} fault{'s' * (len(faults) != 1)}",
            faults=faults,
            next_step="see docs/reference/server-config.md for every key",
        ) from error
