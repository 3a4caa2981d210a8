"""Options shared by the registry's verbs, and how they open a registry: a local folder, or one over HTTP."""

from __future__ import annotations

import getpass
import os
import re
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import argument, option
from flyball.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.registry.acts.interface import Acting, Actor
    from flyball.registry.acts.registry import GateInput
    from flyball.registry.acts.rules import Gate
    from flyball.registry.local import LocalRegistry

WHERE = ".flyball/registry"
_VERSION = re.compile(r"^v?([1-9][0-9]*)$")

Where = Annotated[
    str,
    option(
        "The registry: a directory, or https://HOST:PORT with the key in FLYBALL_REGISTRY_KEY.",
        "--registry",
        metavar="HOME|URL",
        envvar="FLYBALL_REGISTRY",
    ),
]
Home = Annotated[
    str, option("The registry's directory on this machine.", "--registry", metavar="HOME", envvar="FLYBALL_REGISTRY")
]
By = Annotated[
    str | None,
    option(
        "Actor for the history, marked as not authenticated; by default you. Over HTTP, the API key's owner.",
        "--by",
        metavar="NAME",
        envvar="FLYBALL_ACTOR",
    ),
]
Reason = Annotated[str, option("The reason, for the history.", "--reason", metavar="TEXT")]
Key = Annotated[Path, option("Your private key (flyball key new); it stays on this machine.", "--key", metavar="FILE")]
Ref = Annotated[str, argument("fraud@7, or fraud@ALIAS.", metavar="NAME@VERSION")]
MaybeVersion = Annotated[str | None, argument("7 or v7, if not in NAME@VERSION.", metavar="[VERSION]")]
Name = Annotated[str, argument("The name, such as fraud.", metavar="NAME")]


def ref_of(name: str, version: str | None) -> str:
    """`fraud@7` from any of `fraud@7`, `fraud 7`, `fraud v7` and `fraud champion`."""
    base, at, wanted = name.partition("@")
    if at and version is not None:
        raise UsageError(f"two versions given: {name} and {version}", next_step=f"give one:  {name}")
    wanted = wanted if at else (version or "")
    if not base or not wanted:
        step = f"give one, such as  {base or 'NAME'}@1;  list them:  flyball registry list {base or 'NAME'}"
        raise UsageError(f"no version of {base or 'NAME'} given", next_step=step)
    number = _VERSION.match(wanted)
    return f"{base}@{number[1] if number else wanted}"


def number_of(text: str) -> int:
    """7 from `7` or `v7`."""
    number = _VERSION.match(text)
    if number is None:
        raise UsageError(f"{text!r} is not a version number", next_step="give a number, such as 7")
    return int(number[1])


def behind_http(where: str) -> bool:
    """Whether the registry's address is an HTTP URL."""
    return where.startswith(("http://", "https://"))


@contextmanager
def opened(where: str) -> Iterator[Acting]:
    """Open the registry at a folder or URL."""
    if not behind_http(where):
        with home(where) as registry:
            yield registry
        return
    from flyball.registry.remote.registry import RemoteRegistry

    with closing(RemoteRegistry(where)) as remote:
        yield remote


@contextmanager
def home(where: str) -> Iterator[LocalRegistry]:
    """Open the registry in a folder of this machine, for verbs that need one."""
    if behind_http(where):
        raise UsageError(
            "this verb needs a registry on this machine", next_step="run it on the registry's machine, with --registry HOME"
        )
    with registry_extra():
        from flyball.registry.local import LocalRegistry
    with closing(LocalRegistry.open(Path(where), gates=_gates)) as registry:
        yield registry


@contextmanager
def registry_extra(what: str = "the registry") -> Iterator[None]:
    """Import packages of the registry's extra; the error names a missing one."""
    try:
        yield
    except ModuleNotFoundError as error:
        step = "install it:  pip install 'flyball[registry]'"
        raise MissingExtraError(f"{what} needs {error.name}, which is not installed", next_step=step) from error


def _gates(subject: GateInput) -> list[Gate]:
    """Run the gates of a promotion; imported late, because most verbs never need them."""
    from flyball.control.gates import run_gates

    return run_gates(subject)


def actor(named: str | None) -> Actor:
    """The actor: the given name, not authenticated, else the user of this process. Locally all acts are allowed."""
    from flyball.registry.acts.interface import Actor

    user = _user()
    return Actor(named) if named and named != user else Actor(user, authenticated="os-user")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a uid without a name
        return f"uid-{os.getuid()}"
