"""A server that is killed under load has kept what it acknowledged. `make crash` does the same a thousand times."""

import os
from pathlib import Path

import pytest

from bench.claims.journal import callers, cycles, specs
from flyball.native.journal import JournalLog
from tests.reference import journal
from tests.support import serving

CYCLES = 200 if os.environ.get("FLYBALL_TESTS") == "full" else 20
SEED = 8


@pytest.mark.timeout(CYCLES * 3)
def test_after_every_kill_what_was_acknowledged_is_in_the_log_and_the_chain_verifies(tmp_path: Path) -> None:
    found = cycles.crash(Path(serving.flyballd()[0]), tmp_path, CYCLES, SEED, print, settings=cycles.SMALL)
    assert found.wrong == []
    assert found.cycles == CYCLES
    assert min(found.acknowledged[name] for name in (cycles.SYNC, cycles.BUFFERED)) > CYCLES  # there was something to lose
    assert found.window_s == cycles.LOSS_MS_MAX / 1000
    assert found.recovered  # some of it was torn
    assert found.wiped_bytes  # and some was written and not synced


def test_a_server_that_drains_under_load_leaves_a_whole_log_that_the_next_one_reopens(tmp_path: Path) -> None:
    place = tmp_path / "journal"
    index = specs.snapshot(tmp_path, {cycles.SYNC: "{durability: sync}", cycles.BUFFERED: None})
    config = specs.configured(tmp_path / "config.json", place, journal_checkpoint_s=3600)
    command = [*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0", "--config", str(config)]
    with serving.serving(command) as server, callers.Callers(server.url, (cycles.SYNC, cycles.BUFFERED), each=2) as asking:
        serving.until("some answers", lambda: sum(len(told.decided) for told in asking.told.values()) > 200 or None)
        assert server.stop().code == 0
    told = {one for told in asking.told.values() for one in told.decided}
    segment, behind = journal.segments(place)
    assert told <= journal.ids([segment]).keys()
    assert segment.path.stat().st_size == segment.frames[-1].end  # sealed: no room is left over
    assert not behind.frames
    # Nobody had to wait for a heartbeat, or the next server: the last note is over the last record.
    note = JournalLog(place).checkpoints()[-1]
    assert note.splitlines()[1] == "1"
    assert f"open 2 0 {behind.last().hex()}" in note
    with serving.serving(command) as server:
        assert server.stop().code == 0
    assert [one.began for one in journal.segments(place)][:3] == [1, 2, 3]
    assert journal.kinds(journal.segments(place))["recovered"] == 0
    assert JournalLog(place).verify().findings == []
