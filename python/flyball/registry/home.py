"""A registry's home: a folder with `registry.yaml`, which locates the database and the artifacts.

The file contains no secrets: a database URL may be `env:NAME`, and credentials of object stores come from the environment.
Must not know what is stored there.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from flyball.documents.durable_file import open_private, private_folder
from flyball.documents.faults import Allowed, faults_of
from flyball.documents.field_types import Name
from flyball.documents.yaml_lines import BrokenYamlError, read_marked
from flyball.errors import LineFault, RegistryRefusedError, plain_cause

DEFAULT_FOLDER = Path(".flyball/registry")
VARIABLE = "FLYBALL_REGISTRY"
FILE = "registry.yaml"
_FILE_BYTES_MAX = 64 * 1024
_DATABASE = re.compile(r"^(sqlite:///.+|postgres(ql)?(\+psycopg)?://.+|env:[A-Za-z_][A-Za-z0-9_]*)$")


def _each_once(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("twice")
    return names


def _file(default_words: str) -> Allowed:
    return Allowed(f"a file's path, relative to the home or absolute; {default_words}")


class RegistrySettings(BaseModel):
    """The keys of `registry.yaml`, all optional."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    database: Annotated[
        str,
        Field(pattern=_DATABASE.pattern),
        Allowed(
            "sqlite:///FILE (relative to the home), postgresql://USER@HOST/NAME, or env:NAME for a variable with either"
        ),
    ] = "sqlite:///registry.db"
    artifacts: Annotated[
        str,
        Field(min_length=1, max_length=1024),
        Allowed("a folder, relative to the home or absolute, or s3://BUCKET/PREFIX"),
    ] = "artifacts"
    artifacts_endpoint: Annotated[
        str | None, Field(pattern=r"^https?://[^\s]{1,512}$"), Allowed("the S3 server's URL, http:// or https://")
    ] = None
    artifacts_region: Annotated[str | None, Field(pattern=r"^[a-z0-9-]{1,64}$"), Allowed("a region, like eu-west-1")] = None
    environments: Annotated[
        list[Name],
        Field(min_length=1, max_length=16),
        AfterValidator(_each_once),
        Allowed("1 to 16 names, each once, in the order of promotion"),
    ] = ["dev", "staging", "production"]
    trust: Annotated[str, Field(min_length=1, max_length=1024), _file("the signed trust policy")] = "trust.json"
    trust_root: Annotated[str, Field(min_length=1, max_length=1024), _file("public keys that sign the trust policy")] = (
        "root.pub"
    )


@dataclass(frozen=True, slots=True)
class Home:
    """A registry's folder and its settings."""

    folder: Path
    settings: RegistrySettings

    @classmethod
    def create(cls, folder: Path, settings: RegistrySettings | None = None) -> Home:
        """Create the folder and its file; refuses an existing registry."""
        chosen = settings or RegistrySettings()
        file = folder / FILE
        try:
            private_folder(folder)
            with open_private(file, os.O_EXCL) as written:
                written.write(_page(chosen).encode())
                written.flush()
                os.fsync(written.fileno())
        except FileExistsError as error:
            if not folder.is_dir():
                raise RegistryRefusedError(
                    f"{folder} is a file, not a directory", next_step="name a new directory:  flyball registry init DIR"
                ) from error
            raise RegistryRefusedError(
                f"{folder} is already a registry", next_step=f"flyball registry list --registry {folder}"
            ) from error
        except OSError as error:
            raise RegistryRefusedError(
                f"cannot make a registry in {folder}: {plain_cause(error)}", next_step="name a folder that you may write to"
            ) from error
        return cls(folder, chosen)

    @classmethod
    def open(cls, folder: Path) -> Home:
        """Read the file; reports all faults at once."""
        file = folder / FILE
        try:
            with file.open("rb") as opened:
                content = opened.read(_FILE_BYTES_MAX + 1)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            raise RegistryRefusedError(
                f"there is no registry in {folder}" if missing else f"cannot read {file}: {plain_cause(error)}",
                next_step=f"make one:  flyball registry init {folder}",
            ) from error
        return cls(folder, _read(content, file))

    @classmethod
    def find(cls, given: str | Path | None = None) -> Home:
        """Open the given home, else FLYBALL_REGISTRY, else `.flyball/registry`."""
        return cls.open(Path(given or os.environ.get(VARIABLE) or DEFAULT_FOLDER))

    def database_url(self) -> str:
        """The database URL, with `env:` resolved and files relative to the home."""
        url, variable = self.settings.database, self.settings.database.removeprefix("env:")
        if variable != url:
            url = os.environ.get(variable, "")
            if not _DATABASE.match(url) or url.startswith("env:"):
                raise RegistryRefusedError(
                    f"{self.folder / FILE} reads the database's URL from {variable}, which is not set to one",
                    next_step=f"export {variable}=postgresql://USER@HOST/NAME",
                )
        if not url.startswith("sqlite:///"):
            return url
        return f"sqlite:///{(self.folder / url.removeprefix('sqlite:///')).absolute()}"

    @property
    def trust(self) -> Path:
        """The file of the signed trust policy."""
        return self.folder / self.settings.trust

    @property
    def trust_root(self) -> Path:
        """The file of public keys that sign the trust policy."""
        return self.folder / self.settings.trust_root


def _read(content: bytes, file: Path) -> RegistrySettings:
    if len(content) > _FILE_BYTES_MAX:
        raise RegistryRefusedError(f"{file} has more than {_FILE_BYTES_MAX:,} bytes", next_step="it has a few short keys")
    try:
        marked = read_marked(content.decode())
    except UnicodeDecodeError as error:
        raise RegistryRefusedError(f"{file} is not UTF-8: {error.reason}") from error
    except BrokenYamlError as error:
        raise RegistryRefusedError(f"{file}:{error.line} {error.why}") from error
    faults = [LineFault("", None, "", f"{file}:{line}", words) for _place, line, words in marked.problems]
    try:
        settings = RegistrySettings.model_validate({} if marked.value is None else marked.value)
    except ValidationError as error:
        for fault in faults_of(error, RegistrySettings):
            line = marked.line(tuple(fault.path.partition("[")[0].split(".")))
            words = f"is {fault.found!r:.60}, allowed: {fault.allowed}"
            faults.append(LineFault(fault.path, fault.found, fault.allowed, f"{file}:{line}", words))
    if faults:
        plural = "s" * (len(faults) != 1)
        raise RegistryRefusedError(
            f"{file} has {len(faults)} fault{plural}", faults=list(faults), next_step="see docs/guides/registry.md"
        )
    return settings


def _page(settings: RegistrySettings) -> str:
    lines = [
        "# A flyball registry. Keys that are not here have their defaults; docs/guides/registry.md has them all.",
        f"database: {settings.database}",
        f"artifacts: {settings.artifacts}",
        *(f"{key}: {value}" for key in ("artifacts_endpoint", "artifacts_region") if (value := getattr(settings, key))),
        f"environments: [{', '.join(settings.environments)}]",
        f"trust: {settings.trust}",
        f"trust_root: {settings.trust_root}",
    ]
    return "\n".join(lines) + "\n"
