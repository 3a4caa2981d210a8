"""Exact bounds on the number of successes in independent draws of one probability."""

from fractions import Fraction
from math import comb


def within(draws: int, share: Fraction, *, missed: Fraction = Fraction(1, 10**9)) -> range:
    """The counts that are left when each tail of at most half of `missed` is cut off."""
    terms = [comb(draws, count) * share**count * (1 - share) ** (draws - count) for count in range(draws + 1)]
    return range(_cut(terms, missed / 2), draws + 1 - _cut(terms[::-1], missed / 2))


def _cut(terms: list[Fraction], missed: Fraction) -> int:
    """How many of the first terms come to no more than that."""
    total = Fraction(0)
    for count, term in enumerate(terms):
        total += term
        if total > missed:
            return count
    return len(terms)
