"""Runs load with progress, and measures cold starts to the first correct answer."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flyball.errors import FlyballError
from flyball.native.load import LoadRun
from flyball.native.load_documents import LoadPlan, LoadResult

if TYPE_CHECKING:
    from collections.abc import Callable

_POLL_S = 0.1
_FIRST_ANSWER_S = 60.0
_RETRY_S = 0.002
_SHOWN_BYTES = 200


def run_load(plan: LoadPlan, payloads: bytes, progress: Callable[[float, int], None] | None = None) -> LoadResult:
    """Run a load to its end; `progress` gets elapsed seconds and finished requests. Ctrl-C ends it early."""
    run = LoadRun(plan, payloads)
    try:
        while not run.finished():
            if progress is not None:
                progress(*run.progress())
            time.sleep(_POLL_S)
    except BaseException:
        run.stop()
        raise
    return run.result()


def first_answer(url: str, model: str, payload: bytes, *, started: float, path: str | None = None) -> float:
    """Seconds from `started` (time.perf_counter) to the first correct answer to a payload; `path` as in a plan.

    A payload without outputs accepts any V2 answer. A wrong answer, or one that is not V2, fails at once.
    """
    document = json.loads(payload)
    body = json.dumps({"id": "first", "inputs": document["inputs"]}).encode()
    address = urlsplit(url).netloc
    while True:
        connection = http.client.HTTPConnection(address, timeout=5)
        try:
            connection.request("POST", path or f"/v2/models/{model}/infer", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status == 200:
                came = time.perf_counter()
                outputs = _outputs_of(url, text)
                if document["outputs"] is not None:
                    check_answer(document["outputs"], outputs)
                return came - started
            problem = f"{answer.status} {text[:_SHOWN_BYTES]!r}"
        except OSError as error:
            problem = str(error)
        except http.client.HTTPException as error:
            problem = f"not HTTP: {error!r}"
        finally:
            connection.close()
        if time.perf_counter() - started >= _FIRST_ANSWER_S:
            raise FlyballError(f"no correct answer from {url} within {_FIRST_ANSWER_S:g} s: {problem}")
        time.sleep(_RETRY_S)


def _outputs_of(url: str, text: bytes) -> list[dict[str, Any]]:
    """The outputs of a V2 answer, each with a name and data."""
    try:
        outputs = json.loads(text)["outputs"]
        for output in outputs:
            output["name"], output["data"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise FlyballError(
            f"{url} returned an answer without outputs: {text[:_SHOWN_BYTES]!r}",
            next_step="check that it speaks the V2 protocol there",
        ) from error
    return list(outputs)


def check_answer(expected: list[dict[str, Any]], got: list[dict[str, Any]]) -> None:
    """Raise unless the outputs are equal as float32, in any JSON notation of the same number."""
    by_name = {output["name"]: output for output in got}
    for output in expected:
        other = by_name.get(output["name"])
        if other is None or not _same(output["data"], other["data"]):
            raise FlyballError(f"output {output['name']!r} is {other and other['data']}, expected {output['data']}")


def _same(expected: list[Any], got: object) -> bool:
    import numpy as np

    if expected and isinstance(expected[0], float):
        try:
            return np.array_equal(np.array(expected, np.float32), np.array(got, np.float32))
        except (ValueError, TypeError):  # text, or lists of different lengths
            return False
    return expected == got
