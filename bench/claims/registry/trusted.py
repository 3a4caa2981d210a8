"""A registry's trust: a root key, keys by role, and the policy in its home.

Shared by the claims and the tests. Must not know what is registered.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.signing import keys
from flyball.signing.policy import TrustPolicy
from flyball.signing.trust import sign_policy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from flyball.registry.home import Home
    from flyball.signing.keys import PrivateKey
    from flyball.signing.policy import Role

_SINCE_S = 60


@dataclass(frozen=True, slots=True)
class Trusted:
    """The keys, and the policy that was signed."""

    root: PrivateKey
    keys: dict[str, PrivateKey]
    policy: TrustPolicy


def trusted(home: Home, people: Mapping[str, list[Role]]) -> Trusted:
    """New keys for all of these people, and a policy in the home, valid since a minute ago."""
    root, everybody = keys.generate(), {name: keys.generate() for name in people}
    now = int(time.time()) - _SINCE_S
    policy = TrustPolicy.first(now)
    for name, roles in people.items():
        policy = policy.with_key(everybody[name].public_key(), name, roles, since=now, until=None, now=now)
    home.trust_root.write_text(keys.public_pem(root.public_key()))
    home.trust.write_bytes(sign_policy(policy, [root]))
    return Trusted(root, everybody, policy)


def write_key(path: Path, key: PrivateKey) -> None:
    """A private key's file, for its owner alone."""
    path.touch(mode=0o600)
    path.write_text(keys.private_pem(key))
