"""Parts of a registry are killed under servers that follow it: who asks those never notices, and who acts is told.

`make claim-registry ONLY=parts` does the same many times over.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.claims.registry import people as governed
from bench.claims.registry.clerk import Clerk
from bench.claims.registry.outages import NAME, SIZES, Outage, Outages
from bench.parts.s3 import BUCKET, REGION
from flyball.bench.models.perceptron import make_mlp
from flyball.bench.process import Process
from flyball.registry.home import RegistrySettings
from tests.support import external_servers, serving

RATE_PER_S = 100.0


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def people(folder: Path, stack: ExitStack, settings: RegistrySettings) -> governed.People:
    """A registry with a version in production."""
    made = governed.People(folder / "people", settings)
    stack.callback(made.registry.close)
    made.promote(made.version(NAME, make_mlp(folder / "first.onnx", SIZES)))
    return made


def outages(found: governed.People, plane: Process, stack: ExitStack) -> Outages:
    return Outages(found, stack.enter_context(Clerk()), [plane], rate_per_s=RATE_PER_S, cpus=None, seed=1)


@pytest.mark.timeout(120)
def test_postgresql_killed_in_the_midst_of_a_promotion_is_told_to_who_acts_and_not_noticed_by_who_asks(
    tmp_path: Path, stack: ExitStack
) -> None:
    database = stack.enter_context(external_servers.postgres())
    registry = people(tmp_path, stack, RegistrySettings(database=database.new_database()))
    plane = stack.enter_context(governed.serving(registry, None))
    registry.promote(registry.version(NAME, make_mlp(tmp_path / "second.onnx", SIZES, seed=2)), ("dev", "staging"))
    suffering = outages(registry, plane, stack)
    outage = Outage(database, "promote production", back_soon=False, artifacts=False)
    suffering.suffer(outage, ("promote production",), version=2)
    found, (window,) = suffering.found, suffering.found.outage
    assert found.wrong == []
    assert window.answered == window.sent > 0, window.first_problem
    assert {"register, exit 5", "status, exit 5"} <= found.failed.keys()
    assert all("cannot be reached" in words for words in found.words)
    placed = {one.environment: one.version for one in registry.registry.status(NAME).placements}
    assert placed["production"] == 2, "and it was done when the database was back"


@pytest.mark.timeout(180)  # who writes to a store that does not answer asks it again for a while
def test_a_rollback_while_the_artifacts_are_away_is_done_and_served_and_a_registration_is_told(
    tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = stack.enter_context(external_servers.s3(tmp_path / "s3"))
    for name, value in objects.credentials.items():
        monkeypatch.setenv(name, value)
    place = {"artifacts_endpoint": objects.endpoint, "artifacts_region": REGION}
    registry = people(tmp_path, stack, RegistrySettings(artifacts=f"s3://{BUCKET}/registry", **place))
    flyballd = Path(serving.flyballd()[0])
    plane = stack.enter_context(governed.controlled(registry, flyballd, None))
    suffering = outages(registry, plane, stack)
    suffering.suffer(Outage(objects, "rollback", back_soon=False, artifacts=True))
    found, (window,) = suffering.found, suffering.found.outage
    assert found.wrong == []
    assert window.answered == window.sent > 0, window.first_problem
    assert found.failed.keys() == {"register, exit 5"}
    assert all("nothing is lost" in words for words in found.words)
    assert found.answered["rollback"] == 1  # it needs no artifact, so nothing could keep it from being answered
