"""The rivals of the claims: the fastest setting is kept, and a rival that is not here is told with the next command."""

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.claims.subjects import Subject
from bench.claims.tails import rivals
from bench.claims.tails.rivals import FASTAPI, MLSERVER, RIVALS, TRITON, missing, prepare
from bench.environments import Installed
from flyball.errors import FlyballError

STAND = SimpleNamespace(server_cpus=[0], seconds=lambda wanted: wanted, tell=lambda _: None)


class Timed(Subject):
    """A subject whose load is the rate that its server states."""

    def load(self, server, connections, **changes):
        if server.rate is None:
            raise FlyballError("3 answers differ")
        return SimpleNamespace(rate_per_s=server.rate)


@pytest.fixture
def started(monkeypatch):
    """Servers of made-up rates by the words of their setting; those that were started."""
    made = SimpleNamespace(rates={}, settings=[])

    @contextmanager
    def start(peer, model, setting, cpus):
        made.settings.append(setting)
        yield SimpleNamespace(rate=made.rates.get(setting.words, 1.0), url="http://made-up")

    monkeypatch.setattr(rivals, "serving", start)
    monkeypatch.setattr(rivals, "running_version", lambda peer, url: "as stated")
    return made


SUBJECT = Timed("fraud", Path("fraud.onnx"), b"", 3.0)


def test_the_fastest_setting_is_the_one_that_is_started(started):
    started.rates = {"msgspec, async def": 5.0, "orjson, def": 4.0}
    rival = prepare(STAND, FASTAPI, SUBJECT)
    assert (rival.told["version"], rival.told["setting"]) == ("as stated", "msgspec, async def")
    assert len(rival.told["tried_per_s"]) == 4
    with rival.start([0, 1], workers=2):
        assert (started.settings[-1].style, started.settings[-1].workers) == ("msgspec, async def", 2)


def test_a_setting_with_wrong_answers_is_not_the_fastest(started):
    started.rates = {"orjson, async def": None, "orjson, def": 4.0}
    rival = prepare(STAND, FASTAPI, SUBJECT)
    assert rival.told["setting"] == "orjson, def"
    assert "orjson, async def" not in rival.told["tried_per_s"]


@pytest.mark.parametrize("name", [TRITON, MLSERVER])
def test_a_rival_that_is_asked_by_grpc_is_started_for_it(started, name):
    rival = prepare(STAND, name, SUBJECT, grpc=True)
    assert rival.setting.grpc
    assert rival.told["version"] != ""
    assert (rival.told["version"] == "as stated") == (name == TRITON)


def test_a_rival_that_is_not_here_is_told_with_the_reason(monkeypatch):
    monkeypatch.setattr(rivals, "install", lambda _: "no such package")
    monkeypatch.setattr(rivals, "onnx_backend", lambda: None)
    assert "make triton-backend" in (missing(TRITON) or "")
    assert missing(FASTAPI) == "FastAPI did not install: no such package"
    monkeypatch.setattr(rivals, "install", lambda _: Installed(Path("python"), 0.0))
    monkeypatch.setattr(rivals, "onnx_backend", lambda: Path("backends"))
    assert [missing(name) for name in (*RIVALS, MLSERVER)] == [None] * 6
