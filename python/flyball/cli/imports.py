"""`flyball import`: models of an MLflow server or of a repository in Triton's layout become versions of a registry.

With `--serve` the newest of each is served at once from this process, unsigned: a look at a model, not how it goes live.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.listen_options import Listen
from flyball.cli.registry.card_options import Owner, Purpose, Tier, card_of
from flyball.cli.registry.options import WHERE, As, AsJson, Reason, Where, actor, behind_http, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flyball.registry.acts.interface import Acting
    from flyball.registry.imports.found import Found
    from flyball.registry.views import VersionDetail

imports = typer.Typer(no_args_is_help=True, help="Take models from MLflow or from a repository in Triton's layout.")

_Serve = Annotated[
    bool,
    typer.Option("--serve", help="Serve it at once from here, unsigned, for a look; makes a registry if there is none."),
]
_Named = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Its name here. [as there]", show_default=False)]


@imports.command()
def mlflow(
    uri: Annotated[str, typer.Argument(metavar="URI", help="models:/NAME/3 or models:/NAME@ALIAS.", show_default=False)],
    tracking: Annotated[
        str | None,
        typer.Option(metavar="URL", envvar="MLFLOW_TRACKING_URI", help="The MLflow server.", show_default=False),
    ] = None,
    name: _Named = None,
    owner: Owner = None,
    purpose: Purpose = None,
    tier: Tier = None,
    reason: Reason = "",
    author: As = None,
    registry: Where = WHERE,
    serve: _Serve = False,
    listen: Listen = None,
    json: AsJson = False,
) -> None:
    """Take one version of a model from an MLflow server: its ONNX file, its weights, and its run's lineage.

    Only the ONNX flavour is taken: others run Python code when they are loaded.

        flyball import mlflow models:/fraud@champion --tracking https://mlflow.example.com
    """
    from flyball.registry.imports.mlflow import fetch

    with _opened(registry, make=serve) as home, tempfile.TemporaryDirectory(prefix="flyball-mlflow-") as place:
        found = fetch(uri, Path(place), tracking=tracking)
        said = {"owner": owner, "purpose": purpose, "tier": tier}
        taken = _taken([found], home, said, author=author, name=name, reason=reason)
    _tell(taken, [found], json=json)
    if serve:
        _serve(taken, registry, listen)


@imports.command()
def triton(
    repository: Annotated[
        Path, typer.Argument(metavar="DIR", help="The repository: one folder a model.", show_default=False)
    ],
    model: Annotated[str | None, typer.Option(metavar="MODEL", help="Only this model. [all]", show_default=False)] = None,
    owner: Owner = None,
    purpose: Purpose = None,
    tier: Tier = None,
    reason: Reason = "",
    author: As = None,
    registry: Where = WHERE,
    serve: _Serve = False,
    listen: Listen = None,
    json: AsJson = False,
) -> None:
    """Take the models of a repository in Triton's layout: every version that Triton would serve, oldest first.

    flyball import triton models/ --model fraud
    """
    from flyball.registry.imports.triton import find

    found, report = find(repository, model)
    said = {"owner": owner, "purpose": purpose, "tier": tier}
    with _opened(registry, make=serve) as home:
        taken = _taken(found, home, said, author=author, name=None, reason=reason)
    if not json:
        from flyball.cli.repository import show

        show(report)
    _tell(taken, found, json=json)
    if serve:
        _serve(taken, registry, listen)


@contextmanager
def _opened(where: str, *, make: bool) -> Iterator[Acting]:
    """The registry; one that is not there is told before anything is fetched, or made for those who only want a look."""
    from flyball.registry.home import FILE, Home

    if make and not behind_http(where) and not Path(where, FILE).exists():
        Home.create(Path(where))
    with opened(where) as home:
        yield home


def _taken(
    found: Sequence[Found], home: Acting, said: dict[str, str | None], *, author: str | None, name: str | None, reason: str
) -> list[VersionDetail]:
    from flyball.registry.imports.found import take

    acting, card = actor(author), card_of(None, said)
    receipts = [take(one, home, actor=acting, card=card, name=name, reason=reason) for one in found]
    return [home.show(f"{receipt.event.name}@{receipt.version}") for receipt in receipts]


def _tell(taken: Sequence[VersionDetail], found: Sequence[Found], *, json: bool) -> None:
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import next_step, say, short, size, waits_for

    if json:
        print_json({"imported": [version.model_dump(mode="json") for version in taken]})
        return
    for version, one in zip(taken, found, strict=True):
        total = sum(file.size for file in version.files)
        say(f"{version.name}@{version.number}   {short(version.root)}   {size(total)}   from {one.source}")
        for note in one.notes:
            say(f"  {note}", style="yellow")
    next_step(*waits_for(taken[-1]))


def _serve(taken: Sequence[VersionDetail], registry: str, listen: list[str] | None) -> None:
    from flyball.cli.serve import serve

    newest = {version.name: version for version in taken}
    with tempfile.TemporaryDirectory(prefix="flyball-serve-") as place:
        with opened(registry) as home:
            for name, version in newest.items():
                home.fetch(f"{name}@{version.number}", Path(place, name))
        serve([f"{name}={Path(place, name, 'model.onnx')}" for name in newest], listen=listen)
