"""A file of weights beside a model is a plain file, on every way by which a model is read; links are never followed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flyball.documents.config.server import ServerConfig
from flyball.documents.snapshot import compile_models, pack_models
from flyball.errors import FlyballError
from flyball.native import models as native_models
from flyball.native import server as native_server
from flyball.registry.packages.pack import Contents, pack
from tests.support import onnx_models

WEIGHTS = "external-weights.bin"


def linked(folder: Path) -> Path:
    """A model whose weights are a link to a file elsewhere."""
    for inner in ("made", "elsewhere"):
        (folder / inner).mkdir(parents=True)
    path = onnx_models.external(folder / "made")
    (folder / "made" / WEIGHTS).rename(folder / "elsewhere" / "secret")
    (folder / "made" / WEIGHTS).symlink_to(folder / "elsewhere" / "secret")
    return path


WAYS: dict[str, Callable[[Path, Path], object]] = {
    "inspect": lambda path, _: native_models.inspect(path),
    "scan": lambda path, _: native_models.scan_model(path),
    "digests": lambda path, _: native_models.model_files(path),
    "serve": lambda path, _: compile_models([str(path)]),
    "snapshot": lambda path, folder: pack_models([str(path)], folder / "packed"),
    "register": lambda path, folder: pack(Contents("m", "ada", model=path), folder / "package"),
    "register a folder": lambda path, folder: pack(Contents("m", "ada", folder=path.parent), folder / "package"),
    "a copy": lambda path, folder: native_models.copy_external_data(path, WEIGHTS, folder / "copied"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_weights_behind_a_link_are_refused(way: Callable[[Path, Path], object], tmp_path: Path) -> None:
    path = linked(tmp_path)
    with pytest.raises(FlyballError, match="is a link"):
        way(path, tmp_path)
    assert not list(tmp_path.rglob("copied"))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_pipe_for_weights_is_refused_and_nobody_waits_for_it(way: Callable[[Path, Path], object], tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    path = onnx_models.external(tmp_path / "made")
    (tmp_path / "made" / WEIGHTS).unlink()
    os.mkfifo(tmp_path / "made" / WEIGHTS)
    with pytest.raises(FlyballError, match="not a plain file"):
        way(path, tmp_path)


def test_a_link_that_takes_the_place_of_weights_after_they_were_compiled_is_refused_by_the_server(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    path = onnx_models.external(tmp_path / "made")
    bundle = compile_models([str(path)])
    (tmp_path / "made" / WEIGHTS).rename(tmp_path / "secret")
    (tmp_path / "made" / WEIGHTS).symlink_to(tmp_path / "secret")
    config = ServerConfig(listen=["127.0.0.1:0"], unsigned="allow", log="error")
    server = native_server.Server(config, bundle.to_bytes())
    try:
        (ack,) = server.acks()
        assert ack.state == "refused"
        assert "is a link" in (ack.reason or "")
    finally:
        server.drain()
        server.wait(60)


def test_a_model_behind_a_link_of_its_owner_s_is_served_with_the_weights_beside_the_link(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    path = onnx_models.external(tmp_path / "made")
    (tmp_path / "current").symlink_to(tmp_path / "made")
    assert native_models.model_files(tmp_path / "current" / path.name).external_data[0].name == WEIGHTS
