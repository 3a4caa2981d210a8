"""Topic: signatures. each tampered case is refused for its reason, and we agree with public tools and vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims import suites

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

CORPUS, TAMPERED_LEAST = Path("tests/golden/signing/cases.json"), 30
_CRATE = "flyball-signing"


def measure(stand: Stand) -> None:
    """The corpus, documents that are changed at random, the specification's vectors, and the tool."""
    expected = [case["expect"] for case in json.loads(CORPUS.read_text())["cases"]]
    reasons = [reason for reason in expected if reason != "ok"]
    title = f"{len(reasons)} tampered packages, bundles, releases, policies and indexes"
    figure = f"{len(reasons)}, {len(set(reasons))} reasons; {len(expected) - len(reasons)} more are sound"
    stand.report.record("tampered cases in the corpus", figure, f">= {TAMPERED_LEAST}", holds=len(reasons) >= TAMPERED_LEAST)
    bar, shows = "each refused with its one reason", f"{len(reasons)} of {len(reasons)}"
    suites.record(stand, f"{title}: from Python", suites.pytest("tests/unit/test_signing_corpus.py"), bar=bar, shows=shows)
    suites.record(stand, f"{title}: Rust", suites.cargo_test(_CRATE, "--test", "corpus"), bar=bar, shows=shows)
    more = {} if stand.quick else {"FLYBALL_TESTS": "full"}
    claim = "documents changed at random, including ones signed after the change"
    bar = "refused, or accepted as the same document"
    suites.record(stand, claim, suites.cargo_test(_CRATE, "--test", "signed", "mutations::"), more, bar=bar)
    vectors, bar = "test vectors of OpenSSF Model Signing v1.0", "taken, or refused for what we do not serve"
    suites.record(
        stand, f"{vectors}: from Python", suites.pytest("tests/unit/test_signing_oms.py", "-k", "public_vector"), bar=bar
    )
    suites.record(stand, f"{vectors}: Rust", suites.cargo_test(_CRATE, "--test", "signed", "oms::"), bar=bar)
    claim, bar = "the public model_signing tool and we, on three curves", "each verifies the other, and finds a changed byte"
    suites.record(stand, claim, suites.pytest("tests/unit/test_signing_interop.py"), bar=bar)
