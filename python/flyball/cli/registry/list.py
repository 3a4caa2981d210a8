"""`flyball registry list`: the names of a registry, or the versions of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, print_json
from flyball.cli.registry.options import WHERE, Where, opened
from flyball.cli.registry.text import approvals, moment, next_step, row, say, short, state, table

if TYPE_CHECKING:
    from flyball.registry.views import NameView, VersionView

_Before = Annotated[int | None, option("Only versions before this one: the next page.", "--before", min=1, metavar="N")]


def listing(
    name: Annotated[str | None, argument("List the versions of this name.", metavar="[NAME]")] = None,
    after: Annotated[str | None, option("Only names after this one: the next page.", "--after", metavar="NAME")] = None,
    before: _Before = None,
    limit: Annotated[int, option("Maximum number to list.", "--limit", "-n", min=1, max=1000)] = 100,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """List all names with their newest version and placements, or all versions of one name.

    flyball registry list fraud
    """
    with opened(registry) as found:
        if name is None:
            names = found.names(after=after, limit=limit)
            shown = [one.model_dump(mode="json") for one in names]
        else:
            versions = found.versions(name, before=before, limit=limit)
            shown = [one.model_dump(mode="json") for one in versions]
    if json:
        print_json(shown)
    elif name is None:
        _names(names, limit)
    else:
        _versions(versions, limit)


def _names(names: list[NameView], limit: int) -> None:
    if not names:
        say("nothing is registered")
        next_step("flyball register NAME MODEL.onnx")
        return
    found = table("name", "newest", "state", "changed", "placed")
    for one in names:
        placed = ", ".join(f"{environment} {number}" for environment, number in one.placed.items())
        row(found, one.name, one.newest, state(one.state), moment(one.changed_at), placed)
    console().print(found)
    if len(names) == limit:
        next_step(f"flyball registry list --after {names[-1].name}", word="More")
    else:
        next_step(f"flyball registry list {names[0].name}")


def _versions(versions: list[VersionView], limit: int) -> None:
    if not versions:
        say("no versions before that")
        return
    found = table("version", "state", "tier", "author", "registered", "signed by", "approvals", "placed", "package")
    for one in versions:
        where = ", ".join([*one.placed, *(f"@{alias}" for alias in one.aliases)])
        row(
            found, one.number, state(one.state), one.tier, one.author, moment(one.registered_at), one.signed_by,
            approvals(one), where, short(one.root),
        )  # fmt: skip
    console().print(found)
    last = versions[-1]
    if len(versions) == limit:
        next_step(f"flyball registry list {last.name} --before {last.number}", word="More")
    else:
        next_step(f"flyball registry show {versions[0].name}@{versions[0].number}")
