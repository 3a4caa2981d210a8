"""Sends requests for decisions sequentially on each connection. Must not know what is claimed."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Request:
    """A body and the key of its retries."""

    body: bytes
    key: str | None = None


class Asking:
    """One connection to one decision."""

    def __init__(self, url: str, decision: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_S)
        self._path = f"/v1/decisions/{decision}"

    def ask(self, request: Request) -> dict[str, Any]:
        """The answer, which must be a decision."""
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": request.key} if request.key else {})}
        self._connection.request("POST", self._path, request.body, headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise FlyballError(f"{self._path} answered {answer.status}: {body[:300]!r}")
        decided: dict[str, Any] = json.loads(body)
        return decided

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def one_row(row: Mapping[str, object], key: str | None = None) -> Request:
    """A request for one row."""
    return Request(json.dumps({"input": row}).encode(), key)


def ask_all(url: str, decision: str, groups: Sequence[Sequence[Request]]) -> list[list[dict[str, Any]]]:
    """Each group on a connection of its own, its requests in order; the groups at once."""

    def asked(group: Sequence[Request]) -> list[dict[str, Any]]:
        asking = Asking(url, decision)
        try:
            return [asking.ask(request) for request in group]
        finally:
            asking.close()

    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(asked, groups))
