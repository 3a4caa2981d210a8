"""Third-party servers for tests: skipped if missing, unless the environment requires them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.parts.here import NotHereError
from bench.parts.postgres import PostgresServer, running
from bench.parts.redis import RedisServer
from bench.parts.s3 import S3Server


@contextlib.contextmanager
def postgres() -> Iterator[PostgresServer]:
    with _needing("POSTGRES"), running() as server:
        yield server


@contextlib.contextmanager
def s3(folder: Path) -> Iterator[S3Server]:
    with _needing("VERSITYGW"):
        server = S3Server(folder)
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[RedisServer]:
    with _needing("REDIS"):
        server = RedisServer(folder)
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def _needing(part: str) -> Iterator[None]:
    try:
        yield
    except NotHereError as error:
        missing = pytest.fail if f"FLYBALL_{part}_REQUIRED" in os.environ else pytest.skip
        missing(str(error))
