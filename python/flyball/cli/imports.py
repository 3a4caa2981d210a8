"""`flyball import`: registers models from an MLflow server or a Triton model repository.

With `--serve` this process also serves the newest version of each, unsigned: to try a model, not to deploy it.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.listen_options import Listen
from flyball.cli.option import AsJson, argument, option, with_options
from flyball.cli.output import printed_as_json
from flyball.cli.registry.card_options import CARD_OPTIONS, card_of
from flyball.cli.registry.options import WHERE, By, Reason, Where, actor, behind_http, opened
from flyball.cli.registry.text import next_step, say, short, size, waits_for
from flyball.cli.repository import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flyball.registry.acts.interface import Acting
    from flyball.registry.imports.found import Found
    from flyball.registry.views import VersionDetail

imports = typer.Typer(
    no_args_is_help=True,
    help=(
        "Import models from MLflow or from a Triton model repository.\n\n"
        "    flyball import mlflow models:/fraud/3\n\n"
        "    flyball import triton model_repository"
    ),
)

_Serve = Annotated[
    bool, option("Then serve it from here, unsigned, to try it; creates a registry if there is none.", "--serve")
]
_Named = Annotated[str | None, option("Its name in the registry; by default its name in MLflow.", "--name", metavar="NAME")]


@imports.command()
@with_options(CARD_OPTIONS)
def mlflow(
    uri: Annotated[str, argument("models:/NAME/3 or models:/NAME@ALIAS.", metavar="URI")],
    tracking: Annotated[str | None, option("The MLflow server.", metavar="URL", envvar="MLFLOW_TRACKING_URI")] = None,
    name: _Named = None,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    serve: _Serve = False,
    listen: Listen = None,
    json: AsJson = False,
    **card: Any,
) -> None:
    """Import one version of a model from an MLflow server: its ONNX file, weights, and its run's lineage.

    Only the ONNX flavour is supported: others run Python code when they are loaded.

        flyball import mlflow models:/fraud@champion --tracking https://mlflow.example.com
    """
    from flyball.registry.imports.mlflow import fetch

    with _open_or_create(registry, create=serve) as home, tempfile.TemporaryDirectory(prefix="flyball-mlflow-") as scratch:
        found = fetch(uri, Path(scratch), tracking=tracking)
        imported = _register([found], home, card, by=by, name=name, reason=reason)
    _report(imported, [found], json=json)
    if serve:
        _serve(imported, registry, listen)


@imports.command()
@with_options(CARD_OPTIONS)
def triton(
    repository: Annotated[Path, argument("The repository: one directory per model.", metavar="DIR")],
    model: Annotated[str | None, option("Only this model; by default all.", metavar="MODEL")] = None,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    serve: _Serve = False,
    listen: Listen = None,
    json: AsJson = False,
    **card: Any,
) -> None:
    """Import the models of a Triton model repository: every version that Triton would serve, oldest first.

    flyball import triton models/ --model fraud
    """
    from flyball.registry.imports.triton import find

    found, report = find(repository, model)
    with _open_or_create(registry, create=serve) as home:
        imported = _register(found, home, card, by=by, name=None, reason=reason)
    if not json:
        show(report)
    _report(imported, found, json=json)
    if serve:
        _serve(imported, registry, listen)


@contextmanager
def _open_or_create(where: str, *, create: bool) -> Iterator[Acting]:
    """Open the registry before anything is fetched; with `create`, make it if it does not exist."""
    from flyball.registry.home import FILE, Home

    if create and not behind_http(where) and not Path(where, FILE).exists():
        Home.create(Path(where))
    with opened(where) as home:
        yield home


def _register(
    found: Sequence[Found], home: Acting, given: dict[str, str | None], *, by: str | None, name: str | None, reason: str
) -> list[VersionDetail]:
    from flyball.registry.imports.found import take

    acting, card = actor(by), card_of(None, given)
    receipts = [take(one, home, actor=acting, card=card, name=name, reason=reason) for one in found]
    return [home.show(f"{receipt.event.name}@{receipt.version}") for receipt in receipts]


def _report(imported: Sequence[VersionDetail], found: Sequence[Found], *, json: bool) -> None:
    if printed_as_json({"imported": imported}, json):
        return
    for version, one in zip(imported, found, strict=True):
        total = sum(file.size for file in version.files)
        say(f"{version.name}@{version.number}   {short(version.root)}   {size(total)}   from {one.source}")
        for note in one.notes:
            say(f"  {note}", style="yellow")
    next_step(*waits_for(imported[-1]))


def _serve(imported: Sequence[VersionDetail], registry: str, listen: list[str] | None) -> None:
    from flyball.cli.serve import serve

    newest = {version.name: version for version in imported}
    with tempfile.TemporaryDirectory(prefix="flyball-serve-") as scratch:
        with opened(registry) as home:
            for name, version in newest.items():
                home.fetch(f"{name}@{version.number}", Path(scratch, name))
        serve([f"{name}={Path(scratch, name, 'model.onnx')}" for name in newest], listen=listen)
