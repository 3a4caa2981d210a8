"""Checks that the peers work here:  python -m bench.peers.check [NAME…]  (ALL=1: also those outside the default)

Installs each, starts it on one core with a small model in each setting that is measured, and compares the answers to
200 requests bit for bit. It measures nothing that should be quoted.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from bench.environments import Installed
from bench.peers.peers import Peer, Setting, choose, install, payloads_for, running_version, serving, settings, version
from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.payloads import make_payloads
from flyball.bench.process import split_cpus
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODEL = "fraud"
_REQUESTS = 200
_CONNECTIONS = 8
_DTYPES = {"FP32": np.float32, "INT64": np.int64}


def main(names: Sequence[str]) -> int:
    """Check each peer; 0 if all of them work."""
    peers = choose(names, every=bool(os.environ.get("ALL")))
    with tempfile.TemporaryDirectory() as folder:
        model = make_fraud_gbdt(Path(folder) / "fraud.onnx", trees=30)
        payloads = make_payloads(model, _REQUESTS, seed=1, rows=lambda count: fraud_rows(count, seed=1)[0])
        work = [_check(peer, setting, model, payloads) for peer in peers for setting in settings(peer, 1)]
    return 0 if all(work) else 1


def _named(peer: Peer, setting: Setting) -> str:
    return f"{peer.name} ({setting.words})" if setting.words else peer.name


def _check(peer: Peer, setting: Setting, model: Path, payloads: bytes) -> bool:
    title = f"{_named(peer, setting)} {version(peer)}"
    installed = install(peer)
    if not isinstance(installed, Installed):
        print(f"{title}: not installed: {installed}", flush=True)
        return False
    asked = time.perf_counter()
    try:
        with serving(peer, f"{_MODEL}={model}", setting, split_cpus()[0][:1]) as server:
            ready_s = time.perf_counter() - asked
            title = f"{_named(peer, setting)} {running_version(peer, server.url)}"
            path = peer.path.format(model=_MODEL)
            outcomes = _ask_all(server.url, path, payloads_for(peer, payloads).splitlines())
            memory_mib = server.memory_bytes() / 2**20
    except FlyballError as error:
        print(f"{title}: installed in {installed.seconds:.1f} s, did not start: {error}", flush=True)
        return False
    right = outcomes.pop("right", 0)
    print(
        f"{title}: installed in {installed.seconds:.1f} s, ready after {ready_s:.1f} s, "
        f"{right} right, {outcomes.total()} wrong, {memory_mib:.0f} MiB of memory",
        *(f"    {count} × {problem}" for problem, count in outcomes.most_common(3)),
        sep="\n",
        flush=True,
    )
    return right == len(payloads.splitlines())


def _ask_all(url: str, path: str, lines: Sequence[bytes]) -> Counter[str]:
    """What became of each request, over a few connections at once."""
    outcomes: Counter[str] = Counter()

    def ask_share(first: int) -> None:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        for number in range(first, len(lines), _CONNECTIONS):
            outcomes[_ask(connection, path, str(number), json.loads(lines[number]))] += 1
        connection.close()

    threads = [threading.Thread(target=ask_share, args=(first,)) for first in range(_CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _ask(connection: http.client.HTTPConnection, path: str, name: str, payload: dict[str, Any]) -> str:
    body = json.dumps({"id": name, "inputs": payload["inputs"]}).encode()
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return f"{type(error).__name__}: {error}"
    if response.status != 200:
        return f"{response.status}: {answer[:200]!r}"
    return difference(json.loads(answer), name, payload["outputs"]) or "right"


def difference(answer: dict[str, Any], name: str, expected: Sequence[dict[str, Any]]) -> str | None:
    """What is wrong with an answer, if anything; numbers are compared as the bits that the model gave."""
    if answer.get("id") != name:
        return f"id {answer.get('id')!r} for request {name!r}"
    given = {output["name"]: output for output in answer.get("outputs", ())}
    for wanted in expected:
        output = given.get(wanted["name"])
        if output is None:
            return f"no output {wanted['name']!r}"
        if (output["datatype"], list(output["shape"])) != (wanted["datatype"], wanted["shape"]):
            return f"{wanted['name']!r} is {output['datatype']} {output['shape']}, expected {wanted}"
        dtype = _DTYPES[wanted["datatype"]]
        if np.array(output["data"], dtype).tobytes() != np.array(wanted["data"], dtype).tobytes():
            return f"{wanted['name']!r} is {output['data']}, expected {wanted['data']}"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
