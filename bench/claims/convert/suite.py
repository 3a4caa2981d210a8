"""The topics of `make claim-convert`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.convert import equal, folded, killed, quantise, served

SUITE = Suite(
    "convert",
    "Models converted and made faster",
    """Models are trained during the run: a perceptron of 12 MB, a CNN on pictures of 224 × 224 (stripes in six clear
directions), and a network whose inputs differ by six orders of magnitude, so that one 8-bit scale loses most of them.
The CNN's data were made easier until its gate passed: with stripes up to 0.45 of the way to the next direction all
three ways were refused, at 0.2 too.
""",
    (equal.TOPIC, quantise.TOPIC, served.TOPIC, killed.TOPIC, folded.TOPIC),
)
