"""`flyball registry init`: creates a registry in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.flag_faults import FlagFault, refused
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import printed_as_json
from flyball.cli.registry.options import registry_extra
from flyball.cli.registry.text import next_step, say

if TYPE_CHECKING:
    from flyball.registry.home import RegistrySettings


def init(
    folder: Annotated[Path, argument("The directory to create.", metavar="[DIR]", envvar="FLYBALL_REGISTRY")] = Path(
        ".flyball/registry"
    ),
    database: Annotated[
        str | None,
        option(
            "sqlite:///FILE, postgresql://USER@HOST/NAME, or env:NAME for a variable with the URL; by default SQLite.",
            metavar="URL",
        ),
    ] = None,
    artifacts: Annotated[
        str | None, option("A directory, or s3://BUCKET/PREFIX; by default artifacts.", metavar="STORE")
    ] = None,
    artifacts_endpoint: Annotated[str | None, option("The S3-compatible server, if not AWS.", metavar="URL")] = None,
    artifacts_region: Annotated[str | None, option("The S3 region.", metavar="NAME")] = None,
    environment: Annotated[
        list[str] | None,
        option("An environment; may be repeated, in promotion order. By default dev, staging, production.", metavar="NAME"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Create a registry: a folder with registry.yaml, an event database and an artifact store.

    Next, create keys and a trust policy, with flyball key and flyball trust: promotion needs trusted keys.

        flyball registry init

        flyball registry init prod --database env:REGISTRY_URL --artifacts s3://models/registry
    """
    with registry_extra():
        from flyball.registry.home import Home
        from flyball.registry.tables.database import Database
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
    if printed_as_json({"registry": str(folder), **settings.model_dump()}, json):
        return
    say(f"{folder}   {settings.database}   {' → '.join(settings.environments)}")
    next_step(f"flyball key new root.pem && cp root.pub {folder}/ && flyball trust init --registry {folder}")


def _settings(chosen: dict[str, Any]) -> RegistrySettings:
    from pydantic import ValidationError

    from flyball.documents.faults import faults_of
    from flyball.registry.home import RegistrySettings

    try:
        return RegistrySettings.model_validate(chosen)
    except ValidationError as error:
        faults = [FlagFault(_flag(fault.path), fault.found, fault.allowed) for fault in faults_of(error, RegistrySettings)]
        raise refused(faults, "see the usage:  flyball registry init --help") from error


def _flag(path: str) -> str:
    """The flag for a fault's path."""
    key = path.partition("[")[0]
    return "--environment" if key == "environments" else "--" + key.replace("_", "-")
