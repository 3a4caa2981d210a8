"""The topics of `make claim-truth`: one for each mutant."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import none
from bench.claims.claim import Claim, Suite, Topic
from bench.claims.truth import trial
from bench.claims.truth.checkout import Checkout
from bench.claims.truth.mutants import MUTANTS

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from bench.claims.truth.mutants import Mutant


def _measure(stand: Stand, mutant: Mutant) -> None:
    stand.keep(trial.TRIAL, trial.try_out(Checkout(), mutant))


def _topic(mutant: Mutant) -> Topic:
    where = f"`crates/{mutant.crate}`: " if mutant.crate and not mutant.in_python else ""
    named = ", ".join(f"`{test}`" for test in mutant.tests)
    title = mutant.name.replace("-", " ")
    return Topic(
        mutant.name,
        partial(_measure, mutant=mutant),
        subject=mutant.breaks,
        sample=f"must fail: {where}{named}",
        claims=(Claim("caught", f"{title}: named tests that still pass", none(), trial.missed),),
    )


SUITE = Suite(
    "truth",
    "Faults that the tests catch",
    """Each topic is a mutant: a fault that is put into the code by a patch in `bench/claims/truth/mutants`. Its tests,
all of `make test`, must pass without the patch and fail with it. A mutant that does not compile falls short.
""",
    tuple(map(_topic, MUTANTS)),
)
