"""Objects of one bucket through obstore: path style, bounded waits, and errors in words that help.

Must not know what the objects are.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from flyball.errors import ArtifactRefusedError, ArtifactsUnavailableError, FlyballError, UsageError, needing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

PATIENCE_S = 20
"""How long a store that does not answer is asked again, at the most: ten times may be over sooner."""
REQUEST_TIMEOUT = timedelta(seconds=60)
_SMALL_BYTES = 4096
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


@dataclass(frozen=True, slots=True)
class Found:
    """An object that is there."""

    size: int
    touched: datetime
    e_tag: str | None


class Bucket:
    """The objects under a prefix of a bucket."""

    def __init__(self, bucket: str, *, prefix: str, endpoint: str | None, region: str | None, patience_s: float) -> None:
        with needing("artifacts in s3:// need obstore", extra="registry"):
            import obstore
            from obstore.store import S3Store
        if not bucket:
            raise UsageError("s3:// needs the name of a bucket", next_step="write  s3://BUCKET/PREFIX")
        if not any(os.environ.get(name) for name in _CREDENTIALS):
            # Without this the client would ask a metadata service that most machines do not have, and wait for it.
            raise UsageError(
                f"there are no credentials for s3://{bucket} in the environment",
                next_step="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; they are never read from a file",
            )
        endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        self._where = f"s3://{bucket}/{prefix}".rstrip("/") + (f" at {endpoint}" if endpoint else "")
        self._obstore: Any = obstore
        places: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
        if region:
            places["region"] = region
        self._store: Any = S3Store(
            bucket,
            prefix=prefix.strip("/") or None,
            virtual_hosted_style_request=False,
            client_options={
                "allow_http": bool(endpoint and endpoint.startswith("http://")),
                "connect_timeout": timedelta(seconds=5),
                "timeout": REQUEST_TIMEOUT,
            },
            retry_config={
                "max_retries": 10,
                "retry_timeout": timedelta(seconds=patience_s),
                "backoff": _backoff(patience_s),
            },
            **places,
        )
        self.patience_s = patience_s

    def __str__(self) -> str:
        return self._where

    def create(self, key: str, content: bytes) -> bool:
        """Makes an object where there is none; says whether it did."""
        with self._telling("write"):
            try:
                self._obstore.put(self._store, key, content, mode="create")
            except self._obstore.exceptions.AlreadyExistsError:
                return False
            return True

    def replace(self, key: str, content: bytes, e_tag: str | None) -> bool:
        """Replaces the object that was found under this tag; says whether it was still that one."""
        if e_tag is None:
            return False
        with self._telling("write"):
            try:
                self._obstore.put(self._store, key, content, mode={"e_tag": e_tag})
            except (self._obstore.exceptions.PreconditionError, FileNotFoundError):
                return False
            return True

    def write(self, key: str, parts: Iterable[bytes]) -> None:
        """Makes an object of parts, of which nobody sees anything before the last is there."""
        with self._telling("write"):
            self._obstore.put(self._store, key, iter(parts), chunk_size=8 << 20, max_concurrency=2)

    def part(self, key: str, start: int, end: int) -> bytes:
        """Some bytes of an object."""
        with self._telling("read"):
            return bytes(self._obstore.get_range(self._store, key, start=start, end=end))

    def head(self, key: str) -> Found | None:
        """What is known of an object; none: there is none."""
        with self._telling("read"):
            try:
                found = self._obstore.head(self._store, key)
            except FileNotFoundError:
                return None
            return Found(found["size"], found["last_modified"], found["e_tag"])

    def small(self, key: str) -> tuple[Found, bytes] | None:
        """A small object whole, with what is known of it, as of one moment; none: there is none."""
        with self._telling("read"):
            try:
                answer = self._obstore.get(self._store, key, options={"range": (0, _SMALL_BYTES)})
            except FileNotFoundError:
                return None
            meta = answer.meta
            return Found(meta["size"], meta["last_modified"], meta["e_tag"]), bytes(answer.bytes())

    def list(self, prefix: str) -> Iterator[tuple[str, int, datetime]]:
        """The key, size and time of every object under a prefix."""
        with self._telling("list"):
            for chunk in self._obstore.list(self._store, prefix):
                for found in chunk:
                    yield found["path"], found["size"], found["last_modified"]

    def delete(self, key: str) -> None:
        """Removes an object; there being none is no fault."""
        with self._telling("remove from"):
            try:
                self._obstore.delete(self._store, key)
            except FileNotFoundError:
                return

    @contextmanager
    def _telling(self, act: Literal["read", "write", "list", "remove from"]) -> Iterator[None]:
        """Turns what the client says into an error that names the bucket and the next step."""
        said = self._obstore.exceptions
        try:
            yield
        except FlyballError:
            raise
        except FileNotFoundError as error:
            raise ArtifactRefusedError(
                f"cannot {act} {self._where}: {_first_line(error)}",
                code="artifact_absent",
                next_step="see that the bucket is there, and that nobody removes objects from it",
            ) from error
        except (said.PermissionDeniedError, said.UnauthenticatedError) as error:
            raise ArtifactsUnavailableError(
                f"{self._where} does not let us {act} it: {_first_line(error)}",
                code="artifacts_forbidden",
                next_step="check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what they may do with the bucket",
            ) from error
        except (said.BaseError, OSError, ValueError) as error:
            raise ArtifactsUnavailableError(
                f"cannot {act} {self._where}: {_first_line(error)}",
                next_step="see that it runs, then do the same again: nothing is lost",
            ) from error


def _backoff(patience_s: float) -> Any:
    return {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=max(patience_s / 5, 0.1)),
        "base": 2,
    }


def _first_line(error: Exception) -> str:
    """The client's errors go on for pages of debugging output."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
