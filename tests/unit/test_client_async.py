"""The asynchronous client: the same methods, answers and errors as the blocking one, with bounded connections."""

import asyncio
import contextlib
import inspect
import json
import socket
import threading

import numpy as np
import pytest

from flyball import AsyncClient, Client, errors
from tests.support.serving import PATIENCE_S
from tests.support.v2_server import V2Server, refusal

ROW = {"x": np.ones((1, 2), np.float32)}
ANSWER = {"id": "i", "decision": "card", "outcome": "pass"}


@pytest.fixture
def server():
    with V2Server() as running:
        yield running


@pytest.fixture
def dead_url():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def outcome(run):
    """What a call gives: its value, or its error as a caller sees it."""
    try:
        return repr(run())
    except errors.FlyballError as error:
        return (
            type(error),
            error.code,
            str(error),
            getattr(error, "maybe_served", None),
            getattr(error, "retry_after_s", None),
        )


def of_both(url, call, **options):
    """The same call with both clients."""

    async def awaited():
        async with AsyncClient(url, **options) as client:
            return await call(client)

    def blocked():
        with Client(url, **options) as client:
            return call(client)

    return outcome(blocked), outcome(lambda: asyncio.run(awaited()))


def answer(document, status=200, **headers):
    named = {"Content-Type": "application/json", **headers}
    return lambda handler: handler.answer(status, json.dumps(document).encode(), named)


def raw(*parts):
    """Bytes as they are, and the end of the connection."""

    def send(handler):
        handler.wfile.write(b"".join(parts))
        handler.close_connection = True

    return send


def test_every_method_of_the_client_is_one_of_the_asynchronous_client_with_the_same_arguments():
    names = [name for name, kind in vars(Client).items() if callable(kind) and not name.startswith("_")]
    assert len(names) > 10
    for name in names:
        assert inspect.iscoroutinefunction(getattr(AsyncClient, name)), name
        assert inspect.signature(getattr(AsyncClient, name)) == inspect.signature(getattr(Client, name)), name


SCRIPTS = {
    "a decision": [answer(ANSWER)],
    "a shed request, then a decision": [refusal(503, "full", Retry_After="0"), answer(ANSWER)],
    "a server that stays busy": [refusal(503, "full", Retry_After="0")] * 3,
    "a server that names a time beyond the deadline": [refusal(503, "full", Retry_After="3600")],
    "a refusal": [answer({"type": "urn:flyball:fault:key_conflict", "detail": "why"}, 409)],
    "faults of fields": [
        answer(
            {
                "type": "urn:flyball:fault:fields_invalid",
                "detail": "1",
                "faults": [{"field": "a", "is": "1", "allowed": "b"}],
            },
            422,
            **{"Content-Type": "application/problem+json"},
        )
    ],
    "not JSON": [lambda handler: handler.answer(200, b"<html>")],
    "not a decision": [answer({})],
    "a connection that ends without an answer": [raw(b"")],
    "a body that ends early": [raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")],
    "not found": [refusal(404, "no such decision")],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_both_clients_send_the_same_and_give_the_same(server, script):
    server.script.extend([*script, *script])
    blocking, awaited = of_both(server.url, lambda client: client.decide("card", {"amount": 1}, idempotency_key="k"))
    half = len(server.seen) // 2
    told = [(path, headers["idempotency-key"], body) for path, headers, body in server.seen]
    assert told[:half] == told[half:]
    if "broke before" in blocking[2]:
        blocking, awaited = blocking[:2], awaited[:2]  # each library has its own words for how it broke
    assert blocking == awaited


def test_both_clients_try_a_server_that_is_not_there_three_times(dead_url, monkeypatch):
    pauses = []

    async def paused(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("flyball.client.steps.time.sleep", pauses.append)
    monkeypatch.setattr("flyball.client.steps.asyncio.sleep", paused)
    blocking, awaited = of_both(dead_url, lambda client: client.decide("card", {}))
    assert blocking == awaited
    assert pauses == [0.05, 0.1] * 2


@pytest.mark.parametrize("url", ["grpc://127.0.0.1:1", "unix:/nowhere/at.all"])
def test_both_clients_say_the_same_of_other_addresses_where_nobody_listens(url):
    blocking, awaited = of_both(url, lambda client: client.live())
    assert blocking == awaited == "False"


HTTP = {
    "chunks": raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;x=y\r\n{\r\n1\r\n}\r\n0\r\n\r\n"),
    "the end of the connection": raw(b"HTTP/1.1 200 OK\r\n\r\n{}"),
    "HTTP/1.0": raw(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "an interim answer": raw(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "chunks with trailers": raw(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n1\r\n}\r\n0\r\nDigest: x\r\n\r\n"
    ),
}


@pytest.mark.parametrize("script", HTTP.values(), ids=HTTP)
def test_an_answer_may_end_in_every_way_that_http_has(server, script):
    server.script.extend([script, script])
    blocking, awaited = of_both(server.url, lambda client: client.seal())
    assert blocking == awaited == "None"


@pytest.mark.parametrize(
    "head",
    [b"ICY 200 OK", b"HTTP/1.1 OK", b"HTTP/1.1 200 OK\r\nContent-Length: -1", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200],
)
def test_what_is_not_http_is_a_broken_connection(server, head):
    server.script.append(raw(head, b"\r\n\r\n"))
    _, awaited = of_both(server.url, lambda client: client.seal())
    assert awaited[:2] == (errors.UnreachableError, "unreachable")


def test_calls_in_flight_share_few_connections_and_get_their_own_answers(server):
    accepted = []
    process = server.process_request
    server.process_request = lambda request, address: (accepted.append(address), process(request, address))

    async def ask():
        async with AsyncClient(server.url, deadline_ms=60_000, connections_max=4) as client:
            inputs = [{"x": np.full(3, number, np.float32)} for number in range(200)]
            return await asyncio.gather(*(client.infer("m", rows, id=str(at)) for at, rows in enumerate(inputs)))

    answers = asyncio.run(ask())
    assert [array["x"].tolist() for array in answers] == [[float(number)] * 3 for number in range(200)]
    assert len(accepted) <= 4
    assert [path for path, *_ in server.seen].count("/v2/models/m") == 1, "the metadata is asked once"


class Stalled:
    """A script whose answers never come: it knows how many requests have arrived, and how many connections have ended."""

    def __init__(self):
        self.arrived, self.ended = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, handler):
        self.arrived.release()
        with contextlib.suppress(ConnectionResetError):
            assert handler.connection.recv(1) == b""  # the client's end of the connection
        handler.close_connection = True
        self.ended.release()

    @staticmethod
    async def times(count, happened):
        for _ in range(count):
            assert await asyncio.to_thread(happened.acquire, timeout=PATIENCE_S)


def test_cancelled_calls_close_their_connections_and_leave_room_for_others(server):
    stalled = Stalled()
    server.script.extend([stalled, stalled])

    async def cancel():
        async with AsyncClient(server.url, deadline_ms=60_000, connections_max=2) as client:
            tasks = [asyncio.create_task(client.decide("card", {"amount": number})) for number in range(6)]
            await stalled.times(2, stalled.arrived)  # two are on the way, four wait for a connection
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await stalled.times(2, stalled.ended)
            server.script.extend([answer(ANSWER)] * 4)
            again = await asyncio.gather(*(client.decide("card", {}) for _ in range(4)))
            return results, again

    results, again = asyncio.run(cancel())
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert [decided.outcome for decided in again] == ["pass"] * 4


def test_a_call_whose_deadline_passes_closes_its_connection_and_leaves_room(server):
    stalled = Stalled()
    server.script.append(stalled)

    async def wait():
        async with AsyncClient(server.url, connections_max=1) as client:
            with pytest.raises(errors.DeadlineError, match="no answer within 100 ms"):
                await client.decide("card", {}, deadline_ms=100)
            await stalled.times(1, stalled.ended)
            server.script.append(answer(ANSWER))
            return await client.decide("card", {}, deadline_ms=60_000)

    assert asyncio.run(wait()).outcome == "pass"


def test_the_wait_for_a_connection_counts_towards_the_deadline(server):
    stalled = Stalled()
    server.script.append(stalled)

    async def wait():
        async with AsyncClient(server.url, deadline_ms=60_000, connections_max=1) as client:
            first = asyncio.create_task(client.decide("card", {}))
            await stalled.times(1, stalled.arrived)
            with pytest.raises(errors.DeadlineError):
                await client.decide("card", {}, deadline_ms=50)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)

    asyncio.run(wait())
    assert len(server.seen) == 1


def test_threads_wait_for_a_connection_no_longer_than_their_deadline(server):
    stalled = Stalled()
    server.script.append(stalled)
    with Client(server.url, deadline_ms=60_000, connections_max=1) as client:
        first = threading.Thread(target=lambda: outcome(lambda: client.decide("card", {}, deadline_ms=2000)))
        first.start()
        assert stalled.arrived.acquire(timeout=PATIENCE_S)
        with pytest.raises(errors.DeadlineError):
            client.decide("card", {}, deadline_ms=50)
        first.join()


def test_a_connection_that_the_server_has_closed_is_not_used_again(server):
    server.script.extend([raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"), answer(ANSWER)])

    async def ask():
        async with AsyncClient(server.url, deadline_ms=60_000) as client:
            await client.seal()
            while not client._transport._idle[0].reader.at_eof():
                await asyncio.sleep(0)
            return await client.decide("card", {})

    assert asyncio.run(ask()).outcome == "pass"


def test_a_client_belongs_to_one_event_loop_and_says_so(server):
    client = AsyncClient(server.url)
    server.script.append(raw(b"HTTP/1.0 200 OK\r\n\r\n"))
    assert asyncio.run(client.live())
    for use in (client.live, client.close):
        with pytest.raises(errors.UsageError, match="another event loop"):
            asyncio.run(use())


def test_a_closed_client_says_so():
    client = AsyncClient("http://127.0.0.1:1")
    for _ in range(2):
        asyncio.run(client.close())
    with pytest.raises(errors.UsageError, match="the client is closed"):
        asyncio.run(client.live())


def test_a_failed_question_for_metadata_is_asked_again_by_the_next_call(server):
    server.script.append(refusal(500, "not yet"))

    async def ask():
        async with AsyncClient(server.url, deadline_ms=60_000) as client:
            return await asyncio.gather(*(client.infer("m", ROW) for _ in range(3)), return_exceptions=True)

    results = asyncio.run(ask())
    assert [type(result) for result in results] == [errors.ServerFaultError, dict, dict]
