"""The bare server that the generator is measured against, in this process and as a command."""

import http.client
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from flyball.bench.process import Process
from flyball.errors import RefusedError
from flyball.native.load import Echo
from flyball.native.load_documents import EchoOptions

COMMAND = [sys.executable, "-m", "flyball.bench.echo"]


def ask(url, body=None):
    """The status and the text of one answer; without a body it is a GET."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    try:
        connection.request("GET" if body is None else "POST", "/v2/models/any/infer", body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_id_comes_back_and_answers_have_the_length_that_was_asked_for():
    echo = Echo(EchoOptions(reply_bytes=40))
    assert ask(echo.url(), '{"id":"7","inputs":[]}') == (200, '{"id":"7"}'.ljust(40))
    assert ask(echo.url()) == (200, '{"id":""}'.ljust(40))
    echo.stop()
    with pytest.raises(ConnectionRefusedError):
        ask(echo.url())


def test_options_that_make_no_sense_are_refused_with_what_is_missing():
    with pytest.raises(RefusedError, match="stall_ms needs stall_every_s"):
        Echo(EchoOptions(stall_ms=5))
    with pytest.raises(RefusedError, match="cannot listen on nowhere"):
        Echo(EchoOptions(listen="nowhere"))


def test_the_command_says_where_it_listens_and_ends_well_on_a_signal():
    with Process([*COMMAND, "--reply-bytes", "20"]) as echo:
        assert ask(echo.url, '{"id":"1"}') == (200, '{"id":"1"}'.ljust(20))
        assert echo.stop() == 0


def test_the_command_says_why_it_cannot_start():
    done = subprocess.run([*COMMAND, "--listen", "nowhere"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (RefusedError.exit_code, "")
    assert "cannot listen on nowhere" in done.stderr
