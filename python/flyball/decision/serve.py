"""`flyball.serve`: models and decisions served by this process, for notebooks and tests.

`flyball serve` is the command for everything else: a process of its own, with signals, reloads and logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flyball.decision.compile.bundle import bundle_of
from flyball.decision.decision import Decision
from flyball.decision.local import LocalServer
from flyball.documents.near_files import no_such_file
from flyball.documents.snapshot import ModelSource
from flyball.errors import FlyballError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPECS = (".yaml", ".yml")
_IN_FOLDER = "decision.yaml"


def serve(
    *sources: str | Path | Decision,
    listen: str = "127.0.0.1:0",
    journal_folder: str | Path | None = None,
    deadline_ms: float = 10_000,
    **settings: object,
) -> LocalServer:
    """Serve models and decisions in this process; use it in a `with`, or close it.

        with flyball.serve("fraud.onnx", "card-fraud.yaml") as server:
            server.client.decide("card-fraud", {"card_id": "c-1", "amount": 12.5})
            print(server.url)  # for other programs on this machine

    A source is an ONNX file or NAME=FILE, a `Decision` or its YAML file, or a folder of `flyball convert`. Port 0 picks a
    free port. `settings` are further keys of the server configuration, such as `lanes=1`.
    """
    if not sources:
        raise UsageError("nothing to serve", next_step='name a model or a decision:  flyball.serve("fraud.onnx")')
    if listen.startswith("tls://"):
        raise UsageError(
            f"listen: {listen!r} has TLS, which flyball's client does not speak",
            next_step="serve it from a shell:  flyball serve MODEL.onnx --listen tls://HOST:PORT --tls-cert FILE …",
        )
    decisions, models = _split(sources)
    if journal_folder is not None:
        settings["journal_folder"] = str(journal_folder)
    needs_journal = any(one.spec.record or one.spec.expose for one in decisions)
    bundle = bundle_of([one.check().compiled for one in decisions], models)
    try:
        return LocalServer(
            bundle, deadline_ms=deadline_ms, journal=needs_journal and journal_folder is None, listen=listen, **settings
        )
    except FlyballError as error:
        if "--callers" in error.message:  # the server names the flags of its command
            error.next_step = "in Python:  callers=FILE  or  allow_anonymous=True"
        raise


def _split(sources: Sequence[str | Path | Decision]) -> tuple[list[Decision], list[str]]:
    """Decisions and models; raises for a file that does not exist."""
    decisions: list[Decision] = []
    models: list[str] = []
    for source in sources:
        if isinstance(source, Decision):
            decisions.append(source)
            continue
        path = Path(source)
        if path.is_dir() and (path / _IN_FOLDER).is_file():
            path = path / _IN_FOLDER
        if path.suffix in _SPECS:
            decisions.append(Decision.load(path))
            continue
        file = ModelSource.from_argument(str(source)).path or path
        if not file.is_file():
            found = (
                f"{file} is a folder without {_IN_FOLDER}" if file.is_dir() else f"cannot read {file}: {no_such_file(file)}"
            )
            raise UsageError(found, next_step="give an ONNX file, or a decision in YAML")
        models.append(str(source))
    return decisions, models
