"""`flyball approve` and `flyball reject`: people other than the author approve a version, or reject it."""

from __future__ import annotations

from flyball.cli.option import AsJson
from flyball.cli.output import printed_as_json
from flyball.cli.registry.options import WHERE, By, Key, MaybeVersion, Reason, Ref, Where, actor, opened, ref_of
from flyball.cli.registry.text import approvals, next_step, say, waits_for
from flyball.cli.registry.wait import act_is_done


def approve(
    name: Ref,
    key: Key,
    version: MaybeVersion = None,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Approve a version: sign its release on this machine, with your own key.

    Servers verify the signature before they load anything. Review the version first:  flyball registry show fraud@7

        flyball approve fraud@7 --key grace.pem
    """
    from flyball.registry.acts.signatures import approval
    from flyball.signing.keys import load_private

    ref = ref_of(name, version)
    loaded = load_private(key)
    with opened(registry) as found:
        shown = found.show(ref)
        whole = f"{shown.name}@{shown.number}"
        made = approval(shown, found.release(whole), loaded)
        receipt = found.approve(whole, signature=made.signature, key=made.key, actor=actor(by), reason=reason)
        with act_is_done(receipt):
            now, environments = found.show(whole), found.status(shown.name).environments
    if printed_as_json(now, json):
        return
    say(f"{whole}   approved by {receipt.event.body['approver']}   {approvals(now)}")
    next_step(*waits_for(now, environments))


def reject(
    name: Ref,
    reason: Reason,
    version: MaybeVersion = None,
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Reject a version, with a reason. Its approvals become void; its author may sign it again.

    flyball reject fraud@7 --reason "no validation report"
    """
    ref = ref_of(name, version)
    with opened(registry) as found:
        receipt = found.reject(ref, actor=actor(by), reason=reason)
    if printed_as_json(receipt, json):
        return
    say(f"{receipt.event.name}@{receipt.version}   rejected: {reason}")
    next_step(f"flyball registry history {receipt.event.name}")
