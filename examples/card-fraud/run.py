"""The whole example: data, training, features, and a running decision that decides a week of payments. `python run.py`

What is there already is kept; delete made/ to begin anew.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import make_data
import numpy as np
import pandas as pd
import train

import flyball
from flyball.bench.report.drawing import INK, SOFT, halo, look

sys.path.append(str(Path(__file__).resolve().parents[1]))
from report import latency, picture, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).resolve().parent
MADE = HERE / "made"
OUTCOMES = {"pass": 0.0, "review": 0.3, "reject": 0.8}  # the score at which each begins, as in card-fraud.yaml


def main() -> None:
    """Make what is missing, serve in this process, decide, stop."""
    if not (MADE / "held_out.csv").exists():
        print("making payments …")
        make_data.make()
    if not (MADE / "card-fraud.trees.json").exists():
        print(f"training {train.TREES} trees …\n")
        train.train()
    if not (MADE / "cards.redb").exists():
        push_cards()
    held_out = pd.read_csv(MADE / "held_out.csv")
    with flyball.Decision.load(HERE / "card-fraud.yaml") as fraud:
        # In the order of their time, and first: a window returns missing until it has run for its full length.
        decided, seconds = decide_each(fraud, held_out)
        for title, payment in payments(now=int(held_out["time"].iloc[-1]) + 900):
            show(title, fraud.decide(payment))
    show_outcomes(decided)
    print(f"one decision: {latency(seconds)}")
    draw(decided)


def push_cards() -> None:
    """What is known of each card, into the embedded store that the feature `home` is looked up in."""
    command = [sys.executable, "-m", "flyball", "features", "push", str(MADE / "cards.csv")]
    into = ["--store", str(MADE / "cards.redb"), "--set", "cards", "--key-column", "card_id"]
    subprocess.run([*command, *into], check=True, capture_output=True)


def decide_each(fraud: flyball.Decision, held_out: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """Decide every payment in a request of its own; also how long each took."""
    decided, seconds = [], []
    for row in held_out[list(fraud.spec.input)].to_dict("records"):
        began = time.perf_counter()
        decided.append(fraud.decide(row))
        seconds.append(time.perf_counter() - began)
    return held_out.assign(outcome=[one.outcome for one in decided], score=[one.score for one in decided]), seconds


def payments(now: int) -> list[tuple[str, dict[str, object]]]:
    """One payment of each kind."""
    cards = dict(pd.read_csv(MADE / "cards.csv")[["home_country", "card_id"]].itertuples(index=False))
    usual: dict[str, object] = {"currency": "EUR", "mcc": 5411, "channel": "contactless", "distance_km": 2.0}
    german, spanish, french = ({**usual, "card_id": cards[home], "country": home} for home in ("DE", "ES", "FR"))
    burst = [
        (
            f"stolen card, payment {number + 1}",
            {**spanish, "time": now - 600 + 30 * number, "amount": 180.0 + 40 * number, "channel": "online", "mcc": 7995},
        )
        for number in range(3)
    ]
    for _, payment in burst:
        del payment["distance_km"]
    return [
        ("groceries", {**german, "time": now - 900, "amount": 31.9}),
        *burst,
        ("far from home", {**german, "time": now, "amount": 6400.0, "country": "US", "currency": "USD"}),
        ("unknown card", {**french, "time": now, "amount": 20.0, "card_id": "nobody's"}),
    ]


def show(title: str, decided: flyball.Decided) -> None:
    """One decision in a few lines."""
    score = "no score" if decided.score is None else f"{decided.score:.3f}"
    print(f"{title:<24} {decided.outcome} ({score})")
    for reason in decided.reasons:
        pushed = "" if reason.contribution is None else f"   {reason.contribution:+.2f} by {reason.field}"
        print(f"    {reason.code}  {reason.text or reason.field}{pushed}")


def show_outcomes(decided: pd.DataFrame) -> None:
    """What became of the week: of good payments, of fraud and of its money."""
    fraud = decided["fraud"] == 1
    print(f"\n{len(decided):,} payments of the fourth week, {fraud.sum()} of them fraud; the first three are trained on")
    rows = []
    for outcome in OUTCOMES:
        here = decided["outcome"] == outcome
        money = decided.loc[here & fraud, "amount"].sum() / decided.loc[fraud, "amount"].sum()
        good, bad = (here & ~fraud).sum() / (~fraud).sum(), (here & fraud).sum() / fraud.sum()
        rows.append((outcome, f"{here.sum():,}", f"{good:.1%}", f"{bad:.1%}", f"{money:.1%}"))
    table(["outcome", "payments", "of the good", "of the fraud", "of the fraud's euros"], rows)


def draw(decided: pd.DataFrame) -> None:
    """The scores of good payments and of fraud, and what other bands would catch."""
    fraud, stopped = decided["fraud"] == 1, decided["outcome"] != "pass"
    good = (stopped & ~fraud).sum() / (~fraud).sum()
    caught = decided.loc[fraud & stopped, "amount"].sum() / decided.loc[fraud, "amount"].sum()
    title = f"Reviewing or rejecting {good:.1%} of good payments stops {caught:.0%} of the stolen euros"
    about = f"{len(decided):,} made-up payments of a week that was not trained on, {fraud.sum()} of them fraud."
    with picture(MADE / "card-fraud.png", title, about, 2) as (scores, trade):
        draw_scores(scores, decided)
        draw_trade(trade, decided)


def draw_scores(axes: Axes, decided: pd.DataFrame) -> None:
    """How many payments have which score, between the ends of the bands."""
    for index, (title, truth) in enumerate((("good", 0), ("fraud", 1))):
        found = decided.loc[decided["fraud"] == truth, "score"]
        axes.hist(found, np.linspace(0, 1, 21), color=look(index)["color"], alpha=0.65, label=title)
    ends = [*OUTCOMES.values(), 1.0]
    for outcome, begin, end in zip(OUTCOMES, ends, ends[1:], strict=False):
        axes.annotate(
            outcome, ((begin + end) / 2, 0.975), xycoords=("data", "axes fraction"), ha="center", va="top", color=INK
        )
    for begin in ends[1:-1]:
        axes.axvline(begin, color=SOFT, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.set(yscale="log", ylim=(0.7, 3e4), xlim=(0, 1), xlabel="score")
    axes.yaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")
    axes.legend(loc="upper center", bbox_to_anchor=(0.55, 0.9))
    axes.set_title("Payments by score")


def draw_trade(axes: Axes, decided: pd.DataFrame) -> None:
    """The share of the stolen euros above each score, against the share of good payments there."""
    ordered = decided.sort_values("score", ascending=False)
    good, stolen = (ordered["fraud"] == 0).cumsum(), (ordered["amount"] * ordered["fraud"]).cumsum()
    good, stolen = good / good.iloc[-1] * 100, stolen / stolen.iloc[-1] * 100
    axes.plot(good, stolen, color=look(0)["color"])
    for outcome, below in (("reject", -16), ("review", -18)):
        last = (ordered["score"] >= OUTCOMES[outcome]).sum() - 1
        place = (good.iloc[last], stolen.iloc[last])
        axes.plot(*place, color=look(1)["color"], marker="o", markersize=7)
        note = axes.annotate(f"score ≥ {OUTCOMES[outcome]:g}", place, (7, below), textcoords="offset points")
        note.set_path_effects(halo())
    axes.set(xlim=(0, 5), ylim=(0, 100), xlabel="good payments with at least this score")
    axes.xaxis.set_major_formatter(lambda percent, _: f"{percent:g} %")
    axes.yaxis.set_major_formatter(lambda percent, _: f"{percent:g} %")
    axes.set_title("Stolen euros with at least this score")


if __name__ == "__main__":
    main()
