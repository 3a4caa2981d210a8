"""How a decision's records are kept, as its author writes it. Must not know the journal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field as Words

from flyball.decision.spec.parts import Name, Part
from flyball.documents.faults import Allowed


class Record(Part):
    """How records of its decisions are kept. A server without a journal refuses a decision with this section."""

    durability: Annotated[Literal["buffered", "sync"], Allowed("buffered or sync")] = Words(
        default="buffered", description="buffered: on the disk a moment after the answer; sync: before it"
    )
    when_unavailable: Annotated[Literal["fail_closed", "serve_unlogged"], Allowed("fail_closed or serve_unlogged")] = Words(
        default="fail_closed",
        description="while no record can be kept: the remedy for record_error, before any compute; or decided, and counted",
    )
    sample: Annotated[float, Words(ge=0, le=1, allow_inf_nan=False), Allowed("a share of decisions, 0 to 1")] = Words(
        default=1.0, description="how many of the records have input, features and outputs too"
    )
    mask: Annotated[list[Name], Words(max_length=1024), Allowed("a list of fields")] = Words(
        default=[], description="fields whose values are in no record; the record says which"
    )
