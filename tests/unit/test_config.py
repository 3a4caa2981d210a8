"""The server's configuration: strict, told whole, and documented key by key."""

import json
from pathlib import Path

import pytest

from flyball.documents.config.reference import render
from flyball.documents.config.server import ServerConfig, read_server_config
from flyball.errors import ConfigRefusedError
from flyball.native.checks import check_config

ROOT = Path(__file__).parents[2]


def faults(document):
    return {fault.path: fault for fault in check_config("server", json.dumps(document).encode())}


def test_defaults_are_those_of_the_native_side():
    assert ServerConfig().model_dump() == {
        "listen": ["127.0.0.1:8080"],
        "tls_cert": None,
        "tls_key": None,
        "tls_client_ca": None,
        "unix_mode": "0600",
        "unix_owner": None,
        "callers": None,
        "hosts": [],
        "allow_anonymous": None,
        "lanes": None,
        "compute_lanes": None,
        "inline_run_us_max": 1000,
        "memory_bytes_max": None,
        "run_memory_bytes_max": None,
        "probe_ms_max": 30000,
        "probe_memory_bytes_max": None,
        "mlock": False,
        "ort_path": None,
        "body_bytes_max": 67108864,
        "answer_bytes_max": 268435456,
        "header_bytes_max": 65536,
        "connections_max": 4096,
        "connections_per_address_max": 1024,
        "streams_max": 1024,
        "streams_total_max": 4096,
        "in_flight_max": 4096,
        "header_timeout_ms": 10000,
        "body_timeout_ms": 10000,
        "idle_timeout_ms": 120000,
        "grace_ms": 30000,
        "trust_root": None,
        "trust_policy": None,
        "state_folder": None,
        "environment": "production",
        "unsigned": "refuse",
        "previous_kept": 1,
        "watch_snapshot": False,
        "allow_model_control": False,
        "allow_shared_memory": False,
        "server_name": "flyball",
        "triton_statuses": False,
        "strict_json": False,
        "strict_readiness": False,
        "features_folder": None,
        "journal_folder": None,
        "journal_sync_ms": 200,
        "journal_loss_ms_max": 2000,
        "journal_segment_bytes": 67108864,
        "journal_segment_s": 3600,
        "journal_checkpoint_s": 60,
        "journal_key": None,
        "journal_kek": None,
        "offline": False,
        "restricted_apis": [],
        "cors_origins": [],
        "compress_bytes_min": 1024,
        "log": "info",
        "log_format": "auto",
    }


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("lanes", 1, 256),
        ("compute_lanes", 1, 256),
        ("inline_run_us_max", 50, 100_000),
        ("memory_bytes_max", 64 * 2**20, 2**53 - 1),
        ("run_memory_bytes_max", 2**20, 2**53 - 1),
        ("probe_ms_max", 100, 3_600_000),
        ("probe_memory_bytes_max", 64 * 2**20, 2**53 - 1),
        ("body_bytes_max", 1024, 2**31 - 1),
        ("answer_bytes_max", 2**20, 2**31 - 1),
        ("header_bytes_max", 8192, 2**20),
        ("connections_max", 1, 1_000_000),
        ("connections_per_address_max", 1, 1_000_000),
        ("streams_max", 1, 100_000),
        ("in_flight_max", 1, 1_000_000),
        ("header_timeout_ms", 10, 3_600_000),
        ("body_timeout_ms", 10, 3_600_000),
        ("idle_timeout_ms", 10, 3_600_000),
        ("grace_ms", 0, 3_600_000),
        ("journal_segment_bytes", 2**20, 2**32),
        ("journal_segment_s", 1, 604_800),
        ("journal_checkpoint_s", 1, 3600),
        ("compress_bytes_min", 0, 2**31 - 1),
    ],
)
def test_numbers_are_taken_up_to_their_limits_and_not_beyond(key, low, high):
    for value in (low, high):
        assert faults({key: value}) == {}
    for value in (low - 1, high + 1, float(high), str(high), True):
        assert list(faults({key: value})) == [key]


def test_there_are_no_more_compute_lanes_than_lanes_where_both_are_given():
    assert faults({"lanes": 2, "compute_lanes": 2}) == {}
    assert faults({"compute_lanes": 256}) == {}, "the machine decides on lanes, and the server on the rest"
    found = faults({"lanes": 2, "compute_lanes": 3, "log": "loud"})
    assert sorted(found) == ["compute_lanes", "log"]
    assert found["compute_lanes"].allowed == "null, or a whole number, 1 to 256, no more than lanes"
    assert list(faults({"lanes": 0, "compute_lanes": 3})) == ["lanes"]


def test_a_journal_may_lose_no_less_than_two_rounds_to_the_disk():
    assert faults({"journal_sync_ms": 1000}) == {}
    for settings in ({"journal_sync_ms": 1000, "journal_loss_ms_max": 1999}, {"journal_sync_ms": 1001}):
        found = faults(settings)
        assert list(found) == ["journal_loss_ms_max"]
        assert found["journal_loss_ms_max"].allowed == "a whole number, 100 to 60000, twice journal_sync_ms or more"
    assert list(faults({"journal_sync_ms": 9})) == ["journal_sync_ms"]


@pytest.mark.parametrize("place", ["file:/run/kek", "env:KEK", "command:vault read kek"])
def test_the_place_of_a_key_is_a_file_the_environment_or_a_command(place):
    assert faults({"journal_kek": place}) == {}


@pytest.mark.parametrize("place", ["", "kek", "file:", "command: ", "env:A=B", "vault:x"])
def test_what_is_no_place_of_a_key_is_refused(place):
    assert list(faults({"journal_kek": place})) == ["journal_kek"]


def test_mlock_is_a_switch_and_nothing_else():
    assert faults({"mlock": True}) == {}
    for value in (1, "true", None):
        assert list(faults({"mlock": value})) == ["mlock"]


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:8080", "[::1]:80", "0.0.0.0:65535", "unix:/run/flyball.sock"])
def test_an_address_is_host_and_port(address):
    assert faults({"listen": [address]}) == {}


@pytest.mark.parametrize(
    "address", ["", "8080", ":8080", "host", "host:", "host:65536", "::1:80", "http://h:1", "h:1\n", "h:-1"]
)
def test_what_is_no_address_is_refused(address):
    assert list(faults({"listen": [address]})) == ["listen[0]"]


def test_listen_needs_one_address_and_takes_sixteen():
    assert faults({"listen": ["h:1"] * 16}) == {}
    assert list(faults({"listen": []})) == ["listen"]
    assert list(faults({"listen": ["h:1"] * 17})) == ["listen"]


def test_all_faults_are_told_at_once_with_what_is_allowed():
    found = faults({"lanes": 0, "log": "loud", "lane": 2, "listen": ["x"], "grace_ms": None})
    assert sorted(found) == ["grace_ms", "lane", "lanes", "listen[0]", "log"]
    assert "keys are allow_anonymous, allow_model_control" in found["lane"].allowed
    assert "1 to 256" in found["lanes"].allowed
    assert found["lanes"].found == 0


def test_a_file_is_read_or_refused_with_its_name(tmp_path):
    path = tmp_path / "server.json"
    with pytest.raises(ConfigRefusedError, match="cannot read"):
        read_server_config(path)
    path.write_text("{")
    with pytest.raises(ConfigRefusedError, match="not JSON"):
        read_server_config(path)
    path.write_text('{"lanes": 0, "x": 1}')
    with pytest.raises(ConfigRefusedError, match="2 faults") as caught:
        read_server_config(path)
    assert [fault.path for fault in caught.value.faults] == ["lanes", "x"]
    path.write_text(json.dumps(ServerConfig(lanes=2).model_dump()))
    assert read_server_config(path).lanes == 2


def test_every_key_has_a_unit_and_a_description():
    for key, schema in ServerConfig.model_json_schema()["properties"].items():
        assert schema.get("unit"), key
        assert schema.get("description", "").endswith("."), key
        assert "default" in schema, key


def test_the_reference_page_is_what_the_model_renders():
    page = (ROOT / "docs/reference/server-config.md").read_text()
    assert page == render(), "write it anew:  python -m flyball.documents.config.reference > docs/reference/server-config.md"
