"""Unix sockets: HTTP and gRPC, the file's mode and owner, what becomes of dead sockets, and several listeners at once."""

import contextlib
import json
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
import pytest

from tests.support import serving, snapshots
from tests.support.onnx_models import row
from tests.support.serving import Server, until
from tests.support.wire import Http, from_json, infer_path, json_request


@pytest.fixture
def command(model: Callable[[str], Path], tmp_path: Path) -> list[str]:
    index = snapshots.write(tmp_path / "snapshot", 1, [snapshots.deployment("linear", model("linear"))])
    return [*serving.flyballd(), "--snapshot", str(index)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "flyball.sock"


def unix(path: Path) -> httpx.Client:
    return httpx.Client(base_url="http://localhost", transport=httpx.HTTPTransport(uds=str(path)), timeout=60)


def test_http_and_grpc_are_served_on_a_unix_socket_that_is_gone_at_the_end(
    start: Callable[..., Server], command: list[str], path: Path
) -> None:
    server = start(*command, "--listen", f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with unix(path) as client:
        answer = client.post(infer_path("linear"), json=json_request(row("linear", 1)))
        assert answer.status_code == 200
        assert from_json(answer.json()["outputs"])
    # Without the option the path itself is sent as the authority, which is none: h2 refuses it, as it must.
    with grpc.insecure_channel(f"unix:{path}", [("grpc.default_authority", "localhost")]) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ServerLive")
        assert call(b"", timeout=60) == b"\x08\x01"
    assert server.stop().code == 0
    assert not path.exists()


def test_mode_and_owner_are_as_configured(start: Callable[..., Server], command: list[str], path: Path) -> None:
    config = path.with_suffix(".json")
    config.write_text(json.dumps({"unix_owner": f"{os.getuid()}:{os.getgid()}"}))
    start(*command, "--listen", f"unix:{path}", "--unix-mode", "660", "--config", config)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert (path.stat().st_uid, path.stat().st_gid) == (os.getuid(), os.getgid())


def test_a_dead_socket_is_replaced_and_a_live_one_is_not(
    start: Callable[..., Server], command: list[str], path: Path
) -> None:
    server = start(*command, "--listen", f"unix:{path}")
    ending = serving.run([*command, "--listen", f"unix:{path}"])
    assert ending.code == 3
    assert "in use" in ending.text
    server.kill()
    assert path.exists(), "nobody removes the file of a server that was killed"
    start(*command, "--listen", f"unix:{path}")
    with unix(path) as client:
        assert client.get("/v2/health/ready").status_code == 200


def test_of_two_servers_that_start_at_once_one_has_the_path_and_leaves_nothing_beside_it(
    command: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "sockets"
    folder.mkdir()
    path = folder / "flyball.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listening = [*command, "--listen", f"unix:{path}"]
    environment = serving.environment()
    starting = [subprocess.Popen(listening, env=environment, stderr=subprocess.DEVNULL) for _ in range(4)]
    try:
        until("only one is left", lambda: sum(process.poll() is None for process in starting) == 1 or None)
        assert [process.returncode for process in starting].count(3) == 3
        with unix(path) as client:
            until("it is ready", lambda: client.get("/v2/health/ready").status_code == 200 or None)
        assert [file.name for file in folder.iterdir()] == [path.name]
    finally:
        for process in starting:
            process.terminate()
            process.wait(serving.STOP_S)
    assert not list(folder.iterdir())


def test_a_file_that_is_no_socket_is_left_alone(command: list[str], path: Path) -> None:
    path.write_text("mine")
    ending = serving.run([*command, "--listen", f"unix:{path}"])
    assert ending.code == 3
    assert "a file that is not a socket exists there" in ending.text
    assert path.read_text() == "mine"


def test_one_server_listens_on_every_kind_of_address(start: Callable[..., Server], command: list[str], path: Path) -> None:
    server = start(*command, "--listen", f"unix:{path}", "--listen", "[::1]:0", "--listen", "127.0.0.1:0")
    assert server.host == "[::1]"
    assert server.also[0] == f"unix:{path}"
    for url in (f"http://[::1]:{server.port}", server.also[1]):
        assert httpx.get(f"{url}/v2/health/ready", timeout=60).status_code == 200
    with unix(path) as client:
        assert client.get("/v2/health/ready").status_code == 200


def test_a_unix_user_is_a_caller(start: Callable[..., Server], command: list[str], path: Path) -> None:
    file = path.with_suffix(".json")

    def write(uid: int) -> None:
        file.write_text(json.dumps({"callers": [{"name": "me", "uids": [uid], "may": ["infer"]}]}))

    write(os.getuid())
    config = path.with_name("config.json")
    config.write_text(json.dumps({"allow_anonymous": False}))
    start(*command, "--listen", f"unix:{path}", "--callers", file, "--config", config)
    with unix(path) as client:
        assert client.get("/v2").status_code == 200
        write(os.getuid() + 1)
        until("the new file is read", lambda: client.get("/v2").status_code == 401 or None)
        assert client.get("/v2/health/live").status_code == 200, "health is everybody's"


def test_a_peer_on_a_unix_socket_that_says_nothing_is_closed(
    start: Callable[..., Server], command: list[str], path: Path
) -> None:
    config = path.with_suffix(".json")
    config.write_text(json.dumps({"idle_timeout_ms": 400, "header_timeout_ms": 400}))
    server = start(*command, "--listen", f"unix:{path}", "--listen", "127.0.0.1:0", "--config", config)
    for sent in (b"", b"PR", b"POST /v2"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(path))
            connection.sendall(sent)
            with contextlib.suppress(ConnectionResetError):  # bytes were left unread
                while connection.recv(4096):
                    pass
    with Http(server) as connection_:
        connection_.infer("linear", row("linear", 1))
