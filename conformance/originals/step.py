"""The words of the suites' tables: a suite, a step of it, a server's start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from conformance.originals.repository import Repositories

NAMESPACE = "--listen 127.0.0.1:8000 --listen 127.0.0.1:8001 --listen 127.0.0.1:8002"
"""The ports of Triton's defaults: HTTP, gRPC, metrics. Here each serves all three."""

SETTINGS = {"server_name": "triton", "triton_statuses": True}
"""The server's settings that have no flag: the suites compare the server's name and its statuses."""


@dataclass(frozen=True, slots=True)
class Step:
    """Test cases that share the start of a server."""

    file: str
    """The suite's test file."""
    models: Callable[[Repositories], None]
    """Fills the suite's folder with the repositories that its `test.sh` would copy there."""
    flags: str = "--model-repository models"
    """The counterparts of the suite's server flags."""
    cases: tuple[str, ...] = ()
    """`Class` or `Class.test`, of a program patterns of tests; none: every case of the file."""
    environment: Mapping[str, str] = field(default_factory=dict)
    fresh: bool = False
    """Each case has a server and a repository of its own."""
    arguments: str | None = None
    """The file is an example of the client repository, run with these arguments; it is the only case."""
    built: bool = False
    """The file is a program of a client in another language (see `languages`), not a script."""
    says: str = ""
    """What the case must print; its exit code is then not compared, as in the suite."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of the server for which flyball has no flag."""
    limit_s: int = 180
    """After this time the case fails."""
    label: str = ""
    """What tells this step's cases from others of the same name: a protocol, say."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One of Triton's suites: its folder and its steps."""

    name: str
    folder: str
    steps: tuple[Step, ...]

    @property
    def has_cases(self) -> bool:
        """Its folder's own test files are the suite, not examples or programs of the client repository."""
        return any(step.arguments is None and not step.built for step in self.steps)
