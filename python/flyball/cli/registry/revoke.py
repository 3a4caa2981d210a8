"""`flyball revoke` and `flyball retire`: versions that must never serve again, and versions no longer used."""

from __future__ import annotations

from typing import Annotated

from flyball.cli.option import AsJson, option
from flyball.cli.output import printed_as_json
from flyball.cli.registry.options import WHERE, By, MaybeVersion, Reason, Ref, Where, actor, opened, ref_of
from flyball.cli.registry.text import next_step, say


def revoke(
    name: Ref,
    reason: Reason,
    version: MaybeVersion = None,
    stop: Annotated[bool, option("Even if it is placed: the name stops serving there.", "--stop")] = False,
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Revoke a version: it can never be placed again. If it is placed, roll back first, or give --stop.

    For servers that cannot reach the registry, revoke it in the trust policy, too:  flyball trust revoke

        flyball revoke fraud@7 --reason "trained on leaked labels"
    """
    ref = ref_of(name, version)
    with opened(registry) as found:
        receipt = found.revoke(ref, actor=actor(by), reason=reason, stop=stop)
    if printed_as_json(receipt, json):
        return
    whole = f"{receipt.event.name}@{receipt.version}"
    say(f"{whole}   revoked: {reason}")
    next_step(f"flyball trust revoke {whole} --reason TEXT", "(for servers that cannot reach the registry)")


def retire(
    name: Ref,
    version: MaybeVersion = None,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Retire a version that is not placed. Its history stays.

    flyball retire fraud@3
    """
    ref = ref_of(name, version)
    with opened(registry) as found:
        receipt = found.retire(ref, actor=actor(by), reason=reason)
    if printed_as_json(receipt, json):
        return
    say(f"{receipt.event.name}@{receipt.version}   retired")
    next_step("flyball registry gc", "(lists artifacts that could be removed)")
