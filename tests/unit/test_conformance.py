"""The conformance run's own parts, without clients and servers: verdicts, rows, the page, and the frames of a crowd."""

import asyncio
import socket

import pytest

from bench.claims.protocol import crowd
from conformance import case as cases
from conformance import runner
from conformance.addresses import Addresses
from conformance.case import FAIL, PASS, SKIPPED, Case, Row
from conformance.groups import GROUPS, Group, Part
from conformance.page import Findings

PLACE = Addresses("o", "c", "t", "m", "s", "a", "cc", "ck")


def outcome(run, *, skipped=""):
    return runner._outcome(Case(run, "", cases.BOTH, skipped), PLACE)


def test_a_case_that_returns_passes_and_so_does_one_that_is_awaited():
    async def awaited(addresses):
        await asyncio.sleep(0)

    assert outcome(lambda addresses: None) == (PASS, "")
    assert outcome(awaited) == (PASS, "")


def test_a_case_that_raises_fails_with_its_words_in_one_line():
    def wrong(addresses):
        raise ValueError("no\nanswer")

    assert outcome(wrong) == (FAIL, "ValueError: no answer")


def test_a_bare_assertion_is_told_by_its_source():
    def wrong(addresses):
        assert addresses.open == "elsewhere"

    verdict, reason = outcome(wrong)
    assert verdict == FAIL
    assert 'assert addresses.open == "elsewhere"' in reason


def test_a_skipped_case_is_not_run_and_gives_its_reason():
    assert outcome(lambda addresses: 1 / 0, skipped="no device here") == (SKIPPED, "no device here")


def test_a_row_names_its_protocol_where_the_group_has_both_and_the_text_has_none():
    group = Group("g", "ours", (Part("m", "http"), Part("m", "grpc")))
    assert group.row_text("strings come back", group.parts[1]) == "strings come back, over gRPC"
    assert group.row_text("`simple_grpc_shm_client`: strings", group.parts[1]) == "`simple_grpc_shm_client`: strings"
    lone = Group("g", "ours", (Part("m", "http"),))
    assert lone.row_text("strings come back", lone.parts[0]) == "strings come back"


def test_the_groups_have_names_of_their_own():
    names = [group.name for group in GROUPS]
    assert len(set(names)) == len(names) == 10


@pytest.fixture
def findings():
    rows = [Row("one", "a|b", PASS), Row("one", "c", FAIL, "why"), Row("two", "d", SKIPPED, "no device")]
    return Findings("flyballd 1", {"curl": "8"}, rows)


def test_the_page_counts_verdicts_and_gives_each_reason_once(findings):
    page = findings.page()
    assert "| one | 1 | 1 | 0 |" in page
    assert "| **all** | 1 | 1 | 1 |" in page
    assert "- no device.\n" in page
    assert "| a\\|b | pass |  |" in page
    assert findings.failed == 1


def test_the_record_holds_every_row(findings):
    record = findings.record()
    assert record["counts"] == {PASS: 1, FAIL: 1, SKIPPED: 1}
    assert [row["what"] for row in record["rows"]] == ["a|b", "c", "d"]


def test_a_place_survives_its_way_to_the_cases():
    assert Addresses.read(str(PLACE.with_flavour("grpc"))) == PLACE.with_flavour("grpc")


def test_a_burst_of_resets_is_frames_of_odd_streams_that_a_server_can_read():
    import h2.config
    import h2.connection
    import h2.events

    with socket.create_server(("127.0.0.1", 0)) as listener:
        resets = crowd.Resets(listener.getsockname(), 1)
        server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        events = server.receive_data(crowd._PREFACE + resets._burst(1))
        for connection in resets.connections:
            connection.close()
    assert sum(isinstance(event, h2.events.StreamReset) for event in events) == 100
