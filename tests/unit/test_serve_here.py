"""`flyball.serve`: a server in this process for notebooks, with a client of its own."""

from pathlib import Path

import numpy as np
import pytest

import flyball as fb
from tests.support import onnx_models
from tests.support.decision_folders import plain, plain_rows

ROW = {"card_id": "c", "amount": 1.0, "currency": "EUR", "country": "DE"}


@pytest.fixture
def spec(tmp_path):
    onnx_models.linear(tmp_path, "fraud")
    return plain(tmp_path)


def test_models_and_decisions_are_served_until_the_block_ends(spec):
    with fb.serve(spec.parent / "fraud.onnx", f"other={spec.parent / 'fraud.onnx'}", spec) as server:
        assert server.client.decide("plain", ROW).decision == "plain"
        for name in ("fraud", "other"):
            assert server.client.infer(name, np.zeros((2, 4), np.float32))
        assert repr(server) == f"<LocalServer {server.url}: fraud, other, plain>"
        with fb.Client(server.url.replace("http:", "grpc:")) as other:
            assert other.ready("plain")
    assert not fb.Client(server.url).live()
    assert repr(server) == "<LocalServer, closed>"


def test_a_decision_is_served_as_an_object_a_file_or_a_folder(spec):
    decision = fb.Decision.load(spec)
    spec.rename(spec.parent / "decision.yaml")
    for source in (decision, spec.parent / "decision.yaml", spec.parent):
        with fb.serve(source) as server:
            assert len(server.client.decide("plain", plain_rows(3))) == 3


def test_a_journal_that_is_named_is_kept(spec, tmp_path):
    with fb.serve(spec, journal_folder=tmp_path / "journal") as server:
        decided = server.client.decide("plain", ROW)
    from flyball.decision_log.read.records import find
    from flyball.native.journal import JournalLog

    assert find(JournalLog(tmp_path / "journal"), "last").decision.id == decided.id


def test_a_socket_is_an_address_too(spec):
    with fb.serve(spec, listen=f"unix:{spec.parent / 's'}", lanes=1) as server:
        assert server.url == f"unix:{spec.parent / 's'}"
        assert server.client.ready()


@pytest.mark.parametrize(
    ("sources", "settings", "words"),
    [
        ((), {}, "nothing to serve"),
        (("frau.onnx",), {}, "cannot read frau.onnx: no such file; did you mean 'fraud.onnx'?"),
        (("nowhere.yaml",), {}, "cannot read nowhere.yaml: no such file"),
        (("empty",), {}, "empty is a folder without decision.yaml"),
        (("fraud.onnx",), {"lane": 1}, r"lane: no such key; did you mean 'lanes'\?"),
        (("fraud.onnx",), {"lanes": 0}, "lanes: is 0, allowed: null, or a whole number, 1 to 256"),
        (("fraud.onnx",), {"listen": "0.0.0.0:0"}, "in Python:  callers=FILE  or  allow_anonymous=True"),
        (("fraud.onnx",), {"listen": "tls://127.0.0.1:0"}, "TLS, which flyball's client does not speak"),
        (("fraud.onnx",), {"listen": "nowhere"}, "host:port"),
    ],
)
def test_what_cannot_be_served_is_refused_in_plain_words(spec, monkeypatch, sources, settings, words):
    monkeypatch.chdir(spec.parent)
    Path("empty").mkdir()
    with pytest.raises(fb.FlyballError, match=words):
        fb.serve(*sources, **settings)
