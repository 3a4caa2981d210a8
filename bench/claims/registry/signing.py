"""Topic: signatures; each tampered case is refused for its reason, and we agree with public tools and vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims import suites
from bench.claims.bars import none
from bench.claims.claim import Change, Claim, Figure, Raw, Topic
from bench.claims.figures import suite_failures

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.tails.stand import Stand

CORPUS, TAMPERED_LEAST = Path("tests/golden/signing/cases.json"), 30
_CRATE = "flyball-signing"


def measure(stand: Stand) -> None:
    """The corpus, documents that are changed at random, the specification's vectors, and the tool."""
    expected = [case["expect"] for case in json.loads(CORPUS.read_text())["cases"]]
    reasons = [reason for reason in expected if reason != "ok"]
    stand.keep("corpus", {"tampered": len(reasons), "reasons": len(set(reasons)), "sound": len(expected) - len(reasons)})
    suites.keep(stand, "corpus-python", suites.pytest("tests/unit/test_signing_corpus.py"))
    suites.keep(stand, "corpus-rust", suites.cargo_test(_CRATE, "--test", "corpus"))
    more = {} if stand.quick else {"FLYBALL_TESTS": "full"}
    suites.keep(stand, "changed", suites.cargo_test(_CRATE, "--test", "signed", "mutations::"), more)
    suites.keep(stand, "vectors-python", suites.pytest("tests/unit/test_signing_oms.py", "-k", "public_vector"))
    suites.keep(stand, "vectors-rust", suites.cargo_test(_CRATE, "--test", "signed", "oms::"))
    suites.keep(stand, "tool", suites.pytest("tests/unit/test_signing_interop.py"))


def _corpus(name: str) -> Callable[[Raw], Figure]:
    """A suite's failures; each case of the corpus must have been one of its tests, and there must be enough of them."""
    failures = suite_failures(name)

    def figure(raw: Raw) -> Figure:
        tests, cases = failures(raw), raw["corpus"]
        told = f"{tests.beside}; {cases['tampered']} tampered cases with {cases['reasons']} reasons, {cases['sound']} valid"
        fault = tests.fault
        if cases["tampered"] < TAMPERED_LEAST:
            fault = fault or f"the corpus has less than {TAMPERED_LEAST} tampered cases"
        if raw[name]["passed"] + raw[name]["failed"] < cases["tampered"] + cases["sound"]:
            fault = fault or f"{raw[name]['passed']} tests passed, fewer than there are cases"
        return Figure(tests.value, told, fault)

    return figure


def _suite(name: str, sentence: str) -> Claim:
    return Claim(name, sentence, none(), suite_failures(name))


_CASES = "tampered packages, bundles, releases, policies and indexes not refused with their one reason"
_VECTORS = "test vectors of OpenSSF Model Signing v1.0 neither accepted nor refused for an unsupported feature"
TOPIC = Topic(
    "signing",
    measure,
    subject="signatures: the tampered corpus, documents changed at random, public vectors, the public tool",
    sample=f"every case of {CORPUS}, full numbers of random cases",
    claims=(
        Claim(
            "corpus-python",
            f"from Python: tests with {_CASES}",
            none(f"each case is a test, at least {TAMPERED_LEAST} are tampered"),
            _corpus("corpus-python"),
            changes=(Change("bar", "none", "The corpus's size was a line of its own, which no server could fail."),),
        ),
        _suite("corpus-rust", f"in Rust: tests with {_CASES}"),
        _suite("changed", "properties in which a changed document, signed afterwards or not, is accepted as another"),
        _suite("vectors-python", f"from Python: {_VECTORS}"),
        _suite("vectors-rust", f"in Rust: suites with {_VECTORS}"),
        _suite("tool", "curves on which we and the public model_signing tool differ, or miss a changed byte"),
    ),
)
