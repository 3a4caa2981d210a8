"""Accesses the objects of one bucket through obstore: path style, bounded waits, clear errors.

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
"""Limit of retries against an unresponsive store; ten retries may end sooner."""
REQUEST_TIMEOUT = timedelta(seconds=60)
_SMALL_BYTES = 4096
_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """An existing object."""

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
            raise UsageError("s3:// requires the name of a bucket", next_step="write  s3://BUCKET/PREFIX")
        if not any(os.environ.get(name) for name in _CREDENTIALS):
            # Without this the client would query a metadata service that most machines lack, and wait for it.
            raise UsageError(
                f"no credentials for s3://{bucket} in the environment",
                next_step="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; they are never read from a file",
            )
        endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        self._where = f"s3://{bucket}/{prefix}".rstrip("/") + (f" at {endpoint}" if endpoint else "")
        self._obstore: Any = obstore
        location: dict[str, Any] = {"endpoint": endpoint} if endpoint else {}
        if region:
            location["region"] = region
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
            **location,
        )
        self.patience_s = patience_s

    def __str__(self) -> str:
        return self._where

    def create(self, key: str, content: bytes) -> bool:
        """Create an object unless it exists; returns whether it did."""
        with self._readable_errors("write"):
            try:
                self._obstore.put(self._store, key, content, mode="create")
            except self._obstore.exceptions.AlreadyExistsError:
                return False
            return True

    def replace(self, key: str, content: bytes, e_tag: str | None) -> bool:
        """Replace the object if it still has this tag; returns whether it did."""
        if e_tag is None:
            return False
        with self._readable_errors("write"):
            try:
                self._obstore.put(self._store, key, content, mode={"e_tag": e_tag})
            except (self._obstore.exceptions.PreconditionError, FileNotFoundError):
                return False
            return True

    def write(self, key: str, parts: Iterable[bytes]) -> None:
        """Create an object from parts; it becomes visible only after the last."""
        with self._readable_errors("write"):
            self._obstore.put(self._store, key, iter(parts), chunk_size=8 << 20, max_concurrency=2)

    def part(self, key: str, start: int, end: int) -> bytes:
        """A byte range of an object."""
        with self._readable_errors("read"):
            return bytes(self._obstore.get_range(self._store, key, start=start, end=end))

    def head(self, key: str) -> ObjectMeta | None:
        """An object's metadata; None if it does not exist."""
        with self._readable_errors("read"):
            try:
                found = self._obstore.head(self._store, key)
            except FileNotFoundError:
                return None
            return ObjectMeta(found["size"], found["last_modified"], found["e_tag"])

    def small(self, key: str) -> tuple[ObjectMeta, bytes] | None:
        """A small object with its metadata, read consistently; None if it does not exist."""
        with self._readable_errors("read"):
            try:
                answer = self._obstore.get(self._store, key, options={"range": (0, _SMALL_BYTES)})
            except FileNotFoundError:
                return None
            meta = answer.meta
            return ObjectMeta(meta["size"], meta["last_modified"], meta["e_tag"]), bytes(answer.bytes())

    def list(self, prefix: str) -> Iterator[tuple[str, int, datetime]]:
        """The key, size and time of every object under a prefix."""
        with self._readable_errors("list"):
            for chunk in self._obstore.list(self._store, prefix):
                for found in chunk:
                    yield found["path"], found["size"], found["last_modified"]

    def delete(self, key: str) -> None:
        """Delete an object, if it exists."""
        with self._readable_errors("remove from"):
            try:
                self._obstore.delete(self._store, key)
            except FileNotFoundError:
                return

    @contextmanager
    def _readable_errors(self, act: Literal["read", "write", "list", "remove from"]) -> Iterator[None]:
        """Turn client errors into errors with the bucket and a next step."""
        errors = self._obstore.exceptions
        try:
            yield
        except FlyballError:
            raise
        except FileNotFoundError as error:
            raise ArtifactRefusedError(
                f"cannot {act} {self._where}: {_first_line(error)}",
                code="artifact_absent",
                next_step="check that the bucket exists, and that nobody removes objects from it",
            ) from error
        except (errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
            raise ArtifactsUnavailableError(
                f"no permission to {act} {self._where}: {_first_line(error)}",
                code="artifacts_forbidden",
                next_step="check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and their permissions on the bucket",
            ) from error
        except (errors.BaseError, OSError, ValueError) as error:
            raise ArtifactsUnavailableError(
                f"cannot {act} {self._where}: {_first_line(error)}",
                next_step="check that it runs, then retry: nothing is lost",
            ) from error


def _backoff(patience_s: float) -> Any:
    return {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=max(patience_s / 5, 0.1)),
        "base": 2,
    }


def _first_line(error: Exception) -> str:
    """The client's errors include pages of debugging output."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
