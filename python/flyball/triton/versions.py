"""Selects the versions to serve: Triton's version_policy over the numbered folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.errors import ModelRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flyball.triton.config import Config
    from flyball.triton.report import Notes

VERSIONS_MAX = 16
VERSION_MAX = 999_999_999


def chosen(config: Config, present: Iterable[int], notes: Notes) -> list[int]:
    """The versions to serve, ascending; the last is the default. Triton's default policy is the latest."""
    numbers = sorted(present)
    if not numbers:
        raise ModelRefusedError("it has no version folder: put the model into a folder named 1")
    wanted = _by_policy(config, numbers, notes)
    if not wanted:
        raise ModelRefusedError(f"no version of version_policy exists; found {_listed(numbers)}")
    if wanted[-1] > VERSION_MAX:
        raise ModelRefusedError(f"version {wanted[-1]} has more than 9 digits: rename its folder to a smaller number")
    if len(wanted) > VERSIONS_MAX:
        notes.unmapped("version_policy", f"only the latest {VERSIONS_MAX} of {len(wanted)} versions are served, the limit")
    return wanted[-VERSIONS_MAX:]


def _by_policy(config: Config, numbers: list[int], notes: Notes) -> list[int]:
    policy = config.message.version_policy
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        notes.mapped("version_policy.all", f"versions {_listed(numbers)}; {numbers[-1]} is the default")
        return numbers
    if choice == "specific":
        listed = sorted(set(policy.specific.versions))
        missing = [number for number in listed if number not in numbers]
        if missing:
            notes.unmapped("version_policy.specific", f"no folder for {_listed(missing)}")
        there = [number for number in listed if number in numbers]
        if there:
            answers = f"{there[-1]} is the default"
            notes.mapped("version_policy.specific", f"versions {_listed(there)}; {answers}")
        return there
    count = policy.latest.num_versions if choice == "latest" else 1
    if choice == "latest":
        if count == 0:
            notes.unmapped("version_policy.latest", "num_versions 0 would serve nothing: treated as 1")
        else:
            notes.mapped("version_policy.latest", f"versions {_listed(numbers[-count:])}")
    return numbers[-max(count, 1) :]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + ", …" * (len(numbers) > 8)
