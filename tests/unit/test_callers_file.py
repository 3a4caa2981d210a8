"""What a callers' file may say, by the server's check, which `flyball caller` asks too."""

import json
from pathlib import Path
from typing import Any

import pytest

from flyball.documents.config.callers import read_callers
from flyball.documents.config.server import ServerConfig
from flyball.documents.snapshot import compile_models
from flyball.errors import ConfigRefusedError
from flyball.native import server as native_server

KEY = "0" * 64
WHOLE = {
    "name": "a", "keys_sha256": [KEY], "sans": ["spiffe://x/a", "host"], "uids": [0, 4294967294],
    "requests_per_second": 1, "burst": 1_000_000, "in_flight_max": 1_000_000,
    "may": ["infer", "decide:fraud", "outcome:a.b*", "override:*", "control:x-1", "erase", "metrics"],
}  # fmt: skip
NO_RIGHTS = ["", "Infer", "infer:", "infer:a b", "infer:*a", "infer:a**", "infer:.a", "metrics:x", "erase:*", "run", ":a", 7]
FAULTY: dict[str, Any] = {
    "a root that is no object": [],
    "no callers": {},
    "an unknown key": {"callers": [], "colour": 1},
    "callers that are no list": {"callers": {}},
    "too many callers": {"callers": [{"name": f"c{place}", "uids": [place]} for place in range(257)]},
    "a caller that is no object": {"callers": ["a"]},
    "an unknown key of a caller": {"callers": [{**WHOLE, "colour": 1}]},
    "no name": {"callers": [{"uids": [1]}]},
    "names that are none": {
        "callers": [{"name": name, "uids": [n]} for n, name in enumerate(["", "a b", "x" * 65, "none"])]
    },
    "a caller known by nothing": {"callers": [{"name": "a"}]},
    "a hash that is none": {"callers": [{"name": "a", "keys_sha256": [KEY, "A" * 64, "0" * 63]}]},
    "certificate names that are none": {"callers": [{"name": "a", "sans": ["", "a b", "x" * 256, 1]}]},
    "users that are none": {"callers": [{"name": "a", "uids": [-1, 4294967295, "1", True, 1.0]}]},
    "too many keys": {"callers": [{"name": "a", "keys_sha256": [f"{n:064x}" for n in range(17)]}]},
    "numbers out of bounds": {"callers": [{**WHOLE, "requests_per_second": 0, "burst": None, "in_flight_max": 1_000_001}]},
    "a burst without a rate": {"callers": [{"name": "a", "uids": [1], "burst": 5}]},
    "rights that are no list": {
        "callers": [
            {"name": f"c{n}", "uids": [n], "may": may} for n, may in enumerate([1, "infer", None, {}, ["infer"] * 65])
        ]
    },
    "rights that are none": {"callers": [{"name": "a", "uids": [1], "may": [*NO_RIGHTS, "infer"]}]},
    "a key of no right": {"callers": [{"name": "a", "uids": [1], "control": True}]},
    "anonymous callers that are known": {"callers": [{"name": "anonymous", "uids": [1]}]},
    "lists that are null": {"callers": [{"name": "a", "uids": [1], "sans": None}]},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "callers.json"


def start(file: Path) -> None:
    config = ServerConfig(listen=["127.0.0.1:0"], log="error", unsigned="allow", callers=str(file))
    server = native_server.Server(config, compile_models([]).to_bytes())
    server.drain()
    assert server.wait(60.0)


@pytest.mark.parametrize(
    "callers",
    [
        [],
        [WHOLE],
        [{"name": "a", "uids": [1], "requests_per_second": None}],
        [{"name": "anonymous", "may": ["infer:demo*"]}],
    ],
)
def test_a_sound_file_is_taken(file: Path, callers: list[dict[str, Any]]) -> None:
    file.write_text(json.dumps({"callers": callers}))
    assert len(read_callers(file).callers) == len(callers)
    start(file)


@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_file_is_refused_by_the_command_and_by_the_server(file: Path, fault: str) -> None:
    file.write_text(json.dumps(FAULTY[fault]))
    with pytest.raises(ConfigRefusedError) as command:
        read_callers(file)
    with pytest.raises(ConfigRefusedError) as server:
        start(file)
    assert {found.path for found in command.value.faults} == {found.path for found in server.value.faults}


@pytest.mark.parametrize("key", ["name", "keys_sha256", "sans", "uids"])
def test_what_leads_to_two_callers_is_refused(file: Path, key: str) -> None:
    other = {"name": "b", "keys_sha256": ["1" * 64], "sans": ["other"], "uids": [7]}
    file.write_text(json.dumps({"callers": [WHOLE, {**other, key: WHOLE[key]}]}))
    for read in (read_callers, start):
        with pytest.raises(ConfigRefusedError):
            read(file)
