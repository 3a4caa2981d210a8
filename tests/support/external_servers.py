"""Third-party servers for tests, each of them a part that `parts.py` names."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench.parts.postgres import PostgresServer, running
from bench.parts.redis import RedisServer
from bench.parts.s3 import S3Server
from tests.support.parts import needing


@contextlib.contextmanager
def postgres() -> Iterator[PostgresServer]:
    with contextlib.ExitStack() as stack:
        with needing("postgres"):
            server = stack.enter_context(running())
        yield server


@contextlib.contextmanager
def s3(folder: Path) -> Iterator[S3Server]:
    with needing("s3"):
        server = S3Server(folder)
    try:
        yield server
    finally:
        server.kill()


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[RedisServer]:
    with needing("redis"):
        server = RedisServer(folder)
    try:
        yield server
    finally:
        server.kill()
