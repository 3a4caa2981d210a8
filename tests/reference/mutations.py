"""Decisions that are nearly right: a good one with one to three things changed, from a seed.

Changes are made to the text (as a typing hand or a broken disk makes them) and to its structure (as a wrong idea does).
Knows YAML, and nothing of what a decision means.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any

import yaml

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**70), 0.5, -0.0, 1e308, float("nan"), float("inf"),
    "", " ", "x", "日本", "\u0000", "a" * 5000, "amount", "score", "../../etc/passwd", "redis://x",
    "0..1", "< 0.30", ">= 0.80", "-5ms", "1h", "99999999999999999999h", "sum(amount) by card_id last 0s",
    "amount >", "amount > 'x'", "has(", "(" * 200, "1 + " * 300 + "1",
    [], [[]], [1, "a", None], ["amount", "amount"], {}, {"x": {}}, {"of": []}, {"outcome": "nobody"},
]  # fmt: skip
CHARACTERS = " \n\t:{}[],'\"#&*!|>%@`-0aé\u2028"

Place = tuple[str | int, ...]


def mutated(text: str, count: int, seed: int) -> Iterator[str]:
    """So many broken (or by luck still good) versions of a YAML text."""
    whole = yaml.safe_load(text)
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        if chance.random() < 0.35:
            yield _scratched(text, chance)
            continue
        changed = copy.deepcopy(whole)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            change(changed, chance)
        yield yaml.safe_dump(changed, allow_unicode=True, sort_keys=False)


def _scratched(text: str, chance: random.Random) -> str:
    """Characters that were added, lost or changed; lines that were lost or moved."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(text))
        match chance.randrange(4):
            case 0:
                text = text[:at] + chance.choice(CHARACTERS) + text[at:]
            case 1:
                text = text[:at] + text[at + chance.randrange(1, 4) :]
            case 2:
                text = text[:at] + chance.choice(CHARACTERS) + text[at + 1 :]
            case _:
                lines = text.split("\n")
                lines.insert(chance.randrange(len(lines)), lines.pop(chance.randrange(len(lines))))
                text = "\n".join(lines)
    return text


def change(whole: Any, chance: random.Random) -> None:
    """One place of a structure: taken away, renamed, replaced or doubled."""
    places = list(_places(whole, ()))
    *road, at = chance.choice(places)
    last: Any = at
    parent: Any = whole
    for step in road:
        parent = parent[step]
    match chance.randrange(5):
        case 0:
            del parent[last]
        case 1 if isinstance(parent, dict):
            name = str(last)
            parent[name[: len(name) // 2] + chance.choice("xyz_") + name[len(name) // 2 :]] = parent.pop(last)
        case 2:
            other = whole
            for step in chance.choice(places):
                other = other[step]
            parent[last] = copy.deepcopy(other)
        case 3 if isinstance(parent, list):
            parent.insert(chance.randrange(len(parent) + 1), copy.deepcopy(parent[last]))
        case _:
            parent[last] = copy.deepcopy(chance.choice(ODD))


def _places(value: Any, here: Place) -> Iterator[Place]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*here, key)
        yield from _places(part, (*here, key))
