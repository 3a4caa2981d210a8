"""A server for files: rows may bring features along, and windows are only read."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import serving, snapshots
from tests.support.card_decision import CARD, GOOD, PATH
from tests.support.wire import Http, metrics

WITH_WINDOW: dict[str, Any] = copy.deepcopy(CARD)
WITH_WINDOW["input"].append({"name": "card", "type": "string", "required": False})
WITH_WINDOW["features"] = [{"name": "seen", "type": "float", "window": {"op": "count", "by": "card", "last_ms": 3_600_000}}]
WITH_WINDOW["policy"]["rules"] = [{"when": "seen >= 2.0", "then": "reject", "reason": "TOO_MUCH"}]


def asked(model: Path, folder: Path, rows: list[dict[str, Any]], *, offline: bool) -> tuple[list[dict[str, Any]], float]:
    """What a server answers to rows, one after the other, and how many events its windows took in."""
    config = folder / "config.json"
    config.write_text(json.dumps({"listen": ["127.0.0.1:0"], "offline": offline}))
    index = snapshots.write(folder / "snapshot", 1, [snapshots.deployment("card", model, decision=WITH_WINDOW)])
    command = [*serving.flyballd(), "--snapshot", str(index), "--config", str(config)]
    with serving.serving(command) as server, Http(server) as connection:
        answers = [connection.post(PATH, {"input": fields}).json for fields in rows]
        return answers, metrics(server).sum("flyball_window_events_total", result="added")


@pytest.mark.parametrize(("offline", "added"), [(False, 3), (True, 0)], ids=["online", "offline"])
def test_windows_take_events_in_online_and_never_offline(
    model: Callable[[str], Path], tmp_path: Path, offline: bool, added: int
) -> None:
    answers, events = asked(model("linear"), tmp_path, [{**GOOD, "card": "a"}] * 3, offline=offline)
    assert [answer["outcome"] in ("pass", "review") for answer in answers] == [True] * 3
    assert events == added


@pytest.mark.parametrize("offline", [False, True], ids=["online", "offline"])
def test_a_row_may_bring_a_feature_only_offline(model: Callable[[str], Path], tmp_path: Path, offline: bool) -> None:
    (answer,), _ = asked(model("linear"), tmp_path, [{**GOOD, "card": "a", "seen": 5.0}], offline=offline)
    if offline:
        assert answer["outcome"] == "reject"
    else:
        assert [fault["field"] for fault in answer["faults"]] == ["seen"]
