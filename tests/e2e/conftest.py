"""Shared by end-to-end tests: a flyballd with small limits, so that each can be reached; a clock that tests move."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import serving, snapshots
from tests.support.held_clock import HeldClock, held_clock
from tests.support.serving import Server

LIMITS = {
    "body_bytes_max": 65536,
    "header_bytes_max": 8192,
    "header_timeout_ms": 2000,
    "body_timeout_ms": 2000,  # a worker that is not run for a second must not look like a slow client
    "lanes": 2,
}


@pytest.fixture(scope="session")
def strict(model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("strict")
    names = ["linear", "many", "fp16", "gather", "infinite", "slow"]
    index = snapshots.write(folder, 1, [snapshots.deployment(name, model(name)) for name in names])
    config = folder / "config.json"
    config.write_text(json.dumps({**LIMITS, "strict_json": True}))
    command = [*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config]
    with serving.serving([str(part) for part in command]) as server:
        yield server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldClock]:
    """The clock of the next server that the test starts."""
    with held_clock(monkeypatch) as held:
        yield held
