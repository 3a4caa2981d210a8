"""What a server's configuration may say: the bounds of every key, and what holds together."""

import json
from typing import Any

import pytest

from flyball import _native
from flyball.documents.config.server import ServerConfig
from flyball.documents.snapshot import compile_models
from flyball.errors import ConfigRefusedError
from flyball.native import boundary
from flyball.native import server as native_server
from flyball.native.checks import check_config

BOUNDS = {
    "lanes": (1, 256),
    "compute_lanes": (1, 256),
    "inline_run_us_max": (50, 100_000),
    "memory_bytes_max": (64 * 2**20, 2**53 - 1),
    "run_memory_bytes_max": (2**20, 2**53 - 1),
    "probe_ms_max": (100, 3_600_000),
    "probe_memory_bytes_max": (64 * 2**20, 2**53 - 1),
    "body_bytes_max": (1024, 2**31 - 1),
    "answer_bytes_max": (2**20, 2**31 - 1),
    "header_bytes_max": (8192, 2**20),
    "connections_max": (1, 1_000_000),
    "connections_per_address_max": (1, 1_000_000),
    "streams_max": (1, 100_000),
    "streams_total_max": (1, 1_000_000),
    "in_flight_max": (1, 1_000_000),
    "header_timeout_ms": (10, 3_600_000),
    "body_timeout_ms": (10, 3_600_000),
    "idle_timeout_ms": (10, 3_600_000),
    "grace_ms": (0, 3_600_000),
    "previous_kept": (0, 3),
    "journal_sync_ms": (10, 10_000),
    "journal_loss_ms_max": (100, 60_000),
    "journal_segment_bytes": (2**20, 2**32),
    "journal_segment_s": (1, 604_800),
    "journal_checkpoint_s": (1, 3600),
    "compress_bytes_min": (0, 2**31 - 1),
}
SWITCHES = [
    *(
        "mlock",
        "allow_anonymous",
        "watch_snapshot",
        "allow_model_control",
        "allow_shared_memory",
        "strict_json",
        "triton_statuses",
        "strict_readiness",
        "offline",
    )
]
TLS_FILES = ["tls_cert", "tls_key", "tls_client_ca"]
NULLABLE = {
    "lanes", "compute_lanes", "memory_bytes_max", "run_memory_bytes_max", "probe_memory_bytes_max", "ort_path",
    "unix_owner", "callers", "allow_anonymous", "trust_root", "trust_policy", "state_folder", "features_folder",
    "journal_folder", "journal_key", "journal_kek", *TLS_FILES,
}  # fmt: skip
# A free port, so that tests can run at once; only errors, so that the servers say nothing here.
QUIET = {"listen": ["127.0.0.1:0"], "unsigned": "allow", "log": "error"}
NO_MODELS = compile_models([]).to_bytes()


def stopped(server: Any) -> bool:
    server.drain()
    return bool(server.wait(60.0))


def start_raw(document: dict[str, Any]) -> None:
    """Start what `ServerConfig` could not hold."""
    written = {**QUIET, "ort_path": str(boundary.ort_library()), **document}
    with boundary.boundary():
        assert stopped(_native.Server(json.dumps(written).encode(), NO_MODELS))


def paths(document: dict[str, Any]) -> list[str]:
    return [fault.path for fault in check_config("server", json.dumps(document).encode())]


def test_the_bounds_below_are_those_of_every_number() -> None:
    numbers = {key for key, schema in ServerConfig.model_json_schema()["properties"].items() if "integer" in str(schema)}
    assert numbers == set(BOUNDS)


def test_the_page_tells_the_bounds() -> None:
    for key, (low, high) in BOUNDS.items():
        limit = ServerConfig.model_json_schema()["properties"][key]["limit"]
        assert limit.removesuffix(" or `null`") == f"{low} to {high}", key


def test_the_defaults_are_those_of_the_server() -> None:
    assert paths({}) == []
    assert stopped(native_server.Server(ServerConfig(**QUIET), NO_MODELS))


def test_the_model_has_the_keys_of_the_server() -> None:
    (fault,) = check_config("server", b'{"colour": "red"}')
    assert (fault.path, fault.found) == ("colour", "red")
    assert fault.allowed.removeprefix("no such key; keys are ").split(", ") == sorted(ServerConfig.model_fields)


@pytest.mark.parametrize("end", [0, 1], ids=["least", "largest"])
def test_every_number_is_taken_at_its_bound(end: int) -> None:
    document = {key: bounds[end] for key, bounds in BOUNDS.items()}
    assert stopped(native_server.Server(ServerConfig(**QUIET, **document), NO_MODELS))


@pytest.mark.parametrize("level", ["error", "warn", "info", "debug"])
def test_every_level_of_the_log_is_taken(level: str) -> None:
    document = {**QUIET, "log": level}
    assert stopped(native_server.Server(ServerConfig(**document), NO_MODELS))


BEYOND = [(key, value) for key, (low, high) in BOUNDS.items() for value in (low - 1, high + 1)]


@pytest.mark.parametrize(("key", "value"), BEYOND)
def test_a_number_beyond_its_bound_is_refused(key: str, value: int) -> None:
    assert paths({key: value}) == [key]


@pytest.mark.parametrize(
    ("lanes", "compute_lanes", "wrong"), [(2, 3, "compute_lanes"), (2, 257, "compute_lanes"), (0, 3, "lanes")]
)
def test_more_compute_lanes_than_lanes_are_refused(lanes: int, compute_lanes: int, wrong: str) -> None:
    document = {"lanes": lanes, "compute_lanes": compute_lanes}
    assert paths(document) == [wrong]


@pytest.mark.parametrize("document", [{"journal_sync_ms": 1001}, {"journal_sync_ms": 1000, "journal_loss_ms_max": 1999}])
def test_a_journal_that_may_lose_less_than_two_rounds_to_the_disk_is_refused(document: dict[str, Any]) -> None:
    assert paths(document) == ["journal_loss_ms_max"]


@pytest.mark.parametrize("key", BOUNDS)
@pytest.mark.parametrize("value", [True, "100", 100.0], ids=["a boolean", "a text", "a fraction"])
def test_a_value_that_is_no_whole_number_is_refused(key: str, value: object) -> None:
    assert paths({key: value}) == [key]


@pytest.mark.parametrize("key", sorted(set(ServerConfig.model_fields) - NULLABLE))
def test_null_is_refused_where_it_means_nothing(key: str) -> None:
    assert paths({key: None}) == [key]


@pytest.mark.parametrize("key", SWITCHES)
@pytest.mark.parametrize("value", [1, "true"])
def test_a_switch_takes_true_and_false_alone(key: str, value: object) -> None:
    assert paths({key: value}) == [key]


OUT_OF_BOUNDS: list[dict[str, Any]] = [
    {"log": "loud"}, {"log": "INFO"}, {"listen": []}, {"listen": ["127.0.0.1:0"] * 17},
    {"unix_mode": "0800"}, {"unix_mode": "60"}, {"unix_mode": "01600"}, {"unix_mode": "0600\n"},
    {"unix_owner": ""}, {"unix_owner": "a:"}, {"unix_owner": "a:b:c"}, {"unix_owner": "a b"},
    {"callers": ""}, {"features_folder": ""}, {"journal_folder": ""}, {"journal_key": ""},
    {"journal_kek": ""}, {"journal_kek": "kek"}, {"journal_kek": "command: "}, {"journal_kek": "env:A=B"},
    {"cors_origins": ["*"] * 65}, {"hosts": ["*"] * 65},
    {"trust_root": ""}, {"state_folder": ""}, {"trust_policy": ""}, {"trust_policy": "trust.json"},
    {"unsigned": "maybe"}, {"unsigned": "Allow"},
    {"environment": ""}, {"environment": "a b"}, {"environment": ".a"}, {"environment": "a" * 129}, {"environment": "a\n"},
    {"server_name": ""}, {"server_name": "a b"},
]  # fmt: skip


@pytest.mark.parametrize("document", OUT_OF_BOUNDS)
def test_texts_and_lists_out_of_bounds_are_refused(document: dict[str, Any]) -> None:
    assert paths(document) == list(document)


@pytest.mark.parametrize("address", ["", "8080", "nowhere", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "::1:0"])
def test_what_is_no_address_is_refused(address: str) -> None:
    assert paths({"listen": [address]}) == ["listen[0]"]


@pytest.mark.parametrize(
    "address", ["tls://", "tls://nowhere", "tls://h:65536", "unix:", "unix:/" + "x" * 107, "http://h:1"]
)
def test_what_is_no_tls_or_unix_address_is_refused(address: str) -> None:
    assert paths({"listen": [address]}) == ["listen[0]"]


@pytest.mark.parametrize("origin", ["", "a.example", "https://", "https://a/b", "ftp://a", "https://a b", "https://a\n"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    assert paths({"cors_origins": [origin]}) == ["cors_origins[0]"]


@pytest.mark.parametrize("host", ["", "a b", "a.example:80", "http://a", "a/b", "[::1]:80", "[a]", "a\n", "*.example"])
def test_what_is_no_host_is_refused(host: str) -> None:
    assert paths({"hosts": [host]}) == ["hosts[0]"]


def test_a_server_wants_certificate_and_key_for_tls_and_only_there() -> None:
    tls = {"listen": ["tls://127.0.0.1:0"]}
    assert paths(tls) == ["tls_cert", "tls_key"]
    idle = dict.fromkeys(TLS_FILES, "file.pem")
    assert sorted(paths(idle)) == sorted(TLS_FILES)
    empty = {**tls, **dict.fromkeys(TLS_FILES, "")}
    assert sorted(paths(empty)) == sorted(TLS_FILES)


def test_a_server_wants_a_policy_beside_the_roots_of_trust() -> None:
    assert paths({"trust_root": "root.pub"}) == ["trust_policy"]


def test_a_server_that_trusts_nobody_does_not_start_and_says_what_to_do() -> None:
    with pytest.raises(ConfigRefusedError, match=r"trusts nobody.*--trust-root.*--unsigned allow"):
        start_raw({"unsigned": "refuse"})


def test_a_snapshot_that_comes_from_no_file_cannot_be_watched() -> None:
    advice = "watch_snapshot needs a snapshot file; give --snapshot FILE, or leave watch_snapshot out"
    with pytest.raises(ConfigRefusedError, match=advice):
        start_raw({"watch_snapshot": True})


def test_every_number_out_of_bounds_is_told_at_once() -> None:
    document = {key: high + 1 for key, (_, high) in BOUNDS.items()}
    assert sorted(paths(document)) == sorted(BOUNDS)
