"""Loads page templates, with strict variables and escaping. Must not know the pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flyball.errors import needing

if TYPE_CHECKING:
    from jinja2 import Template


def template(path: Path, *, extra: str = "bench", **filters: object) -> Template:
    """Load a template; its includes are beside it or in this folder, so that all pages look alike."""
    with needing("the page needs jinja2", extra=extra):
        import jinja2
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([path.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template(path.name)
