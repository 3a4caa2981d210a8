"""`AsyncClient` against a real server: a thousand decisions in flight on one event loop, and cancelled ones."""

import asyncio
from typing import Any

import pandas as pd
import pytest

import flyball
from tests.support import serving
from tests.support.decision_folders import plain_rows
from tests.support.serving import PATIENCE_MS, Server
from tests.support.shop import CARDS, INDEX, MATRIX, NAMES, SCHEMES, connections


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_thousand_decisions_in_flight_on_one_loop_keep_their_order_and_their_errors(shop: Server, scheme: str) -> None:
    rows = plain_rows(1000)
    with flyball.Client(shop.url, deadline_ms=PATIENCE_MS) as client:
        wanted = client.decide("plain", rows)

    async def ask() -> list[Any]:
        async with flyball.AsyncClient(f"{scheme}://{shop.address}", deadline_ms=PATIENCE_MS, connections_max=16) as client:
            return await asyncio.gather(*(client.decide("plain", row) for row in rows), return_exceptions=True)

    before = connections(shop)
    answers = asyncio.run(ask())
    for answer, row in zip(answers, wanted, strict=True):
        if row.decided is None:
            assert isinstance(answer, flyball.InvalidInputError)
            assert [fault.path for fault in answer.faults] == [fault.path for fault in row.fault.faults]
        else:
            assert (answer.outcome, answer.score) == (row.decided.outcome, row.decided.score)
    serving.until("its connections are closed", lambda: connections(shop) <= before)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_cancelled_decisions_leave_a_client_that_works_and_no_connection(shop: Server, scheme: str) -> None:
    async def cancel() -> list[Any]:
        async with flyball.AsyncClient(f"{scheme}://{shop.address}", deadline_ms=PATIENCE_MS, connections_max=4) as client:
            tasks = [asyncio.create_task(client.decide("plain", CARDS[0])) for _ in range(1000)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert any(isinstance(one, asyncio.CancelledError) for one in ended)
            again = await asyncio.gather(*(client.decide("plain", CARDS[0]) for _ in range(20)))
            # While the client is open too: a cancelled call has closed its connection.
            await asyncio.to_thread(serving.until, "at most 4 are open", lambda: connections(shop) <= before + 4)
            return again

    before = connections(shop)
    assert {decided.outcome for decided in asyncio.run(cancel())} == {"reject"}
    serving.until("its connections are closed", lambda: connections(shop) <= before)


def test_the_asynchronous_client_takes_and_gives_frames_too(shop: Server) -> None:
    async def ask() -> tuple[Any, Any]:
        async with flyball.AsyncClient(shop.url, deadline_ms=PATIENCE_MS) as client:
            frame = pd.DataFrame(MATRIX, columns=NAMES, index=INDEX)
            return await client.infer("linear", frame), await client.decide("plain", pd.DataFrame(CARDS, index=INDEX))

    answer, decided = asyncio.run(ask())
    with flyball.Client(shop.url, deadline_ms=PATIENCE_MS) as client:
        pd.testing.assert_frame_equal(answer, client.infer("linear", pd.DataFrame(MATRIX, columns=NAMES, index=INDEX)))
    assert decided["outcome"].tolist()[:2] == ["reject", "review"]
