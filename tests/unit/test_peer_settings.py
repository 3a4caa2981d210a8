"""How peers are started: their settings as words and flags, the ones that are tried, and the fastest of them."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from bench.peers import peers
from bench.peers.peers import PEERS, Setting, fastest, running_version, settings, version
from flyball.bench.models.perceptron import make_mlp
from flyball.errors import FlyballError
from tests.support.peer_modules import common, module

NAMED = {peer.name: peer for peer in PEERS}


@pytest.mark.parametrize(
    ("setting", "words", "flags"),
    [
        (Setting(1), "", []),
        (Setting(1, 1), "no batching", ["--max-batch", "1"]),
        (
            Setting(2, 8, delay_us=100),
            "batches up to 8, waiting 100 µs, 2 workers",
            ["--max-batch", "8", "--delay-us", "100"],
        ),
        (Setting(1, style="orjson, def"), "orjson, def", ["--style", "orjson, def"]),
        (Setting(1, grpc=True), "", ["--grpc"]),
    ],
)
def test_a_setting_is_words_for_people_and_flags_for_serve_py(setting, words, flags):
    assert (setting.words, setting.flags) == (words, flags)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_serve_py_reads_back_every_setting_that_is_tried(peer, monkeypatch):
    serving = common("serving")
    for setting in settings(peer, 2, grpc=True):
        monkeypatch.setattr(sys, "argv", peers.command(peer, "fraud=m.onnx", setting)[1:])
        read = serving.arguments()
        assert Setting(read.workers, read.max_batch, read.grpc, read.style, read.delay_us) == setting


def test_triton_is_tried_with_batches_delays_and_another_number_of_instances():
    tried = settings(NAMED["triton"], 1)
    assert {(way.max_batch, way.delay_us) for way in tried if way.workers == 1} == {
        (1, 0),
        (8, 0),
        (8, 100),
        (32, 0),
        (32, 100),
    }
    assert {(way.workers, way.max_batch) for way in tried if way.workers != 1} == {(2, 1), (2, 32)}
    assert {way.workers for way in settings(NAMED["triton"], 4)} == {4, 1}
    assert all(way.grpc for way in settings(NAMED["triton"], 1, grpc=True))


def test_fastapi_is_tried_with_two_codecs_on_the_loop_and_in_the_thread_pool():
    assert {way.style for way in settings(NAMED["fastapi"], 1)} == {
        "orjson, def",
        "orjson, async def",
        "msgspec, def",
        "msgspec, async def",
    }


@pytest.mark.parametrize("name", ["asgi", "lleaves", "tl2cgen"])
def test_the_bare_application_is_tried_with_and_without_batches(name):
    assert [way.max_batch for way in settings(NAMED[name], 1)] == [1, 32]


def test_an_unknown_json_codec_is_an_error():
    with pytest.raises(ValueError, match="unknown JSON codec 'orsjon'; allowed: orjson, msgspec"):
        common("json_codecs").codec("orsjon")


# The fastest.


def test_a_setting_that_fails_is_told_and_the_others_are_tried():
    rates = {"a": 10.0, "c": 30.0, "d": 20.0}
    reasons = []

    def rate(way):
        if way.style not in rates:
            raise FlyballError("it did not start")
        return rates[way.style]

    best, found = fastest([Setting(1, style=style) for style in "abcd"], rate, reasons.append)
    assert (best.style, found) == ("c", rates)
    assert reasons == ["b: it did not start"]


def test_a_peer_of_which_no_setting_works_is_an_error_with_every_reason():
    def rate(way):
        raise FlyballError(f"no {way.style}")

    with pytest.raises(FlyballError, match="a: no a; b: no b"):
        fastest([Setting(1, style=style) for style in "ab"], rate, list)


# Triton.


@pytest.fixture
def answering():
    """A server that gives one body to every request."""
    servers = []

    def start(body):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_tritons_version_is_the_one_that_its_server_states(answering, monkeypatch):
    monkeypatch.delenv("TRITON_BACKEND_DIR", raising=False)
    monkeypatch.setattr(peers, "BUILT_BACKENDS", peers.ROOT / "absent")
    url = answering(b'{"name":"triton","version":"2.51.0"}')
    assert running_version(NAMED["triton"], url) == "2.51.0, Python backend"
    assert running_version(NAMED["asgi"], "http://nowhere") == version(NAMED["asgi"])


@pytest.mark.parametrize("body", [b"{}", b"busy"])
def test_a_triton_that_states_no_version_is_an_error(answering, body):
    with pytest.raises(FlyballError, match="states no version"):
        running_version(NAMED["triton"], answering(body))


@pytest.mark.parametrize(
    ("max_batch", "delay_us", "line"),
    [
        (8, 100, "dynamic_batching { max_queue_delay_microseconds: 100 }"),
        (None, 0, "dynamic_batching { max_queue_delay_microseconds: 0 }"),
        (1, 0, None),
    ],
)
def test_tritons_configuration_has_the_delay_of_its_batches(tmp_path, max_batch, delay_us, line, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytriton", module_without_server(tmp_path))
    common("onnx_model")
    serve = module(peers.ROOT / "triton" / "serve.py", "peer_triton_serve")
    serving = common("serving").Serving(
        "mlp", str(make_mlp(tmp_path / "m.onnx")), 1, workers=2, max_batch=max_batch, delay_us=delay_us
    )
    config = serve._config(serving, onnx=True)
    assert f"max_batch_size: {max_batch or 32}" in config
    assert "instance_group [ { kind: KIND_CPU count: 2 } ]" in config
    assert [one for one in config.splitlines() if one.startswith("dynamic_batching")] == ([line] if line else [])


def module_without_server(folder):
    """A stand-in for the package pytriton, of which only the place is used here."""
    made = type(sys)("pytriton")
    made.__file__ = str(folder / "__init__.py")
    return made
