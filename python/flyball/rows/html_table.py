"""Tables as notebooks show them. Must not know what they show."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def html_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table whose cells are text: nothing in them becomes markup. Without a head, it has only its lines."""

    def row(tag: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    heads = f"<thead>{row('th', head)}</thead>" if head else ""
    return f"<table>{heads}<tbody>{''.join(row('td', line) for line in lines)}</tbody></table>"
