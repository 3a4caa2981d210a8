"""HTTP callers in a closed loop that record every answer with its time.

Shared by the claims and the tests. Must not know what is asked, nor what is claimed.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Question = tuple[str, bytes]
    """A path, and the body to post."""

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """When it was sent, when the answer came, and the answer; no status: the connection broke, or it was not JSON."""

    asked: float
    came: float
    status: int | None
    content: dict[str, Any]


class Callers:
    """Each on its own connection, until that breaks; leaving stops them."""

    def __init__(self, url: str, questions: Sequence[Callable[[int], Question]], timeout_s: float = _TIMEOUT_S) -> None:
        """`questions`: each caller's request by number, from 1."""
        self.answers: list[list[Answer]] = [[] for _ in questions]
        self._host, self._stop, self._timeout_s = urlsplit(url).netloc, threading.Event(), timeout_s
        self._threads = [threading.Thread(target=self._ask, args=pair) for pair in zip(questions, self.answers, strict=True)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def all(self, since: float = 0.0) -> list[Answer]:
        """The answers of all callers so far, to requests from then on."""
        return [answer for answers in self.answers for answer in list(answers) if answer.asked >= since]

    def _ask(self, question: Callable[[int], Question], answers: list[Answer]) -> None:
        connection = http.client.HTTPConnection(self._host, timeout=self._timeout_s)
        number = 0
        status: int | None = 0
        while status is not None and not self._stop.is_set():
            number += 1
            path, body = question(number)
            asked = time.monotonic()
            status, content = _post(connection, path, body)
            answers.append(Answer(asked, time.monotonic(), status, content))
        connection.close()


def _post(connection: http.client.HTTPConnection, path: str, body: bytes) -> tuple[int | None, dict[str, Any]]:
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        return None, {}
    return answer.status, content
