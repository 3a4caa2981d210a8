"""Declares the options and arguments of commands: the help text first, then typer's settings."""

from __future__ import annotations

import math
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Verb = TypeVar("_Verb", bound="Callable[..., None]")


def option(text: str, *flags: str, panel: str | None = None, **settings: Any) -> Any:
    """Declare an option; its flag is by default its parameter's name. `panel` is its heading in the help page."""
    return typer.Option(*flags, help=text, rich_help_panel=panel, **settings)


def argument(text: str, **settings: Any) -> Any:
    """Declare a positional argument."""
    return typer.Argument(help=text, **settings)


def with_options(options: Mapping[str, Any]) -> Callable[[_Verb], _Verb]:
    """Add options from a table to a verb. It gets them as keyword arguments, None if not given."""

    def add(verb: _Verb) -> _Verb:
        own = [one for one in signature(verb, eval_str=True).parameters.values() if one.kind != Parameter.VAR_KEYWORD]
        added = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in options.items()]
        verb.__signature__ = signature(verb).replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return verb

    return add


def finite(value: float | list[float] | None) -> float | list[float] | None:
    """Check numbers, for `callback=`: typer's ranges let NaN and infinity through."""
    for number in value if isinstance(value, list | tuple) else [value]:
        if number is not None and not math.isfinite(number):
            raise typer.BadParameter(f"{number} is not a finite number")
    return value


def one_of(*allowed: str) -> Callable[[str | list[str] | None], str | list[str] | None]:
    """Check words, for `callback=`: each must be one of these."""

    def check(value: str | list[str] | None) -> str | list[str] | None:
        for word in value if isinstance(value, list | tuple) else [value]:
            if word is not None and word not in allowed:
                raise typer.BadParameter(f"{word!r} is not one of {', '.join(allowed)}")
        return value

    return check


AsJson = Annotated[bool, option("Print JSON.", "--json")]
