"""The options that the verbs of the registry share, and how they open one: a home on this machine, or one behind HTTP."""

from __future__ import annotations

import getpass
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.registry.acts.interface import Acting, Actor
    from flyball.registry.acts.registry import Subject
    from flyball.registry.acts.rules import Gate
    from flyball.registry.local import LocalRegistry

WHERE = ".flyball/registry"
_INSTALL = "install it:  pip install 'flyball[registry]'"
_VERSION = re.compile(r"^v?([1-9][0-9]*)$")

Where = Annotated[
    str,
    typer.Option(
        "--registry",
        metavar="HOME|URL",
        envvar="FLYBALL_REGISTRY",
        help="The registry: a folder, or https://HOST:PORT with the key in FLYBALL_REGISTRY_KEY.",
    ),
]
Home = Annotated[
    str, typer.Option("--registry", metavar="HOME", envvar="FLYBALL_REGISTRY", help="The registry's folder on this machine.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
As = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="NAME",
        envvar="FLYBALL_ACTOR",
        help="Who acts, for the history, marked as not authenticated; you by default. Signatures: the key's owner."
        " Behind HTTP the API key says it.",
        show_default=False,
    ),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for whoever reads the history later.")]
NeededReason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept for ever.")]
Key = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="Your private key; it stays on this machine (flyball key new).")
]
Ref = Annotated[str, typer.Argument(metavar="NAME@VERSION", help="fraud@7, or fraud@ALIAS.", show_default=False)]
MaybeVersion = Annotated[
    str | None, typer.Argument(metavar="[VERSION]", help="7 or v7, where NAME stands alone.", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name, such as fraud.", show_default=False)]


def ref_of(name: str, version: str | None) -> str:
    """`fraud@7` from any of `fraud@7`, `fraud 7`, `fraud v7` and `fraud champion`."""
    whole, at, told = name.partition("@")
    if at and version is not None:
        raise UsageError(f"{name} names a version, and {version} is another", next_step=f"give one:  {name}")
    told = told if at else (version or "")
    if not whole or not told:
        raise UsageError(f"which version of {whole or 'what'}?", next_step=f"name it:  {whole or 'NAME'}@7")
    number = _VERSION.match(told)
    return f"{whole}@{number[1] if number else told}"


def number_of(told: str) -> int:
    """7 from `7` or `v7`."""
    number = _VERSION.match(told)
    if number is None:
        raise UsageError(f"{told!r} is no version's number", next_step="such as 7")
    return int(number[1])


def behind_http(where: str) -> bool:
    """Whether a registry is not on this machine, as far as its address tells."""
    return where.startswith(("http://", "https://"))


@contextmanager
def opened(where: str) -> Iterator[Acting]:
    """The registry that was named, until the verb is done."""
    if not behind_http(where):
        with home(where) as registry:
            yield registry
        return
    from flyball.registry.remote.registry import RemoteRegistry

    remote = RemoteRegistry(where)
    try:
        yield remote
    finally:
        remote.close()


@contextmanager
def home(where: str) -> Iterator[LocalRegistry]:
    """The registry in a folder of this machine; some verbs work nowhere else."""
    if behind_http(where):
        raise UsageError("this works only where the registry is", next_step="run it there, with --registry HOME")
    try:
        from flyball.registry.local import LocalRegistry
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the registry needs {error.name}, which is not here", next_step=_INSTALL) from error
    registry = LocalRegistry.open(Path(where), gates=_gates)
    try:
        yield registry
    finally:
        registry.close()


def _gates(subject: Subject) -> list[Gate]:
    """What judges a promotion; most verbs never ask, so they do not wait for its imports."""
    from flyball.control.gates import run_gates

    return run_gates(subject)


def actor(named: str | None) -> Actor:
    """Who acts: who was named, whom nobody authenticates, else who runs the command. At home everybody may do all."""
    from flyball.registry.acts.interface import Actor

    user = _user()
    return Actor(named) if named and named != user else Actor(user, authenticated="os-user")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid-{os.getuid()}"
