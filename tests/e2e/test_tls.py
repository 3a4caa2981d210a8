"""TLS and mutual TLS: HTTP and gRPC on one port, certificates that change under a running server, peers that dawdle."""

import contextlib
import json
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.support import serving, snapshots
from tests.support.certificates import Authority, Pair
from tests.support.onnx_models import row
from tests.support.serving import Server, until
from tests.support.wire import from_json, infer_path, json_request

Start = Callable[..., Server]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.sign_server()


@pytest.fixture
def secure(start: Start, model: Callable[[str], Path], tmp_path: Path) -> Callable[..., Server]:
    """flyballd with one model, on TLS alone."""
    index = snapshots.write(tmp_path / "snapshot", 1, [snapshots.deployment("linear", model("linear"))])

    def started(pair: Pair, *more: str | Path, **settings: Any) -> Server:
        config = tmp_path / "config.json"
        config.write_text(json.dumps(settings))
        flags = ("--listen", "tls://127.0.0.1:0", "--tls-cert", pair.cert, "--tls-key", pair.key, "--config", config)
        return start(*serving.flyballd(), "--snapshot", index, *flags, *more)

    return started


def trusting(authority: Authority, client: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.cert))
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    return context


def handshake(server: Server, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection((server.host, server.port), 10)
    return context.wrap_socket(plain, server_hostname="localhost")


def https(server: Server, context: ssl.SSLContext) -> httpx.Client:
    return httpx.Client(base_url=f"https://{server.address}", verify=context, timeout=10)


def infer(client: httpx.Client, headers: dict[str, str] | None = None) -> httpx.Response:
    return client.post(infer_path("linear"), json=json_request(row("linear", 1)), headers=headers)


def metrics_line(client: httpx.Client, name: str) -> str | None:
    lines = client.get("/metrics").text.splitlines()
    return next((line for line in lines if line.startswith(name)), None)


@contextlib.contextmanager
def channel(server: Server, authority: Authority, client: Pair | None = None) -> Iterator[grpc.Channel]:
    key, cert = (client.key.read_bytes(), client.cert.read_bytes()) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes(), key, cert)
    with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials) as opened:
        yield opened


def live(opened: grpc.Channel) -> bytes:
    call = opened.unary_unary("/inference.GRPCInferenceService/ServerLive")
    return bytes(call(b"", timeout=10))


def test_http_and_grpc_are_served_on_one_tls_port(
    secure: Callable[..., Server], authority: Authority, pair: Pair, reference: Callable[..., Any]
) -> None:
    server = secure(pair)
    with https(server, trusting(authority)) as client:
        answer = infer(client)
        assert answer.status_code == 200
        (name, wanted), *_ = reference("linear", row("linear", 1)).items()
        assert from_json(answer.json()["outputs"])[name].tolist() == wanted.tolist()
    with channel(server, authority) as opened:
        assert live(opened) == b"\x08\x01"


@pytest.mark.parametrize(("offered", "agreed"), [(["h2"], "h2"), (["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "h2")])
def test_the_protocol_is_agreed_on_in_the_handshake(
    secure: Callable[..., Server], authority: Authority, pair: Pair, offered: list[str], agreed: str
) -> None:
    server = secure(pair)
    context = trusting(authority)
    context.set_alpn_protocols(offered)
    with handshake(server, context) as connection:
        assert connection.selected_alpn_protocol() == agreed


def test_a_client_without_a_certificate_is_turned_away_where_one_is_asked_for(
    secure: Callable[..., Server], authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    server = secure(pair, "--tls-client-ca", authority.cert)
    good, strange = authority.sign("good", "DNS:good"), Authority(tmp_path, "strange").sign("bad", "DNS:good")
    for client in (None, strange):
        with pytest.raises(httpx.TransportError), https(server, trusting(authority, client)) as connection:
            connection.get("/v2/health/live")
    with https(server, trusting(authority, good)) as connection:
        assert infer(connection).status_code == 200
        assert metrics_line(connection, "flyball_tls_handshakes_failed_total ") != "flyball_tls_handshakes_failed_total 0"
    with channel(server, authority, good) as opened:
        assert live(opened) == b"\x08\x01"


def test_a_certificate_that_is_replaced_is_used_by_new_connections_and_old_ones_live_on(
    secure: Callable[..., Server], authority: Authority, tmp_path: Path
) -> None:
    used = Pair(tmp_path / "cert.pem", tmp_path / "key.pem")

    def put(pair: Pair) -> None:
        for source, target in ((pair.key, used.key), (pair.cert, used.cert)):
            shutil.copy(source, target.with_suffix(".new"))
            target.with_suffix(".new").replace(target)

    put(authority.sign_server("first"))
    server = secure(used)
    with https(server, trusting(authority)) as old:
        assert old.get("/v2/health/live").status_code == 200
        before = shown(server, authority)
        put(authority.sign_server("second"))
        until("the new certificate is shown", lambda: shown(server, authority) != before or None)
        assert old.get("/v2/health/live").status_code == 200
        used.cert.write_text("nothing")
        until("the refusal is counted", lambda: metrics_line(old, 'flyball_tls_reloads_total{outcome="refused"} 1'))
        assert infer(old).status_code == 200
    assert shown(server, authority) != before
    assert server.log_line(lambda line: "the last ones stay" in str(line))["level"] == "ERROR"


def shown(server: Server, authority: Authority) -> bytes:
    """The certificate that a new connection is shown."""
    with handshake(server, trusting(authority)) as connection:
        return connection.getpeercert(binary_form=True) or b""


def test_the_metrics_say_when_the_certificate_expires(
    secure: Callable[..., Server], authority: Authority, pair: Pair
) -> None:
    server = secure(pair)
    wanted = ssl.cert_time_to_seconds(str(decoded(server, authority)["notAfter"]))
    with https(server, trusting(authority)) as client:
        assert metrics_line(client, "flyball_tls_not_after_seconds ") == f"flyball_tls_not_after_seconds {wanted}"


def decoded(server: Server, authority: Authority) -> dict[str, Any]:
    with handshake(server, trusting(authority)) as connection:
        return dict(connection.getpeercert() or {})


@pytest.mark.parametrize("fault", ["expired", "another's key", "no key", "no certificate"])
def test_a_server_does_not_start_with_a_pair_that_nobody_could_use(
    model: Callable[[str], Path], authority: Authority, pair: Pair, tmp_path: Path, fault: str
) -> None:
    used = {
        "expired": lambda: authority.sign("old", "DNS:localhost", days=-1),
        "another's key": lambda: Pair(pair.cert, authority.sign_server("other").key),
        "no key": lambda: Pair(pair.cert, tmp_path / "missing"),
        "no certificate": lambda: Pair(pair.key, pair.key),
    }[fault]()
    index = snapshots.write(tmp_path / "snapshot", 1, [snapshots.deployment("linear", model("linear"))])
    flags = ["--listen", "tls://127.0.0.1:0", "--tls-cert", str(used.cert), "--tls-key", str(used.key)]
    ending = serving.run([*serving.flyballd(), "--snapshot", str(index), *flags])
    assert ending.code == 3
    assert {"expired": "renew it", "no key": "missing"}.get(fault, "certificate") in ending.text


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_handshake_that_dawdles_or_is_none_gives_its_place_back(
    secure: Callable[..., Server], authority: Authority, pair: Pair, sent: bytes
) -> None:
    server = secure(pair, header_timeout_ms=400, connections_max=4)
    held = [socket.create_connection((server.host, server.port), 10) for _ in range(4)]
    for connection in held:
        connection.sendall(sent)
    for connection in held:
        with connection, contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass
    with https(server, trusting(authority)) as client:
        assert infer(client).status_code == 200


def test_handshakes_that_dawdle_hold_up_no_other_on_their_lane(
    secure: Callable[..., Server], authority: Authority, pair: Pair
) -> None:
    server = secure(pair, lanes=1, header_timeout_ms=60_000)
    with contextlib.ExitStack() as held:
        for place in range(24):
            connection = held.enter_context(socket.create_connection((server.host, server.port), 10))
            # Half of them say nothing, and half never answer the server's signature.
            if place % 2:
                connection.sendall(hello(authority))
                assert connection.recv(1)
        with https(server, trusting(authority)) as client:
            assert infer(client).status_code == 200


def hello(authority: Authority) -> bytes:
    """What a client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting(authority).wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def test_a_caller_is_known_by_the_name_in_its_certificate(
    secure: Callable[..., Server], authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    file = tmp_path / "callers.json"
    file.write_text(
        json.dumps({"callers": [{"name": "checkout", "sans": ["spiffe://shop/checkout"], "may": ["infer", "metrics"]}]})
    )
    settings: dict[str, Any] = {"allow_anonymous": False}
    server = secure(pair, "--tls-client-ca", authority.cert, "--callers", file, **settings)
    known = authority.sign("known", "URI:spiffe://shop/checkout")
    other = authority.sign("other", "URI:spiffe://shop/other", "DNS:checkout")
    with https(server, trusting(authority, other)) as client:
        refused = infer(client)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
    with https(server, trusting(authority, known)) as client:
        assert infer(client).status_code == 200
        wanted = 'flyball_caller_requests_total{caller="checkout",outcome="answered"} 1'
        until("the walk is counted", lambda: metrics_line(client, wanted))
