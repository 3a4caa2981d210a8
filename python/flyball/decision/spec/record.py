"""The `record` section of a spec: how records are stored. Must not know the journal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field as Attr

from flyball.decision.spec.parts import Name, Part
from flyball.documents.faults import Allowed


class Record(Part):
    """How records of its decisions are stored. A server without a journal refuses a decision with this section."""

    durability: Annotated[Literal["buffered", "sync"], Allowed("buffered or sync")] = Attr(
        default="buffered", description="buffered: on disk shortly after the answer; sync: before it"
    )
    when_unavailable: Annotated[Literal["fail_closed", "serve_unlogged"], Allowed("fail_closed or serve_unlogged")] = Attr(
        default="fail_closed",
        description="while no record can be written: the remedy for record_error, before any compute; or decide, and count",
    )
    sample: Annotated[float, Attr(ge=0, le=1, allow_inf_nan=False), Allowed("a share of decisions, 0 to 1")] = Attr(
        default=1.0, description="share of records with input, features and outputs"
    )
    mask: Annotated[list[Name], Attr(max_length=1024), Allowed("a list of fields")] = Attr(
        default=[], description="fields whose values are in no record; the record says which"
    )
