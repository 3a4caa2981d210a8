"""`flyball approve` and `flyball reject`: people other than the author say yes, with their own key, or no."""

from __future__ import annotations

from flyball.cli.registry.options import (
    WHERE,
    As,
    AsJson,
    Key,
    MaybeVersion,
    NeededReason,
    Reason,
    Ref,
    Where,
    actor,
    opened,
    ref_of,
)
from flyball.cli.registry.wait import kept


def approve(
    name: Ref,
    key: Key,
    version: MaybeVersion = None,
    reason: Reason = "",
    by: As = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Approve a version: your signature under its release, made on this machine with your own key.

    Servers check it again before they load anything. Look at what you sign first:  flyball registry show fraud@7

        flyball approve fraud@7 --key grace.pem
    """
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import approvals, next_step, say, waits_for
    from flyball.registry.acts.signatures import approval
    from flyball.signing.keys import load_private

    ref = ref_of(name, version)
    loaded = load_private(key)
    with opened(registry) as found:
        shown = found.show(ref)
        whole = f"{shown.name}@{shown.number}"
        made = approval(shown, found.release(whole), loaded)
        receipt = found.approve(whole, signature=made.signature, key=made.key, actor=actor(by), reason=reason)
        with kept(receipt):
            now, places = found.show(whole), found.status(shown.name).environments
    if json:
        print_json(now.model_dump(mode="json"))
        return
    say(f"{whole}   approved by {receipt.event.body['approver']}   {approvals(now)}")
    next_step(*waits_for(now, places))


def reject(
    name: Ref,
    reason: NeededReason,
    version: MaybeVersion = None,
    by: As = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Say no to a version, and why. Approvals that it had are void; its author may sign it again.

    flyball reject fraud@7 --reason "no validation report"
    """
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import next_step, say

    ref = ref_of(name, version)
    with opened(registry) as found:
        receipt = found.reject(ref, actor=actor(by), reason=reason)
    if json:
        print_json(receipt.model_dump(mode="json"))
        return
    say(f"{receipt.event.name}@{receipt.version}   rejected: {reason}")
    next_step(f"flyball registry history {receipt.event.name}")
