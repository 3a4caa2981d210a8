"""`Decision`: written in YAML or Python, checked with faults at their lines, and run in this process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from flyball.decision.display import spec_text
from flyball.decision.spec.faults import Origin
from flyball.decision.spec.read import read_spec, read_text, validated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.client import Decided, DecidedRow
    from flyball.decision.compile.check import Checked
    from flyball.decision.local import LocalServer
    from flyball.decision.spec.spec import Spec
    from flyball.documents.snapshot import Bundle
    from flyball.errors import LineFault


class Decision:
    """Named fields in, a governed decision out.

        fraud = flyball.Decision.load("card-fraud.yaml").with_(slo=flyball.SLO(p99="4ms"))
        fraud.check()
        fraud.decide({"card_id": "c-1", "amount": 12.5, "currency": "EUR"}).outcome

    Keyword arguments are the keys of the YAML, with the same shorthands. Paths are relative to `base`.
    """

    def __init__(self, *, base: str | Path = ".", **parts: Any) -> None:
        self._begin(validated(_unwrapped(parts), Origin()), Path(base), Origin())

    def _begin(self, spec: Spec, base: Path, origin: Origin) -> None:
        self.spec = spec
        self.base = base
        self._origin = origin
        self._lock = threading.Lock()
        self._server: LocalServer | None = None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load from a YAML or JSON file. Raises with all faults of its structure; `check` finds all others."""
        path = Path(path)
        return cls._of(*read_spec(path), path.parent)

    @classmethod
    def from_yaml(cls, text: str, *, base: str | Path = ".") -> Self:
        """Load from YAML text."""
        return cls._of(*read_text(text, Path("decision.yaml")), Path(base))

    @classmethod
    def _of(cls, spec: Spec, origin: Origin, base: Path) -> Self:
        decision = cls.__new__(cls)
        decision._begin(spec, base, origin)
        return decision

    @property
    def name(self) -> str:
        """The name that callers use."""
        return self.spec.decision

    def with_(self, **parts: Any) -> Self:
        """A copy with some keys replaced."""
        kept = {name: getattr(self.spec, name) for name in self.spec.model_fields_set}
        whole = {**kept, **_unwrapped(parts)}
        return self._of(validated(whole, self._origin), self._origin, self.base)

    def check(self) -> Checked:
        """Compile and check it without running it; raises with every fault and its line."""
        from flyball.decision.compile.check import check

        return check(self.spec, self.base, self._origin)

    def warnings(self, file: str | Path = "SPEC") -> list[LineFault]:
        """Warnings about valid but surprising settings, with lines; `file` is its name in suggested commands."""
        from flyball.decision.compile.warnings import warnings_of

        return warnings_of(self.spec, self.check().compiled, self._origin, file)

    def bundle(self) -> Bundle:
        """A Snapshot that serves only this decision."""
        from flyball.decision.compile.bundle import bundle_of

        return bundle_of([self.check().compiled])

    def decide(
        self,
        input: Mapping[str, object],  # noqa: A002 - the API's own name
        *,
        idempotency_key: str | None = None,
        explain: bool = False,
        timings: bool = False,
    ) -> Decided:
        """Decide in this process with the server's code; the first call starts a local server."""
        return self._running().client.decide(
            self.name, input, idempotency_key=idempotency_key, explain=explain, timings=timings
        )

    def decide_rows(self, rows: Sequence[Mapping[str, object]], *, explain: bool = False) -> list[DecidedRow]:
        """Decide up to 1024 rows; one that cannot be decided has its own fault."""
        return self._running().client.decide_rows(self.name, rows, explain=explain)

    def to_yaml(self) -> str:
        """YAML that loads as an equal decision."""
        from flyball.decision.spec.write import yaml_of

        return yaml_of(self.spec)

    def close(self) -> None:
        """Stop the local server; `decide` starts it again."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def _running(self) -> LocalServer:
        with self._lock:
            if self._server is None:
                from flyball.decision.local import LocalServer

                self._server = LocalServer(self.bundle(), journal=bool(self.spec.record or self.spec.expose))
            return self._server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_server", None) is not None:
            self.close()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decision) and self.spec == other.spec

    def __hash__(self) -> int:
        return hash(self.to_yaml())

    def __repr__(self) -> str:
        return f"<Decision {spec_text(self.spec)}>"

    def _repr_html_(self) -> str:
        return self.spec._repr_html_()


def _unwrapped(parts: dict[str, Any]) -> dict[str, Any]:
    """Remove keys that are None: they are omitted, as in YAML."""
    return {name: value for name, value in parts.items() if value is not None}
