"""A small real server of the V2 protocol's binary extension, for the client's tests: echoes its inputs as outputs.

`script` holds what to answer instead, one entry a request; each is called with the handler.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = "Inference-Header-Content-Length"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: V2Server

    def do_GET(self):
        self.answer_scripted(b"")

    def do_POST(self):
        self.answer_scripted(self.rfile.read(int(self.headers["Content-Length"])))

    def answer_scripted(self, body):
        self.server.seen.append((self.path, dict(self.headers), body))
        if self.server.script:
            self.server.script.popleft()(self)
        elif self.command == "GET":
            self.answer(200, json.dumps(self.server.metadata).encode())
        else:
            self.echo(body)

    def echo(self, body):
        length = int(self.headers[LENGTH])
        request = json.loads(body[:length])
        outputs = request["inputs"]
        picked = [output["name"] for output in request.get("outputs", [])]
        raw = b""
        place = length
        kept = []
        for tensor in outputs:
            size = tensor["parameters"]["binary_data_size"]
            if not picked or tensor["name"] in picked:
                kept.append(tensor)
                raw += body[place : place + size]
            place += size
        answer = {"model_name": "m", "outputs": kept}
        if "id" in request:
            answer["id"] = request["id"]
        head = json.dumps(answer).encode()
        self.answer(200, head + raw, {LENGTH: str(len(head))})

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class V2Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: deque[Callable[[Handler], None]] = deque()
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.metadata: dict[str, Any] = {"name": "m", "versions": ["1"], "platform": "p", "inputs": [], "outputs": []}
        self.url = f"http://127.0.0.1:{self.server_port}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # a client that gave up is what some tests are about


def refusal(status, text, **headers):
    """A script entry that answers with an error."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.answer(status, json.dumps({"error": text}).encode(), named)
