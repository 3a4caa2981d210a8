"""The request bodies of the admin API, with the limits of every field. Unknown keys are refused.

Must not know what is done with them.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from flyball.documents.names import NAME_PATTERN

NAME: dict[str, Any] = {"min_length": 1, "max_length": 128, "pattern": NAME_PATTERN}
"""The limits of a name, in a body, path or query."""
VERSION: dict[str, Any] = {
    **NAME,
    "description": "a version number, an alias, or an environment for the version placed there",
    "examples": ["7"],
}
Name = Annotated[str, Field(**NAME)]
Reference = Annotated[str, Field(**VERSION)]
_Why = Annotated[
    str, Field(max_length=4096, description="why, for later readers of the history", examples=["quarterly refit"])
]
_Needed = Annotated[
    str,
    Field(min_length=1, max_length=4096, description="why; required", examples=["leaks the card's number"]),
]
_Envelope = Annotated[dict[str, Any], Field(description="a DSSE envelope: payload, payloadType and signatures")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SignBody(_Body):
    """Signatures over a version's files and its release, made on the signer's machine."""

    version: Reference
    bundle: Annotated[dict[str, Any], Field(description="the OpenSSF Model Signing bundle over the package's files")]
    release: _Envelope
    reason: _Why = ""


class ApproveBody(_Body):
    """One approver's signature over the payload of the release."""

    version: Reference
    signature: Annotated[str, Field(min_length=8, max_length=1024, description="of the payload, DER in base64")]
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="hint of the approver's key")]
    reason: _Why = ""


class ReasonedBody(_Body):
    """An act about a version that requires a reason."""

    version: Reference
    reason: _Needed


class RevokeBody(ReasonedBody):
    """Revoke a version."""

    stop: Annotated[bool, Field(description="revoke it even if it serves; the name stops there")] = False


class VersionBody(_Body):
    """An act about a version."""

    version: Reference
    reason: _Why = ""


class CandidateBody(_Body):
    """The traffic of a candidate: a share of the requests, or a copy of each."""

    share: Annotated[float, Field(ge=0, le=1, description="of the requests, 0 to 1", examples=[0.05])] = 0.0
    shadow: Annotated[bool, Field(description="it gets a copy of each request, and its answers are not used")] = False


class PromoteBody(_Body):
    """Place a version in an environment."""

    version: Reference
    environment: Annotated[Name, Field(examples=["production"])]
    reason: _Why = ""
    candidate: CandidateBody | None = None
    break_glass: Annotated[bool, Field(description="skip the gates; requires a reason, and is marked in the history")] = (
        False
    )


class RollbackBody(_Body):
    """Roll an environment back."""

    environment: Annotated[Name, Field(examples=["production"])] = "production"
    to: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="an earlier version; default: the previous")] = None
    reason: _Why = ""


class ForgetBody(_Body):
    """Forget a server that is gone."""

    node: Annotated[str, Field(min_length=1, max_length=256, examples=["web-1/127.0.0.1:8080"])]
    reason: _Why = ""


class AliasBody(_Body):
    """Point an alias to a version, or remove it."""

    alias: Annotated[Name, Field(examples=["champion"])]
    version: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="null removes the alias", examples=[7])]
    reason: _Why = ""
