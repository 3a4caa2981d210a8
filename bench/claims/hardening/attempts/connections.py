"""Connections: slow heads, full tables, half-open streams, hosts, line endings and codings, and h2spec."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import time
from pathlib import Path

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.raw_server import PREFACE, SETTINGS, frame, frames, head, run, serving

_HEADERS, _RST_STREAM, _PING = 1, 3, 6
_END_STREAM, _END_HEADERS = 1, 4
_REFUSED_STREAM = 7


def _held_s(connection: socket.socket, dribbled: bytes, at_most_s: float) -> float:
    """How long a connection is kept that sends a byte now and then."""
    began = time.monotonic()
    connection.settimeout(0.3)
    for byte in dribbled:
        if time.monotonic() - began > at_most_s:
            break
        try:
            connection.sendall(bytes([byte]))
            while True:
                if not connection.recv(65536):
                    return time.monotonic() - began
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - began
    return time.monotonic() - began


def _dribble(build: Build, folder: Path, sent: bytes, dribbled: bytes) -> Seen:
    with serving(build, folder, header_timeout_ms=1000, idle_timeout_ms=60_000) as server, server.connect() as connection:
        connection.sendall(sent)
        held = _held_s(connection, dribbled, 15.0)
        return Seen(f"kept for {held:.1f} s with header_timeout_ms 1000", holds=held < 8)


@attempt("An HTTP/2 preface that never ends is kept until the idle timeout")
def slow_http2_preface(build: Build, folder: Path) -> Seen:
    """The preface, then its first frame byte by byte."""
    return _dribble(build, folder, PREFACE, frame(4, 0, 0, bytes(6000)))


@attempt("HTTP/2 headers sent a byte now and then are kept until the idle timeout")
def slow_http2_headers(build: Build, folder: Path) -> Seen:
    """A block of headers that is begun and never ends."""
    begun = frame(_HEADERS, 0, 1, head("/v2"))
    endless = frame(9, 0, 1, bytes(2000))
    return _dribble(build, folder, PREFACE + SETTINGS + begun, endless)


@attempt("Idle connections at the limit keep everybody else out")
def idle_connections_fill_the_server(build: Build, folder: Path) -> Seen:
    """Eight idle connections where eight are allowed, then one more."""
    with serving(build, folder, connections_max=8) as server, contextlib.ExitStack() as held:
        for _ in range(8):
            idle = held.enter_context(server.connect())
            idle.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            idle.recv(4096)
        lives = server.lives()
        return Seen("the ninth connection " + ("is answered" if lives else "waits for 10 s in vain"), holds=lives)


@attempt("Half-open HTTP/2 streams of many connections take all memory")
def half_open_streams(build: Build, folder: Path) -> Seen:
    """30 connections with 1,000 streams each that never end."""
    with serving(build, folder, body_timeout_ms=60_000) as server, contextlib.ExitStack() as held:
        before = server.memory_bytes()
        for _ in range(30):
            connection = held.enter_context(server.connect())
            connection.sendall(PREFACE + SETTINGS)
            block = head("/v2/models/m/infer")
            for first in range(0, 1000, 100):
                numbers = range(2 * first + 1, 2 * first + 201, 2)
                connection.sendall(b"".join(frame(_HEADERS, _END_HEADERS, number, block) for number in numbers))
            connection.sendall(frame(_PING, 0, 0, bytes(8)))
            frames(connection, lambda kind, _stream, _payload: kind == _PING)
        grown = (server.memory_bytes() - before) / 1e6
        lives = server.lives()
        text = f"{grown:.0f} MB for 30,000 half-open streams; the server {'answers' if lives else 'does not answer'}"
        return Seen(text, holds=lives and grown < 250)


@attempt("Callers that have not shown who they are may open as many streams as anybody")
def streams_before_authentication(build: Build, folder: Path) -> Seen:
    """One connection without a key, 500 streams."""
    callers = folder / "callers.json"
    run([build.flyball, "caller", "add", "shop", "--callers", str(callers)], folder)
    with (
        serving(build, folder, callers=str(callers), allow_anonymous=False, body_timeout_ms=60_000) as server,
        server.connect() as connection,
    ):
        connection.sendall(PREFACE + SETTINGS)
        block = head("/v2/models/m/infer")
        connection.sendall(b"".join(frame(_HEADERS, _END_HEADERS, 2 * n + 1, block) for n in range(500)))
        connection.settimeout(5)
        got = frames(connection, lambda _kind, _stream, _payload: False)
        refused = {stream for kind, stream, payload in got if kind == _RST_STREAM and payload[3] == _REFUSED_STREAM}
        return Seen(f"{500 - len(refused)} of 500 streams were let in", holds=500 - len(refused) <= 100)


def _status(server_answer: bytes) -> str:
    found = re.match(rb"HTTP/1\.[01] (\d+)", server_answer)
    return found[1].decode() if found else "closed"


def _statuses(build: Build, folder: Path, requests: dict[str, bytes]) -> Seen:
    with serving(build, folder) as server:
        seen = {name: _status(server.ask(request, 3.0)) for name, request in requests.items()}
        lives = server.lives()
    text = ", ".join(f"{name}: {status}" for name, status in seen.items())
    return Seen(text, holds=lives and not any(status.startswith("2") for status in seen.values()))


_GET = b"GET /v2/health/live HTTP/1.1\r\n"


@attempt("A request may name no host, two hosts, or a foreign host on loopback (DNS rebinding)")
def hosts(build: Build, folder: Path) -> Seen:
    """Each would be answered as if it were from a page of this machine."""
    return _statuses(
        build,
        folder,
        {
            "missing": _GET + b"Connection: close\r\n\r\n",
            "duplicate": _GET + b"Host: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "foreign": _GET + b"Host: evil.example\r\nConnection: close\r\n\r\n",
            "foreign target": b"GET http://evil.example/v2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        },
    )


@attempt("A foreign :authority is served on loopback over HTTP/2")
def http2_hosts(build: Build, folder: Path) -> Seen:
    """The same by HTTP/2."""
    with serving(build, folder) as server, server.connect() as connection:
        block = head("/v2/health/live", "GET").replace(b"\tlocalhost", b"\x0cevil.example")
        connection.sendall(PREFACE + SETTINGS + frame(_HEADERS, _END_STREAM | _END_HEADERS, 1, block))
        got = frames(connection, lambda kind, stream, _payload: stream == 1 and kind in {_HEADERS, _RST_STREAM})
        answered = [payload for kind, stream, payload in got if stream == 1 and kind == _HEADERS]
        good = bool(answered) and answered[0][:1] == b"\x88"  # the table's ":status 200"
        return Seen("answered 200" if good else "refused", holds=bool(got) and not good)


@attempt("Bare line feeds end lines of a head, also of a pipelined one")
def bare_line_feeds(build: Build, folder: Path) -> Seen:
    """Proxies that split lines by CRLF alone see another request in the same bytes."""
    good = _GET + b"Host: localhost\r\n\r\n"
    pipelined = good + b"GET /v2/health/live HTTP/1.1\nHost: localhost\nConnection: close\n\n"
    with serving(build, folder) as server:
        alone = _status(server.ask(b"GET /v2/health/live HTTP/1.1\nHost: localhost\nConnection: close\n\n", 3.0))
        mixed = _status(server.ask(_GET + b"Host: localhost\nConnection: close\r\n\r\n", 3.0))
        answers = server.ask(pipelined, 3.0)
        second = _status(answers[answers.find(b"HTTP/1.1", 5) :]) if answers.find(b"HTTP/1.1", 5) > 0 else "closed"
    text = f"all lines: {alone}, one line: {mixed}, pipelined: {second}"
    return Seen(text, holds="200" not in {alone, mixed, second})


@attempt("Unknown transfer codings, and a coding beside a length, are accepted")
def transfer_codings(build: Build, folder: Path) -> Seen:
    """The body would be read otherwise than its sender meant it."""
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}).encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    post = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    return _statuses(
        build,
        folder,
        {
            "gzip, chunked": post + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked,
            "x, chunked": post + b"Transfer-Encoding: x, chunked\r\n\r\n" + chunked,
            "chunked twice": post + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
            "chunked and a length": post + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + chunked,
        },
    )


@attempt("h2spec fails 2 of its 145 cases")
def h2spec(build: Build, folder: Path) -> Seen:
    """The suite of RFC 9113's rules."""
    tool = os.environ.get("FLYBALL_H2SPEC") or shutil.which("h2spec")
    if tool is None:
        return Seen("not tried: h2spec is not installed; get it: make .parts/h2spec", holds=False)
    with serving(build, folder) as server:
        ended = run([tool, "-h", "127.0.0.1", "-p", str(server.port), "-P", "/v2"], folder, 180.0)
        lives = server.lives()
    found = re.findall(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", ended.stdout)
    if not found:
        return Seen(f"h2spec ended with {ended.returncode}: {ended.stdout[-200:]}{ended.stderr[-200:]}", holds=False)
    tests, passed, skipped, failed = map(int, found[0])
    text = f"{passed} of {tests} pass, {failed} fail, {skipped} skipped"
    return Seen(text, holds=lives and failed == 0 and skipped == 0 and tests >= 145)
