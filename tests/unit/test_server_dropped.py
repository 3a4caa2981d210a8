"""Dropping a server that still drains: the thread that loads may want the GIL while the server waits for that thread."""

import subprocess
import sys

SCRIPT = """
import socket, threading, time
from flyball.documents.config.server import ServerConfig
from flyball.documents.snapshot import compile_models
from flyball.native.server import Server

asked, dropping = threading.Event(), threading.Event()

def on_load(name, config, serves):
    asked.set()
    dropping.wait()  # gives the GIL away, and wants it back when the server is being dropped

config = ServerConfig(listen=["127.0.0.1:0"], log="error", unsigned="allow", allow_model_control=True)
server = Server(config, compile_models([]).to_bytes(), on_load)
host, port = server.addresses()[0].split(":")
with socket.create_connection((host, int(port))) as client:
    client.sendall(b"POST /v2/repository/models/m/load HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 0\\r\\n\\r\\n")
    assert asked.wait(60)
server.drain()
assert not server.wait(0.3)  # the drain waits for the thread that loads
threading.Timer(0.3, dropping.set).start()
del server
print("ended")
"""


def test_a_server_that_is_dropped_while_it_drains_and_loads_comes_to_an_end() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=110, check=False)
    assert (ended.stdout, ended.returncode) == ("ended\n", 0), ended.stderr
