"""Events as sentences for people: actor, act, reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.registry.events.event import text_of

if TYPE_CHECKING:
    from flyball.registry.events.event import Event
    from flyball.registry.views import EventView, PlacementView


def told(event: Event) -> str:
    """One line with time, actor, act and reason."""
    why = f" ({event.reason})" if event.reason else ""
    return f"{text_of(event.at)} {who(event)} {act(event)}{why}"


def who(event: Event | EventView | PlacementView) -> str:
    """The actor, marked if not authenticated."""
    return f"{event.actor} (not authenticated)" if event.authenticated == "none" else event.actor


def act(event: Event | EventView) -> str:
    """The act, without actor and time."""
    body, version = event.body, f"{event.name}@{event.body.get('version')}"
    match event.kind:
        case "promoted" if body.get("candidate"):
            share = f"{body['candidate']['share']:.0%}" if not body["candidate"].get("shadow") else "shadow"
            return f"placed {version} beside {body['environment']} as a candidate, {share}"
        case "promoted":
            how = ", breaking the glass" if body.get("break_glass") else ""
            return f"promoted {version} to {body['environment']}{how}"
        case "rolled_back" if body["version"] is None:
            return f"took {event.name}@{body['from']} out of {body['environment']}"
        case "rolled_back":
            past = "".join(f", past {one['version']} ({one['why']})" for one in body.get("passed_over", ()))
            return f"rolled {body['environment']} back to {version} from {event.name}@{body['from']}{past}"
        case "aliased" if body["version"] is None:
            return f"removed the alias {event.name}@{body['alias']}"
        case "aliased":
            return f"let {event.name}@{body['alias']} point to {version}"
        case "refused":
            return f"was refused {body['act']}: {body['words']}"
        case "imported":
            return f"imported {version} from {body['from']}"
        case _:
            return _beside_versions(event) or f"{event.kind} {version}"


def _beside_versions(event: Event | EventView) -> str | None:
    """Sentences about keys, snapshots and servers; None for other kinds."""
    body = event.body
    match event.kind:
        case "key_added":
            return f"added the API key {body['name']} ({', '.join(body['roles'])})"
        case "key_removed":
            return f"removed the API key {body['name']}"
        case "published":
            return f"published generation {body['generation']} of {body['environment']}"
        case "acknowledged":
            return _acknowledged(body)
        case "forgotten":
            return f"forgot the server {body['node']} of {body['environment']}"
        case _:
            return None


def _acknowledged(body: dict[str, Any]) -> str:
    name, where = body["name"], f"{body['node']} of {body['environment']}"
    serving = body["serving"]
    serves = f"serves {name}@{serving['version'] or '?'}" if serving else f"serves no {name}"
    refuses = f"refused {name}@{body['version'] or '?'} ({body['reason']}) and " if body["state"] == "refused" else ""
    unsaid = f", after {body['unsaid']} unrecorded changes" if body.get("unsaid") else ""
    return f"heard that {where} {refuses}{serves}{unsaid}"
