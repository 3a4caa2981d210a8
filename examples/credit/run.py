"""The whole example: data, training, a running decision, and letters to those it declines. `python run.py`

What is there already is kept; delete made/ to begin anew.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import letters
import make_data
import numpy as np
import pandas as pd
import train
from matplotlib.ticker import NullLocator

import flyball
from flyball.bench.report.drawing import INK, SOFT, look

sys.path.append(str(Path(__file__).resolve().parents[1]))
from report import latency, picture, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
MADE = HERE / "made"
OUTCOMES = {"approve": 0.0, "review": 0.12, "decline": 0.25}  # the score at which each begins, as in credit.yaml
REASONS_DRAWN = 7

SOUND: dict[str, object] = {
    "applicant_id": "s-1",
    "income": 2900.0,
    "monthly_debt": 350.0,
    "amount": 8000.0,
    "term_months": 48,
    "employment": "permanent",
    "employed_months": 74,
    "late_payments_24m": 0,
    "inquiries_6m": 1,
    "utilisation": 0.22,
    "oldest_account_months": 131,
    "open_default": False,
}
STRAINED = {
    **SOUND,
    "applicant_id": "s-2",
    "income": 1450.0,
    "monthly_debt": 690.0,
    "employment": "temporary",
    "employed_months": 4,
    "late_payments_24m": 4,
    "inquiries_6m": 5,
    "utilisation": 0.97,
}
WITHOUT_HISTORY = {key: value for key, value in STRAINED.items() if key not in ("utilisation", "oldest_account_months")}
SAMPLES = {
    "sound": SOUND,
    "strained": STRAINED,
    "no history yet": {**WITHOUT_HISTORY, "applicant_id": "s-3"},
    "open default": {**SOUND, "applicant_id": "s-4", "open_default": True},
    "a large sum": {**SOUND, "applicant_id": "s-5", "income": 7200.0, "amount": 60_000.0, "term_months": 84},
}


def main() -> None:
    """Make what is missing, serve in this process, decide, stop."""
    if not (MADE / "held_out.csv").exists():
        print("making loans …")
        make_data.make()
    if not (MADE / "credit.trees.json").exists():
        print(f"training {train.TREES} trees …\n")
        train.train()
    held_out = pd.read_csv(MADE / "held_out.csv")
    with flyball.Decision.load(HERE / "credit.yaml") as credit:
        for title, application in SAMPLES.items():
            decided = credit.decide(application)
            show(title, decided)
            if decided.outcome == "decline":
                print(f"    letter: {os.path.relpath(letters.write(MADE / 'letters', application, decided))}")
        loans, seconds = decide_each(credit, held_out)
    show_outcomes(loans)
    reasons = show_reasons(loans)
    print(f"one decision: {latency(seconds)}")
    draw(loans, reasons)


def show(title: str, decided: flyball.Decided) -> None:
    """One decision, and what the applicant is told."""
    score = "no score" if decided.score is None else f"{decided.score:.3f}"
    print(f"{title:<16} {decided.outcome} ({score})")
    for reason in decided.reasons:
        print(f"    {reason.code}  {reason.text}")


def decide_each(credit: flyball.Decision, held_out: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """Decide every application in a request of its own; also how long each took."""
    decided, seconds = [], []
    for row in held_out[list(credit.spec.input)].to_dict("records"):
        began = time.perf_counter()
        decided.append(credit.decide(row))
        seconds.append(time.perf_counter() - began)
    loans = held_out.assign(
        outcome=[one.outcome for one in decided],
        score=[one.score for one in decided],
        reason=[one.reasons[0].text if one.reasons else None for one in decided],
    )
    return loans, seconds


def show_outcomes(loans: pd.DataFrame) -> None:
    """What became of the loans, had each been granted."""
    print(f"\n{len(loans):,} later applications; {loans['defaulted'].mean():.1%} of these loans would default")
    rows = []
    for outcome in OUTCOMES:
        here = loans[loans["outcome"] == outcome]
        lost = here["defaulted"].sum() / loans["defaulted"].sum()
        rows.append(
            (outcome, f"{len(here):,}", f"{len(here) / len(loans):.1%}", f"{here['defaulted'].mean():.1%}", f"{lost:.1%}")
        )
    table(["outcome", "loans", "of all", "would default", "of all defaults"], rows)


def show_reasons(loans: pd.DataFrame) -> Counter[str]:
    """The first reason of each declined application."""
    reasons = Counter(loans.loc[loans["outcome"] == "decline", "reason"])
    print(f"{reasons.total():,} applications are declined, each with its main reasons")
    rows = [(why, f"{count:,}") for why, count in reasons.most_common()]
    table(["first reason", "applications"], rows)
    return reasons


def draw(loans: pd.DataFrame, reasons: Counter[str]) -> None:
    """Whether the model's chances are right, and why applications are declined."""
    approved = loans[loans["outcome"] == "approve"]
    share, before, after = len(approved) / len(loans), loans["defaulted"].mean(), approved["defaulted"].mean()
    title = f"Approving {share:.0%} of the loans lowers defaults from {before:.1%} to {after:.1%}"
    about = f"{len(loans):,} made-up applications that were not trained on."
    with picture(MADE / "credit.png", title, about, 2) as (chances, why):
        draw_chances(chances, loans)
        draw_reasons(why, reasons)


def draw_chances(axes: Axes, loans: pd.DataFrame) -> None:
    """Loans in ten groups by score: how many were expected to default, and how many did."""
    groups = loans.groupby(pd.qcut(loans["score"], 10, labels=False))
    expected, found, count = groups["score"].mean(), groups["defaulted"].mean(), groups.size()
    error = 196 * np.sqrt(found * (1 - found) / count)
    axes.plot([1, 100], [1, 100], color=SOFT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.errorbar(expected * 100, found * 100, error, fmt="o", color=look(0)["color"], elinewidth=1.3)
    ends = [1.0, *(begin * 100 for begin in OUTCOMES.values() if begin), 100.0]
    for outcome, begin, end in zip(OUTCOMES, ends, ends[1:], strict=False):
        place = (math.sqrt(begin * end), 0.985)
        axes.annotate(outcome, place, xycoords=("data", "axes fraction"), ha="center", va="top", color=INK, fontsize=10)
        if begin > 1:
            axes.axvline(begin, color=SOFT, linewidth=1.2, linestyle=(0, (1, 2)))
    ticks = [1, 2, 5, 10, 20, 50, 100]
    axes.set(xscale="log", yscale="log", xlim=(1, 100), ylim=(0.5, 150), xticks=ticks, yticks=ticks)
    axes.set(xlabel="predicted to default", ylabel="defaulted")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda percent, _: f"{percent:g} %")
        axis.set_minor_locator(NullLocator())
    axes.set_title("Ten groups of loans, by score")


def draw_reasons(axes: Axes, reasons: Counter[str]) -> None:
    """Bars with the count of each first reason, its text above it."""
    shown = reasons.most_common(REASONS_DRAWN)
    if others := reasons.total() - sum(count for _, count in shown):
        shown.append(("other reasons", others))
    for place, (text, count) in enumerate(shown):
        axes.barh(place, count, height=0.36, color=look(1)["color"])
        axes.annotate(f"{count:,}  {text}", (0, place - 0.24), (1, 1.5), textcoords="offset points", fontsize=9.5)
    axes.set(ylim=(len(shown) - 0.6, -0.8), yticks=[], xlabel="applications")
    axes.grid(visible=False, axis="y")
    axes.set_title("First reason of declined applications")


if __name__ == "__main__":
    main()
