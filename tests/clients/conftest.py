"""One server for the tests of our client, and a client of each protocol."""

from collections.abc import Iterator

import pytest

import flyball
from tests.support.serving import PATIENCE_MS, Server
from tests.support.shop import SCHEMES, served


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Models and a decision on one server."""
    yield from served(tmp_path_factory.mktemp("shop"))


@pytest.fixture(params=SCHEMES)
def client(request: pytest.FixtureRequest, shop: Server) -> Iterator[flyball.Client]:
    with flyball.Client(f"{request.param}://{shop.address}", deadline_ms=PATIENCE_MS) as made:
        yield made
