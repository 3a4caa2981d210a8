"""`flyball registry init`: creates a registry in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.registry.options import AsJson
from flyball.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from flyball.registry.home import RegistrySettings


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", envvar="FLYBALL_REGISTRY", help="The directory to create.")
    ] = Path(".flyball/registry"),
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="sqlite:///FILE, postgresql://USER@HOST/NAME, or env:NAME for a variable with the URL; by default SQLite.",
            show_default=False,
        ),
    ] = None,
    artifacts: Annotated[
        str | None,
        typer.Option(metavar="STORE", help="A directory, or s3://BUCKET/PREFIX; by default artifacts.", show_default=False),
    ] = None,
    artifacts_endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="The S3-compatible server, if not AWS.", show_default=False)
    ] = None,
    artifacts_region: Annotated[str | None, typer.Option(metavar="NAME", help="The S3 region.", show_default=False)] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An environment; may be repeated, in promotion order. By default dev, staging, production.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Create a registry: a folder with registry.yaml, an event database and an artifact store.

    Next, create keys and a trust policy, with flyball key and flyball trust: promotion needs trusted keys.

        flyball registry init

        flyball registry init prod --database env:REGISTRY_URL --artifacts s3://models/registry
    """
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import next_step, say

    try:
        from flyball.registry.home import Home
        from flyball.registry.tables.database import Database
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the registry needs {error.name}, which is not installed",
            next_step="install it:  pip install 'flyball[registry]'",
        ) from error
    chosen = {
        "database": database,
        "artifacts": artifacts,
        "artifacts_endpoint": artifacts_endpoint,
        "artifacts_region": artifacts_region,
        "environments": environment or None,
    }
    made = Home.create(folder, _settings({key: value for key, value in chosen.items() if value is not None}))
    Database.open(made.database_url()).close()  # creates the tables, and reports a wrong URL now
    settings = made.settings
    if json:
        print_json({"registry": str(folder), **settings.model_dump()})
        return
    say(f"{folder}   {settings.database}   {' → '.join(settings.environments)}")
    next_step(f"flyball key new root.pem && cp root.pub {folder}/ && flyball trust init --registry {folder}")


def _settings(chosen: dict[str, Any]) -> RegistrySettings:
    from pydantic import ValidationError

    from flyball.documents.faults import faults_of
    from flyball.errors import Fault
    from flyball.registry.home import RegistrySettings

    try:
        return RegistrySettings.model_validate(chosen)
    except ValidationError as error:
        faults = [Fault(_flag(fault.path), fault.found, fault.allowed) for fault in faults_of(error, RegistrySettings)]
        raise UsageError("invalid flags", faults=faults, next_step="flyball registry init --help") from error


def _flag(path: str) -> str:
    """The flag for a fault's path."""
    key = path.partition("[")[0]
    return "--environment" if key == "environments" else "--" + key.replace("_", "-")
