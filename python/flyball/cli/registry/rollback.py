"""`flyball rollback`: places the previous version in an environment again."""

from __future__ import annotations

from typing import Annotated

from flyball.cli.option import AsJson, option
from flyball.cli.output import printed_as_json
from flyball.cli.registry.options import WHERE, By, Name, Reason, Where, actor, number_of, opened
from flyball.cli.registry.text import moment, next_step, say
from flyball.cli.registry.wait import Wait, live_servers, report, reports_of
from flyball.errors import UsageError


def rollback(
    name: Name,
    environment: Annotated[str, option("The environment.", "--environment", "-e", metavar="NAME")] = "production",
    version: Annotated[
        str | None, option("The version to go back to; by default the previous one.", metavar="VERSION")
    ] = None,
    wait: Wait = 10,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Roll back an environment to the previous version. No gates and approvals: that version passed them before.

    Skips, and reports, versions that servers would refuse now, for example because their release has expired. A
    candidate is removed first. Servers keep the previous version warm, so it serves within a second.

        flyball rollback fraud
    """
    if "@" in name:
        base, _, at = name.partition("@")
        raise UsageError(
            f"rollback takes a name, not a version: {name}", next_step=f"flyball rollback {base} --version {at}"
        )
    target = None if version is None else number_of(version)
    with opened(registry) as found:
        servers = live_servers(found.status(), environment) if wait else set()
        receipt = found.rollback(name, environment, actor=actor(by), reason=reason, to=target)
        reports = reports_of(found, receipt, environment, servers, wait)
    if printed_as_json({**receipt.model_dump(mode="json"), "servers": reports}, json):
        return
    left = receipt.event.body.get("from")
    say(f"{name}@{receipt.version} → {environment}   rolled back from {left}   {moment(receipt.event.at)}")
    for one in receipt.event.body.get("passed_over", ()):
        say(f"skipped {name}@{one['version']}: {one['why']}", style="yellow")
    report(receipt, reports, servers, environment)
    next_step(f"flyball status {name}", "(what servers report)")
