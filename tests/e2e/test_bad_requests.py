"""Whatever a client sends: it gets the documented status and a text that names the fault, and its neighbours never notice.

Each case names the fault kind of the one table (docs/reference/errors.md) that must be counted for it.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.support.crowd import crowd
from tests.support.onnx_models import Arrays, row
from tests.support.raw_h2 import Connection
from tests.support.serving import Server, until
from tests.support.wire import Http, Raw, infer_path, json_request, metrics, raw_post, raws, settled

Reference = Callable[[str, Arrays], Arrays]
GRPC_LIVE = "/inference.GRPCInferenceService/ServerLive"
GOOD = json_request({"x": np.ones((1, 4), np.float32)})


@dataclass
class Case:
    """A request and what must come back. No `kind`: refused before it could become a request to a model."""

    status: int
    text: str
    kind: str | None
    body: bytes | dict[str, Any] = b""
    method: str = "POST"
    path: str = field(default_factory=lambda: infer_path("linear"))
    headers: dict[str, str] = field(default_factory=dict)


def changed(**changes: Any) -> dict[str, Any]:
    """A good request whose one input is not quite right."""
    return {"inputs": [{**GOOD["inputs"][0], **changes}]}


LENGTH = "Inference-Header-Content-Length"
BINARY_HEAD = json.dumps(
    {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}]}
).encode()
FP16 = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP16", "data": [1, 2, 3, 4]}]}

CASES = {
    "JSON that ends too soon": Case(400, "(?i)json", "malformed_request", b'{"inputs": ['),
    "JSON of another shape": Case(400, "(?i)json", "malformed_request", b"[1, 2]"),
    "an empty body": Case(400, "(?i)json|body", "malformed_request"),
    "bytes that are not UTF-8": Case(400, "(?i)utf-8|json", "malformed_request", b'{"inputs": "\xff\xfe"}'),
    "nested beyond reason": Case(400, ".", "malformed_request", b'{"inputs":' + b"[" * 20000),
    "no inputs at all": Case(400, "x", "invalid_input", {"inputs": []}),
    "wrong datatype": Case(400, "x.*INT64.*FP32", "invalid_input", changed(datatype="INT64", data=[1, 2, 3, 4])),
    "unknown datatype": Case(400, "FLOAT", "malformed_request", changed(datatype="FLOAT")),
    "wrong shape": Case(400, r"x.*-1,4\], got \[1,5\]", "invalid_input", changed(shape=[1, 5], data=[0, 0, 0, 0, 0])),
    "too few numbers": Case(400, "x.*4.*3", "malformed_request", changed(data=[1, 2, 3])),
    "words for numbers": Case(400, "x", "invalid_input", changed(data=["a", "b", "c", "d"])),
    "a negative axis": Case(400, "x", "malformed_request", changed(shape=[-1, 4])),
    "axes whose product overflows": Case(400, "x", "malformed_request", changed(shape=[2**62, 2**62])),
    "wrong name": Case(400, "amount.*x|x.*missing", "invalid_input", changed(name="amount")),
    "the same input twice": Case(400, "x.*twice", "malformed_request", {"inputs": GOOD["inputs"] * 2}),
    "an output that is not there": Case(400, "q.*y", "invalid_input", {**GOOD, "outputs": [{"name": "q"}]}),
    "FP16 in JSON": Case(400, "(?i)binary", None, FP16, path=infer_path("fp16")),
    "unknown model": Case(404, "nobody", "model_not_found", GOOD, path=infer_path("nobody")),
    "unknown version": Case(404, "9.*1", "version_not_found", GOOD, path="/v2/models/linear/versions/9/infer"),
    "unknown path": Case(404, ".", None, method="GET", path="/v3"),
    "unknown path below a model": Case(404, ".", None, method="GET", path="/v2/models/linear/nothing"),
    "GET where POST is wanted": Case(405, "POST", None, method="GET"),
    "POST where GET is wanted": Case(405, "GET", None, path="/v2/health/live"),
    "a body in an unknown coding": Case(415, "br", "unsupported", GOOD, headers={"Content-Encoding": "br"}),
    "a body in two codings": Case(415, "gzip, gzip", "unsupported", GOOD, headers={"Content-Encoding": "gzip, gzip"}),
    "a body that is not in its coding": Case(400, "gzip", "malformed_request", GOOD, headers={"Content-Encoding": "gzip"}),
    "an infinity in JSON": Case(
        422, "(?i)inf|binary", "answer_not_representable", json_request({"x": np.zeros((1, 1), np.float32)}),
        path=infer_path("infinite"),
    ),
    "a header length that is no number": Case(400, LENGTH, "malformed_request", GOOD, headers={LENGTH: "ten"}),
    "a header length beyond the body": Case(400, LENGTH, "malformed_request", GOOD, headers={LENGTH: "99999"}),
    "too few raw bytes": Case(
        400, "16.*12|12", "malformed_request", BINARY_HEAD + bytes(12), headers={LENGTH: str(len(BINARY_HEAD))}
    ),
    "too many raw bytes": Case(
        400, "20|16", "malformed_request", BINARY_HEAD + bytes(20), headers={LENGTH: str(len(BINARY_HEAD))}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_bad_request_gets_its_documented_answer(strict: Server, reference: Reference, case: Case) -> None:
    before = metrics(strict)
    with crowd(strict, "linear", reference, connections=2), Http(strict) as connection:
        body = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode()
        reply = connection.request(case.method, case.path, body, case.headers)
        assert reply.status == case.status, reply.body
        assert re.search(case.text, reply.error, re.DOTALL | re.IGNORECASE), reply.error
        assert reply.headers["content-type"].startswith("application/json")
        if case.kind:
            until(
                f"{case.kind} is counted",
                lambda: (
                    (
                        metrics(strict).sum("flyball_faults_total", kind=case.kind)
                        > before.sum("flyball_faults_total", kind=case.kind)
                    )
                    or None
                ),
            )
        if reply.headers.get("connection") != "close":  # a refused request does not spoil its connection
            assert connection.post(infer_path("linear"), GOOD).status == 200


def test_the_error_text_follows_the_house_style(strict: Server) -> None:
    for case in CASES.values():
        body = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode()
        with Http(strict) as connection:
            error = connection.request(case.method, case.path, body, case.headers).error
        assert not error.endswith("."), error
        assert "\n" not in error, error


def test_a_body_over_the_limit_is_refused_before_it_is_sent(strict: Server, reference: Reference) -> None:
    with crowd(strict, "linear", reference, connections=2), Raw(strict) as raw:
        raw.send(raw_post("linear", b"", length=10**9))
        reply = raw.reply()
    assert reply is not None
    assert reply.status == 413
    assert "65536" in reply.error


def test_a_body_without_a_length_is_cut_off_at_the_limit(strict: Server, reference: Reference) -> None:
    head = f"POST {infer_path('linear')} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    piece = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    with crowd(strict, "linear", reference, connections=2), Raw(strict) as raw:
        raw.send(head + piece * 3)
        reply = raw.reply()
    assert reply is not None
    assert reply.status == 413


def test_a_good_body_in_chunks_is_answered(strict: Server) -> None:
    body = json.dumps(GOOD).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:10], body[10:])) + b"0\r\n\r\n"
    head = f"POST {infer_path('linear')} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with Raw(strict) as raw:
        raw.send(head + chunks)
        reply = raw.reply()
    assert reply is not None
    assert reply.status == 200


def test_headers_over_the_limit_are_refused(strict: Server, reference: Reference) -> None:
    with crowd(strict, "linear", reference, connections=2), Raw(strict) as raw:
        raw.send(raw_post("linear", b"{}", headers=f"X-Long: {'a' * 20000}\r\n"))
        reply = raw.reply()
    assert reply is not None
    assert reply.status == 431


def test_bytes_that_are_not_http_end_only_their_own_connection(strict: Server, reference: Reference) -> None:
    with crowd(strict, "linear", reference, connections=2):
        for garbage in (b"\x00\x01\x02\x03" * 100, b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100):
            with Raw(strict) as raw:
                raw.send(garbage)
                raw.read_to_the_end()


GET = b"GET /v2/health/live HTTP/1.1\r\n"
POST = f"POST {infer_path('linear')} HTTP/1.1\r\nHost: localhost\r\n".encode()
BODY = json.dumps(GOOD).encode()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH_OF_BODY = b"Content-Length: %d\r\n" % len(BODY)
# What is sent, and the status; none: the connection ends without an answer.
HEADS: dict[str, tuple[bytes, int | None]] = {
    "localhost": (GET + b"Host: localhost\r\n\r\n", 200),
    "localhost with a port": (GET + b"Host: LOCALHOST:80\r\n\r\n", 200),
    "a loopback address": (GET + b"Host: 127.1.2.3:80\r\n\r\n", 200),
    "an IPv6 loopback address": (GET + b"Host: [::1]:80\r\n\r\n", 200),
    "no host": (GET + b"\r\n", 400),
    "no host by HTTP/1.0": (b"GET /v2/health/live HTTP/1.0\r\n\r\n", 200),
    "two hosts": (GET + b"Host: localhost\r\nHost: localhost\r\n\r\n", 400),
    "two different hosts": (GET + b"Host: localhost\r\nHost: evil.example\r\n\r\n", 400),
    "two hosts in one": (GET + b"Host: localhost, evil.example\r\n\r\n", 400),
    "a foreign host": (GET + b"Host: evil.example\r\n\r\n", 421),
    "a foreign host with our name in it": (GET + b"Host: localhost.evil.example\r\n\r\n", 421),
    "a foreign address": (GET + b"Host: 10.0.0.1\r\n\r\n", 421),
    "an empty host": (GET + b"Host:\r\n\r\n", 421),
    "a host with a user": (GET + b"Host: a@localhost\r\n\r\n", 400),
    "a host with a path": (GET + b"Host: localhost/x\r\n\r\n", 400),
    "a host with a port that is none": (GET + b"Host: localhost:x\r\n\r\n", 400),
    "a host that is no text": (GET + b"Host: \xff\r\n\r\n", 400),
    "a foreign target": (b"GET http://evil.example/v2 HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
    "a foreign target with its own host": (b"GET http://evil.example/v2 HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
    "a target that names us": (b"GET http://localhost/v2 HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
    "bare line feeds": (b"GET /v2/health/live HTTP/1.1\nHost: localhost\n\n", 400),
    "a bare line feed after the request line": (b"GET /v2/health/live HTTP/1.1\nHost: localhost\r\n\r\n", 400),
    "a bare line feed after a field": (GET + b"Host: localhost\nx: y\r\n\r\n", 400),
    "a bare line feed at the end of the head": (GET + b"Host: localhost\r\n\n", 400),
    "a bare carriage return in a field": (GET + b"Host: localhost\r\nx: a\rb\r\n\r\n", 400),
    "a folded field": (GET + b"Host: localhost\r\nx: a\r\n b\r\n\r\n", 400),
    "a field without a colon": (GET + b"Host: localhost\r\nxy\r\n\r\n", 400),
    "a space before a colon": (GET + b"Host : localhost\r\n\r\n", 400),
    "a zero in a field": (GET + b"Host: localhost\r\nx: a\0b\r\n\r\n", 400),
    "empty lines before a request": (b"\r\n\r\n" + GET + b"Host: localhost\r\n\r\n", 200),
    "another version": (b"GET /v2 HTTP/3.0\r\nHost: localhost\r\n\r\n", 400),
    "no version": (b"GET /v2\r\n\r\n", 400),
    "no HTTP at all": (b"INVALID CONNECTION PREFACE\r\n\r\n", None),
    "a length": (POST + LENGTH_OF_BODY + b"\r\n" + BODY, 200),
    "a length twice": (POST + LENGTH_OF_BODY * 2 + b"\r\n" + BODY, 200),
    "two lengths": (POST + LENGTH_OF_BODY + b"Content-Length: 3\r\n\r\n" + BODY, 400),
    "a length with a sign": (POST + b"Content-Length: +3\r\n\r\n{} ", 400),
    "a length below zero": (POST + b"Content-Length: -3\r\n\r\n", 400),
    "a length in hex": (POST + b"Content-Length: 0x3\r\n\r\n{} ", 400),
    "a list of lengths": (POST + b"Content-Length: 3, 3\r\n\r\n{} ", 400),
    "an empty length": (POST + b"Content-Length: \r\n\r\n", 400),
    "a length beyond numbers": (POST + b"Content-Length: 99999999999999999999999\r\n\r\n", 400),
    "chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED, 200),
    "chunks in capitals": (POST + b"Transfer-Encoding: Chunked\r\n\r\n" + CHUNKED, 200),
    "chunks with an extension": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED.replace(b"\r\n", b";a=b\r\n", 1), 200,
    ),
    "chunks and a length": (POST + LENGTH_OF_BODY + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED, 400),
    "a length after chunks": (POST + b"Transfer-Encoding: chunked\r\n" + LENGTH_OF_BODY + b"\r\n" + CHUNKED, 400),
    "gzip and chunks": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKED, 501),
    "an unknown coding and chunks": (POST + b"Transfer-Encoding: x, chunked\r\n\r\n" + CHUNKED, 501),
    "chunks twice": (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED, 501),
    "an unknown coding alone": (POST + b"Transfer-Encoding: x\r\n\r\n" + CHUNKED, 400),
    "chunks that are not last": (POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + CHUNKED, 400),
    "chunks by HTTP/1.0": (
        POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED, 400,
    ),
    "a chunk with a bare line feed": (
        POST + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKED.replace(b"\r\n", b"\n", 1), 499,
    ),
    "a chunk whose size is none": (POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", 499),
    "a chunk below zero": (POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n0\r\n\r\n", 499),
    "a chunk beyond numbers": (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n", 499),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "status"), HEADS.values(), ids=HEADS.keys())
def test_a_head_is_answered_as_rfc_9112_has_it(strict: Server, sent: bytes, status: int | None) -> None:
    with Raw(strict) as raw:
        raw.send(sent)
        reply = raw.reply()
        assert (reply.status if reply else None) == status, reply
        if status != 200:
            assert raw.reply() is None, "what follows a head that is refused is not read"


@pytest.mark.parametrize("name", ["bare line feeds", "chunks and a length", "two hosts", "gzip and chunks"])
def test_a_pipelined_head_is_judged_like_the_first_one(strict: Server, name: str) -> None:
    sent, status = HEADS[name]
    first = POST + LENGTH_OF_BODY + b"\r\n" + BODY
    with Raw(strict) as raw:
        raw.send(first + sent)
        replies = [raw.reply() for _ in range(3)]
    assert [reply.status if reply else None for reply in replies] == [200, status, None]


def test_a_foreign_host_is_told_which_setting_would_allow_it(strict: Server) -> None:
    with Raw(strict) as raw:
        raw.send(GET + b"Host: evil.example\r\n\r\n")
        reply = raw.reply()
    assert reply is not None
    assert reply.error == "host 'evil.example' is not served here; to allow it, add it to the setting hosts"


def test_a_foreign_authority_is_refused_over_http_2_as_well(strict: Server) -> None:
    for path, fields in ((GRPC_LIVE, {}), ("/v2/health/live", {"content_type": "application/json"})):
        with Connection(strict) as connection:
            answer = connection.answer(connection.open(path, **{":authority": "evil.example"}, **fields))
        assert answer.status == 7 or answer.headers[":status"] == "421"
        if path == GRPC_LIVE:
            assert "hosts" in answer.message


def test_half_a_request_then_silence_is_answered_408_after_the_body_timeout(strict: Server, reference: Reference) -> None:
    with crowd(strict, "linear", reference, connections=2), Raw(strict) as raw:
        raw.send(raw_post("linear", b'{"inputs": [', length=500))
        reply = raw.reply()
    assert reply is not None
    assert reply.status == 408
    assert "500" in reply.error or "timeout" in reply.error or "body" in reply.error


def test_half_a_head_then_silence_ends_the_connection(strict: Server, reference: Reference) -> None:
    with crowd(strict, "linear", reference, connections=2), Raw(strict) as raw:
        raw.send(b"POST /v2/models/linear/infer HTTP/1.1\r\nHost: te")
        assert raw.reply() is None


def test_half_a_request_then_close_is_counted_as_abandoned(strict: Server, reference: Reference) -> None:
    before = settled(strict)
    with crowd(strict, "linear", reference, connections=2):
        with Raw(strict) as raw:
            raw.send(raw_post("linear", b'{"inputs": [', length=500))
        until(
            "the request is counted",
            lambda: metrics(strict).outcomes()["abandoned"] == before["abandoned"] + 1 or None,
        )
    settled(strict)


def test_pipelined_requests_are_answered_in_order(strict: Server) -> None:
    with Raw(strict) as raw:
        for number in range(5):
            body = json.dumps({**GOOD, "id": str(number)}).encode()
            raw.send(raw_post("linear", body))
        replies = [raw.reply() for _ in range(5)]
    assert [reply.json["id"] for reply in replies if reply] == ["0", "1", "2", "3", "4"]


def test_a_request_that_waits_past_its_deadline_is_refused_without_a_run(strict: Server) -> None:
    body = json.dumps(json_request(row("slow", 1))).encode()
    hurried = raw_post("slow", body, headers="x-request-timeout-ms: 5\r\n")
    with raws(strict, 8) as connections:  # one run takes longer than that, and there are two lanes
        for raw in connections:
            raw.send(hurried)
        replies = [reply for raw in connections if (reply := raw.reply())]
    assert len(replies) == 8
    assert {reply.status for reply in replies} <= {200, 504}
    late = [reply for reply in replies if reply.status == 504]
    assert late
    assert all("Deadline Exceeded" in reply.error for reply in late)


def test_after_all_this_the_counts_add_up(strict: Server) -> None:
    counts = settled(strict)
    assert counts["received"] == counts["answered"] + counts["refused"] + counts["failed"] + counts["abandoned"]


def test_a_body_that_cannot_be_parsed_is_counted_under_the_model_of_its_path(strict: Server) -> None:
    def faults(model: str) -> float:
        return metrics(strict).sum("flyball_faults_total", model=model, kind="malformed_request")

    before, nameless = faults("linear"), faults("")
    with Http(strict) as connection:
        assert connection.post(infer_path("linear"), b"{").status == 400
        assert connection.post(infer_path("nobody"), b"{").status == 400
    until("both are counted", lambda: (faults("linear"), faults("")) == (before + 1, nameless + 1) or None)
