"""Fixtures that every end-to-end test shares: test models, what ONNX Runtime answers for them, running servers."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from bench.parts.postgres import PostgresServer
from tests.support import external_servers, parts, serving
from tests.support import onnx_models as makers
from tests.support.serving import Server

# A shell starts background jobs with SIGINT ignored, and children inherit that: Ctrl-C would not end what is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "quick", max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "full", max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("full" if os.environ.get("FLYBALL_TESTS") == "full" else "quick")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was left out for want of a part is named at the end of every run."""
    reports = terminalreporter.getreports("skipped")
    if lines := parts.summary(report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)):
        terminalreporter.section("left out")
        for line in lines:
            terminalreporter.write_line(line)


Reference = Callable[[str, makers.Arrays], makers.Arrays]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the file of a test model by name; each is made once."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def made(name: str) -> Path:
        return {**makers.GOOD, **makers.BAD}[name](folder)

    return made


@pytest.fixture(scope="session")
def reference(model: Callable[[str], Path]) -> Reference:
    """What onnxruntime in Python answers, for this input alone."""
    import onnxruntime

    @cache
    def session(name: str) -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(str(model(name)), providers=["CPUExecutionProvider"])

    def answer(name: str, inputs: makers.Arrays) -> makers.Arrays:
        names = [output.name for output in session(name).get_outputs()]
        return dict(zip(names, session(name).run(names, inputs), strict=True))

    return answer


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Starts a server by its command line and stops it after the test, whatever happens."""
    running: list[Server] = []

    def started(*command: str | Path, cwd: Path | None = None) -> Server:
        running.append(Server([str(part) for part in command], cwd))
        return running[-1]

    yield started
    for server in running:
        server.kill()


@pytest.fixture
def serve(start: Callable[..., Server], model: Callable[[str], Path]) -> Callable[..., Server]:
    """`flyball serve` with test models by name, on a free port."""

    def started(*names: str, more: tuple[str, ...] = ()) -> Server:
        paths = [str(model(name)) for name in names]
        return start(*serving.flyball(), "serve", *paths, "--listen", "127.0.0.1:0", *more)

    return started


@pytest.fixture(scope="session")
def house(model: Callable[[str], Path]) -> Iterator[Server]:
    """One server with every good model, shared by the tests that only read from it."""
    paths = [str(model(name)) for name in makers.GOOD]
    with serving.serving([*serving.flyball(), "serve", *paths, "--listen", "127.0.0.1:0"]) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests of a process that only ask it for new databases."""
    with external_servers.postgres() as server:
        yield server
