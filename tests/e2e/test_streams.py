"""ModelStreamInfer: many requests on one stream, each counted by itself, answered in order; errors stay in the stream."""

import asyncio
import json
import queue
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_aio
from h2.settings import SettingCodes
from tritonclient.grpc import service_pb2
from tritonclient.utils import np_to_triton_dtype

from tests.support import serving, snapshots
from tests.support.held_clock import HeldClock
from tests.support.onnx_models import Arrays, row
from tests.support.raw_h2 import Answer, Connection, frame
from tests.support.run_state import in_flight, under_way
from tests.support.serving import PATIENCE_S, Server, until
from tests.support.triton_clients import grpc_client
from tests.support.wire import assert_same, metrics, settled

Reference = Callable[[str, Arrays], Arrays]
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 3, 4, 8, 12
ENDLESS = 2**62
RUN_MS_MAX = 1500


def tensors(inputs: Arrays) -> list[Any]:
    made = []
    for name, array in inputs.items():
        made.append(triton_grpc.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        made[-1].set_data_from_numpy(array)
    return made


def message(model: str, inputs: Arrays, request_id: str = "") -> bytes:
    request = service_pb2.ModelInferRequest(model_name=model, id=request_id)
    for name, array in inputs.items():
        shape = list(array.shape)
        request.inputs.add(name=name, datatype=np_to_triton_dtype(array.dtype), shape=shape)
        request.raw_input_contents.append(array.tobytes())
    return bytes(request.SerializeToString())


def linear(request_id: str = "") -> bytes:
    return message("linear", row("linear", 1), request_id)


def read(body: bytes) -> list[Any]:
    """The messages of a stream's answer."""
    messages = []
    while body:
        length = int.from_bytes(body[1:5])
        messages.append(service_pb2.ModelStreamInferResponse.FromString(body[5 : 5 + length]))
        body = body[5 + length :]
    return messages


def call(server: Server, *frames: bytes, **headers: str) -> Answer:
    with Connection(server) as connection:
        return connection.call(b"".join(frames), STREAM, **headers)


def test_many_requests_of_tritonclient_are_answered_in_their_order(strict: Server, reference: Reference) -> None:
    before = settled(strict)
    came: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with grpc_client(strict) as client:
        client.start_stream(lambda result, error: came.put((result, error)))
        for number in range(600):
            client.async_stream_infer("linear", tensors(row("linear", number)), request_id=str(number))
        answers = [came.get(timeout=PATIENCE_S) for _ in range(600)]
        client.stop_stream()
    for number, (result, error) in enumerate(answers):
        assert error is None
        response = result.get_response()
        assert response.id == str(number)
        assert response.parameters["triton_final_response"].bool_param
        wanted = reference("linear", row("linear", number))
        assert_same({name: result.as_numpy(name) for name in wanted}, wanted)
    counts = settled(strict)
    assert counts["answered"] - before["answered"] == counts["received"] - before["received"] == 600


def test_slow_requests_do_not_let_later_ones_overtake(strict: Server) -> None:
    inputs = [("slow", row("slow", 1)), *[("linear", row("linear", 1))] * 5, ("slow", row("slow", 2))]
    answer = call(strict, *(frame(message(name, arrays, str(n))) for n, (name, arrays) in enumerate(inputs)))
    assert answer.status == 0, answer.headers
    assert [one.infer_response.id for one in read(answer.body)] == [str(n) for n in range(len(inputs))]


def test_the_aio_client_streams_too(strict: Server, reference: Reference) -> None:
    async def requests() -> AsyncIterator[dict[str, Any]]:
        for number in range(20):
            yield {"model_name": "linear", "inputs": tensors(row("linear", number)), "request_id": str(number)}

    async def talk() -> list[tuple[Any, Any]]:
        async with triton_aio.InferenceServerClient(strict.address) as client:
            return [pair async for pair in client.stream_infer(requests())]

    answers = asyncio.run(talk())
    assert len(answers) == 20
    for number, (result, error) in enumerate(answers):
        assert error is None
        assert result.get_response().id == str(number)
        wanted = reference("linear", row("linear", number))
        assert_same({name: result.as_numpy(name) for name in wanted}, wanted)


def test_an_error_is_a_message_that_says_whose_it_is_and_the_stream_goes_on(strict: Server) -> None:
    wrong = message("linear", {"x": np.ones((1, 5), np.float32)}, "wrong")
    unknown = message("nobody", row("linear", 1), "unknown")
    answer = call(strict, *map(frame, [linear("a"), wrong, unknown, b"\xff\xff", linear("b")]))
    assert answer.status == 0
    first, shape, model, broken, last = read(answer.body)
    assert (first.error_message, last.error_message) == ("", "")
    assert (first.infer_response.id, last.infer_response.id) == ("a", "b")
    assert "5" in shape.error_message
    assert (shape.infer_response.id, shape.infer_response.model_name) == ("wrong", "linear")
    assert "nobody" in model.error_message
    assert (model.infer_response.id, model.infer_response.model_name) == ("unknown", "nobody")
    assert "the message does not decode" in broken.error_message
    assert broken.infer_response.id == ""


def test_with_triton_grpc_error_the_first_error_is_the_status_and_the_end(strict: Server) -> None:
    unknown = message("nobody", row("linear", 1), "unknown")
    with grpc.insecure_channel(strict.address) as channel:
        talk = channel.stream_stream(STREAM, request_serializer=None, response_deserializer=None)
        asked = iter([linear("a"), unknown, linear("b")])
        answers = talk(asked, timeout=PATIENCE_S, metadata=[("triton_grpc_error", "true")])
        assert service_pb2.ModelStreamInferResponse.FromString(next(answers)).infer_response.id == "a"
        with pytest.raises(grpc.RpcError, match="nobody") as over:
            next(answers)
    assert over.value.code() == grpc.StatusCode.NOT_FOUND
    settled(strict)


def test_an_empty_stream_ends_well(strict: Server) -> None:
    answer = call(strict)
    assert (answer.status, answer.body) == (0, b"")


BAD_FRAMES = {
    "cut in its head": (INVALID_ARGUMENT, "3 bytes", b"\x00\x00\x00"),
    "cut in its message": (INVALID_ARGUMENT, "frame", frame(linear())[:-1]),
    "an odd flag": (INVALID_ARGUMENT, "7", frame(linear(), compressed=7)),
    "over the limit": (RESOURCE_EXHAUSTED, "65536", frame(b"", length=65537)),
}


@pytest.mark.parametrize(("status", "text", "bad"), BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_a_bad_frame_ends_the_stream_after_the_answers_before_it(strict: Server, status: int, text: str, bad: bytes) -> None:
    before = settled(strict)
    with Connection(strict) as connection:
        answer = connection.call(frame(linear("a")) + frame(linear("b")) + bad, STREAM)
        assert answer.status == status, answer.headers
        assert text in answer.message
        assert [one.infer_response.id for one in read(answer.body)] == ["a", "b"]
        assert connection.call(frame(linear("c")), STREAM).status == 0  # the connection's other streams go on
    counts = settled(strict)
    assert counts["answered"] - before["answered"] == 3
    assert counts["refused"] - before["refused"] == 1


def test_a_message_that_dribbles_is_timed_out_but_an_idle_stream_is_not(strict: Server) -> None:
    with Connection(strict) as connection:
        idle, slow = connection.open(STREAM), connection.open(STREAM)
        connection.send(slow, frame(linear())[:10], end=False)
        answer = connection.answer(slow)
        assert (answer.status, answer.message) == (DEADLINE_EXCEEDED, "a message did not arrive within 2000 ms")
        connection.send(idle, frame(linear("late")))
        answer = connection.answer(idle)
    assert [one.infer_response.id for one in read(answer.body)] == ["late"]


def test_an_unknown_encoding_is_refused_with_what_is_known(strict: Server) -> None:
    answer = call(strict, frame(linear()), grpc_encoding="snappy")
    assert answer.status == UNIMPLEMENTED
    assert answer.headers["grpc-accept-encoding"] == "identity,gzip,deflate"


@pytest.fixture
def looped(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path, clock: HeldClock) -> Server:
    """One lane, and a model whose runs last until the test advances the clock."""
    limits = {"run_ms_max": RUN_MS_MAX, "queue_wait_ms_max": serving.PATIENCE_MS}
    deployments = [snapshots.deployment("looped", model("looped"), limits=limits)]
    index = snapshots.write(tmp_path, 1, [*deployments, snapshots.deployment("linear", model("linear"))])
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"lanes": 1, "grace_ms": serving.ENDLESS_MS}))
    return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)


def endless() -> bytes:
    return frame(message("looped", {"x": np.array([ENDLESS], np.int64)}))


def test_cancelling_a_stream_abandons_what_is_queued_before_it_costs_a_run(looped: Server, clock: HeldClock) -> None:
    with Connection(looped) as first, Connection(looped) as leaves:
        running = first.open()
        first.send(running, endless())
        under_way(looped)
        stream = leaves.open(STREAM)
        leaves.send(stream, endless() * 20, end=False)
        in_flight(looped, 21)
        leaves.reset(stream)
        until("they are counted", lambda: metrics(looped).outcomes()["abandoned"] == 20 or None)
        clock.advance(RUN_MS_MAX)
        assert first.answer(running).status == 13  # the run was stopped
    counts = settled(looped)
    assert counts == {"received": 21, "answered": 0, "refused": 0, "failed": 1, "abandoned": 20}
    assert metrics(looped).sum("flyball_batch_rows_count", model="looped") == 1


def test_a_stream_beyond_its_requests_in_flight_is_not_read(looped: Server) -> None:
    with Connection(looped) as connection:
        stream = connection.open(STREAM)
        connection.send(stream, endless() * 300, end=False)
        in_flight(looped, 256)
        assert metrics(looped).outcomes()["received"] == 256
        connection.reset(stream)
        until("they are counted", lambda: metrics(looped).outcomes()["abandoned"] == 256 or None)


def test_a_stream_with_many_bytes_in_flight_is_not_read_further(looped: Server) -> None:
    unknown_field = b"\xc2\x3e" + b"\xc0\x9a\x0c" + bytes(200_000)  # number 1000, which no reader looks at
    large = frame(endless()[5:] + unknown_field)
    with Connection(looped) as connection:
        stream = connection.open(STREAM)
        for _ in range(8):
            connection.send(stream, large, end=False)
        in_flight(looped, 6)  # the sixth passes one MiB
        assert metrics(looped).outcomes()["received"] == 6
        connection.reset(stream)
        until("they are counted", lambda: metrics(looped).outcomes()["abandoned"] == 6 or None)


def test_requests_are_served_whether_or_not_their_client_reads_the_answers(strict: Server) -> None:
    before = settled(strict)["answered"]
    with Connection(strict) as connection:
        connection.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        stream = connection.open(STREAM)
        for sent in (5, 10):
            connection.send(stream, frame(linear()) * 5, end=False)
            until("all are answered", lambda sent=sent: metrics(strict).outcomes()["answered"] == before + sent or None)
        connection.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65535})
        connection.h2.end_stream(stream)
        connection.flush()
        answer = connection.answer(stream)
    assert (answer.status, len(read(answer.body))) == (0, 10)


def test_a_stream_whose_client_reads_nothing_ends_at_its_deadline(looped: Server) -> None:
    with Connection(looped) as connection:
        connection.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        stream = connection.open(STREAM, grpc_timeout="2S")
        connection.send(stream, frame(linear()) + endless() * 20, end=False)
        until("an endless request has come", lambda: metrics(looped).outcomes()["received"] >= 2 or None)
        until("they have ended", lambda: metrics(looped).sum("flyball_in_flight") == 0 or None)


def test_the_stream_s_timeout_is_the_deadline_of_each_request_on_it(looped: Server, clock: HeldClock) -> None:
    with Connection(looped) as first:
        running = first.open()
        first.send(running, endless())
        under_way(looped)
        answer = call(looped, endless(), grpc_timeout="100m")
        assert answer.status == DEADLINE_EXCEEDED or "deadline" in read(answer.body)[0].error_message
        clock.advance(RUN_MS_MAX)
        first.answer(running)
    settled(looped)


def test_a_message_at_a_time_is_answered_while_the_stream_stays_open(strict: Server) -> None:
    asked: queue.Queue[bytes | None] = queue.Queue()
    with grpc.insecure_channel(strict.address) as channel:
        talk = channel.stream_stream(STREAM, request_serializer=None, response_deserializer=None)
        answers = talk(iter(asked.get, None), timeout=PATIENCE_S)
        for number in range(5):
            asked.put(linear(str(number)))
            answer = service_pb2.ModelStreamInferResponse.FromString(next(answers))
            assert answer.infer_response.id == str(number)
        asked.put(None)
        assert next(answers, None) is None


def test_an_idle_stream_does_not_hold_a_server_that_leaves(looped: Server) -> None:
    ended = threading.Event()

    def requests() -> Iterator[bytes]:
        yield linear("first")
        ended.wait(PATIENCE_S)

    with grpc.insecure_channel(looped.address) as channel:
        talk = channel.stream_stream(STREAM, request_serializer=None, response_deserializer=None)
        answers = talk(requests(), timeout=PATIENCE_S)
        assert service_pb2.ModelStreamInferResponse.FromString(next(answers)).infer_response.id == "first"
        looped.signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as over:
            next(answers)
        ended.set()
    assert over.value.code() == grpc.StatusCode.UNAVAILABLE
    assert looped.wait().code == 0  # long before its grace period ends
