"""Callers who ask for decisions as fast as they are answered, and remember what they were told and when.

They end when told to, or when the server is gone. Must not know what is claimed.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from bench.claims.journal import specs

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Told:
    """What the callers of one decision heard: ids with the time of the answer, and refusals by their code."""

    decided: dict[bytes, float] = field(default_factory=dict)
    refused: list[tuple[int, dict[str, Any]]] = field(default_factory=list)


class Callers:
    """Some callers for each decision, at once; leaving ends them."""

    def __init__(self, url: str, decisions: Sequence[str], each: int) -> None:
        self.told = {decision: Told() for decision in decisions}
        self._url, self._stop = urlsplit(url).netloc, threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(decision, number * 1000))
            for number, decision in enumerate(list(decisions) * each)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No further question; waits for the answers to the last ones."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, decision: str, number: int) -> None:
        told = self.told[decision]
        connection = http.client.HTTPConnection(self._url, timeout=_TIMEOUT_S)
        try:
            while not self._stop.is_set():
                number += 1
                body = json.dumps({"input": specs.row(number)}).encode()
                connection.request("POST", f"/v1/decisions/{decision}", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                content = json.loads(answer.read())
                if answer.status == 200:
                    told.decided[uuid.UUID(content["id"]).bytes] = time.monotonic()
                else:
                    told.refused.append((answer.status, content))
        except (OSError, http.client.HTTPException, ValueError):
            return  # the server is gone, perhaps in the middle of an answer
        finally:
            connection.close()
