"""HTTP requests to one server: bounded answers, bounded waits, no redirects to other hosts.

Credentials are sent to this server only. Must not know what is requested.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from flyball.errors import (
    FlyballError,
    InvalidInputError,
    NotFoundError,
    RefusedError,
    UnauthenticatedError,
    UnavailableError,
    UnreachableError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_TIMEOUT = urllib3.Timeout(connect=5.0, read=60.0)
# All requests are reads, so they may be retried, but not after an error status.
_RETRIES = urllib3.Retry(total=3, connect=3, read=2, redirect=0, status=0, other=0, backoff_factor=0.2)
_REDIRECTS_MAX = 3
_JSON_BYTES_MAX = 16 << 20
_CHUNK_BYTES = 1 << 20
_WORDS_MAX = 300


class Origin:
    """A server, by its base URL."""

    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, *, ca: str | None = None, sign_in: str = ""
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"{url!r} is not a server address", next_step="write it as  https://HOST:PORT")
        if parts.username or parts.password:
            raise UsageError("an address must not contain credentials", next_step=sign_in)
        self.url = url.rstrip("/")
        self._headers = dict(headers or {})
        self._sign_in = sign_in
        self._pool = urllib3.PoolManager(retries=_RETRIES, timeout=_TIMEOUT, ca_certs=ca)

    def is_here(self, url: str) -> bool:
        """Whether a URL is on this server."""
        return _origin(url) == _origin(self.url)

    def ask(self, path: str, /, **query: str) -> dict[str, Any]:
        """GET a JSON object."""
        with self._opened(path, query) as answer:
            content = answer.read(_JSON_BYTES_MAX + 1)
        if len(content) > _JSON_BYTES_MAX:
            raise InvalidInputError(f"{self.url}{path} answered with more than {_JSON_BYTES_MAX} bytes")
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise InvalidInputError(
                f"{self.url}{path} did not answer with a JSON object", next_step="is it the address of an API?"
            )
        return document

    def download(self, path: str, target: Path, bytes_max: int) -> int:
        """Download a path to a new file, up to a limit; returns its size."""
        size = 0
        with self._opened(path, {}) as answer, target.open("xb") as file:
            while piece := answer.read(_CHUNK_BYTES):
                size += len(piece)
                if size > bytes_max:
                    raise InvalidInputError(f"{self.url}{path} has more than {bytes_max} bytes", code="artifact_too_large")
                file.write(piece)
        return size

    @contextmanager
    def _opened(self, path: str, query: Mapping[str, str]) -> Iterator[urllib3.BaseHTTPResponse]:
        """A successful response with its body unread; raises otherwise."""
        answer = None
        try:
            answer = self._followed(self.url + quote(path) + (f"?{urlencode(query)}" if query else ""))
            if answer.status != 200:
                raise self._refusal(answer, path)
            yield answer
        except HTTPError as error:
            raise UnreachableError(
                f"{self.url} cannot be reached, or ended its answer too early: {error.__class__.__name__}",
                next_step="see that it runs and that this machine may reach it, then do the same again",
            ) from error
        finally:
            if answer is not None:
                answer.close()  # a partly read connection cannot be reused

    def _followed(self, url: str) -> urllib3.BaseHTTPResponse:
        for _ in range(_REDIRECTS_MAX):
            # `identity`: a compressed answer could be a thousand times larger than the counted bytes.
            headers = {**self._headers, "Accept-Encoding": "identity"}
            answer = self._pool.request("GET", url, headers=headers, redirect=False, preload_content=False)
            where = answer.headers.get("Location")
            if answer.status not in {301, 302, 303, 307, 308} or where is None:
                return answer
            answer.close()
            url = urljoin(url, where)
            if not self.is_here(url):
                raise RefusedError(
                    f"{self.url} redirects to {urlsplit(url).hostname}, which is not followed",
                    code="redirected",
                    next_step="name that server yourself if you trust it",
                )
        raise RefusedError(f"{self.url} redirects too often", code="redirected")

    def _refusal(self, answer: urllib3.BaseHTTPResponse, path: str) -> FlyballError:
        said = f"{self.url}{path} answered {answer.status}{_words(answer.read(64 << 10))}"
        if answer.status in {401, 403}:
            return UnauthenticatedError(said, next_step=self._sign_in)
        if answer.status == 404:
            return NotFoundError(said, code="not_found_there")
        if answer.status >= 500 or answer.status == 429:
            return UnavailableError(said, next_step="try again later")
        return InvalidInputError(said)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _words(content: bytes) -> str:
    """The message of an error's JSON, shortened; empty for HTML pages."""
    try:
        message = json.loads(content).get("message")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return f": {' '.join(message.split())[:_WORDS_MAX]}" if isinstance(message, str) and message else ""
