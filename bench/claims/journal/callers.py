"""Callers that request decisions until the server is gone: which were decided, when, and which refused.

Must not know what is claimed.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from bench.claims import callers
from bench.claims.journal import specs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.claims.callers import Answer


@dataclass(slots=True)
class Told:
    """What the callers of one decision received: ids with their answers, and refusals by status."""

    decided: dict[bytes, Answer] = field(default_factory=dict)
    refused: list[tuple[int, dict[str, Any]]] = field(default_factory=list)


class Callers(callers.Callers):
    """Several callers per decision at once; leaving stops them."""

    def __init__(self, url: str, decisions: Sequence[str], each: int) -> None:
        self._asked = list(decisions) * each
        super().__init__(url, [partial(_question, decision, place) for place, decision in enumerate(self._asked)])

    @property
    def told(self) -> dict[str, Told]:
        """By decision. Unfinished requests are not counted."""
        found = {decision: Told() for decision in self._asked}
        for decision, answers in zip(self._asked, self.answers, strict=True):
            for answer in list(answers):
                if answer.status == 200:
                    found[decision].decided[uuid.UUID(answer.content["id"]).bytes] = answer
                elif answer.status is not None:
                    found[decision].refused.append((answer.status, answer.content))
        return found


def _question(decision: str, place: int, number: int) -> tuple[str, bytes]:
    return f"/v1/decisions/{decision}", json.dumps({"input": specs.row(place * 1000 + number)}).encode()
