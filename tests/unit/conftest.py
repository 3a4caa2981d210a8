"""Fixtures that several unit tests share."""

import io
import sys

import pytest

from flyball.cli import app as cli
from tests.support import onnx_models


@pytest.fixture
def here(monkeypatch, tmp_path):
    """The working directory, with two models in it."""
    monkeypatch.chdir(tmp_path)
    onnx_models.linear(tmp_path, "a", seed=1)
    onnx_models.linear(tmp_path, "b", seed=2)
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys):
    """The command line in this process: its exit code, and what it wrote to either stream."""

    def call(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["flyball", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, errors = capsys.readouterr()
        return caught.value.code or 0, out, errors

    return call


@pytest.fixture(params=["home", "http"])
def shell(request, tmp_path, run, monkeypatch):
    """The command line, with a registry of its own: in a folder, and behind HTTP."""
    from tests.support import registry_homes
    from tests.support.registry_shell import Shell

    house = registry_homes.make(tmp_path)
    if request.param == "home":
        yield Shell(house, str(house.home), run, monkeypatch)
        return
    with registry_homes.admin(house) as running:
        yield Shell(house, running.url, run, monkeypatch)
