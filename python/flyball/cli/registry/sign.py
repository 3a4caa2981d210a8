"""`flyball sign`: the author signs a version's files and its release, on the machine with the key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from flyball.cli.expiry import moment_from_now
from flyball.cli.option import AsJson, option
from flyball.cli.output import printed_as_json
from flyball.cli.registry.options import WHERE, By, Key, MaybeVersion, Reason, Ref, Where, actor, opened, ref_of
from flyball.cli.registry.text import next_step, say, waits_for
from flyball.cli.registry.wait import act_is_done

_Folder = Annotated[Path | None, option("Sign only if the registry has exactly these files.", "--compare", metavar="DIR")]


def sign(
    name: Ref,
    key: Key,
    version: MaybeVersion = None,
    environment: Annotated[
        list[str] | None,
        option("An environment it may serve in; may be repeated. By default all.", "--environment", "-e", metavar="NAME"),
    ] = None,
    expires: Annotated[str, option("Expiry of the release: 90d, or a time.", "--expires", metavar="TIME")] = "365d",
    compare: _Folder = None,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Sign a version: its files, in the OpenSSF Model Signing format, and a release for its environments.

    The key stays on this machine; only signatures are sent. Signing again creates a new release, which needs new
    approvals.

        flyball sign fraud@7 --key risk.pem --environment staging --environment production
    """
    from flyball.registry.acts.signatures import check_same, signed
    from flyball.signing.keys import load_private
    from flyball.signing.strict import written

    ref = ref_of(name, version)
    not_after = moment_from_now(expires, "--expires")
    loaded = load_private(key)
    with opened(registry) as found:
        shown = found.show(ref)
        whole = f"{shown.name}@{shown.number}"
        if compare is not None:
            check_same(shown, compare)
        environments = found.status(shown.name).environments
        where = environment or environments
        bundle, release = signed(shown, found.statement(whole), loaded, environments=where, not_after=not_after)
        receipt = found.sign(whole, bundle=bundle, release=release, actor=actor(by), reason=reason)
        with act_is_done(receipt):
            now = found.show(whole)
    if printed_as_json(now, json):
        return
    say(f"{now.name}@{now.number}   signed by {now.signed_by}   for {', '.join(where)}, until {written(not_after)}")
    next_step(*waits_for(now, environments))
