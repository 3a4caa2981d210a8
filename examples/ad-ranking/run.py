"""The whole example: data, training, and 1,000 page views whose ads are ranked by value. `python run.py`

What is there already is kept; delete made/ to begin anew.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
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
PLACES, PLACES_MAX = 3, 10
FLOOR = 0.02
ORDERS = {"expected value": "value", "bid": "bid", "chance of a click": "click", "at random": "random"}


def main() -> None:
    """Make what is missing, serve in this process, rank, stop."""
    if not (MADE / "auctions.csv").exists():
        print("making impressions …")
        make_data.make()
    if not (MADE / "value.onnx").exists():
        print(f"training {train.TREES} trees …\n")
        train.train()
    auctions = pd.read_csv(MADE / "auctions.csv")
    with flyball.Decision.load(HERE / "ad-ranking.yaml") as ranking:
        ranked, seconds = rank(ranking, auctions)
    view = ranked[ranked["view"] == 0]
    show_view(view)
    show_skipped(ranked)
    earned = show_orders(ranked)
    print(f"one request for {make_data.CANDIDATES} candidates: {latency(seconds)}")
    draw(view, earned)


def rank(ranking: flyball.Decision, auctions: pd.DataFrame) -> tuple[pd.DataFrame, list[float]]:
    """Value every candidate, one request for each page view; also how long each request took."""
    fields = list(ranking.spec.input)
    decided, seconds = [], []
    for _, candidates in auctions.groupby("view"):
        rows = candidates[fields].to_dict("records")
        began = time.perf_counter()
        answers = ranking.decide_rows(rows)
        seconds.append(time.perf_counter() - began)
        decided += [answer.decided for answer in answers]
    ranked = auctions.assign(
        outcome=[one.outcome for one in decided],
        reason=[one.reasons[0].text if one.reasons else "" for one in decided],
        value=[one.score for one in decided],
        click=[one.scores["click"] for one in decided],
        random=np.random.default_rng(make_data.SEED).random(len(auctions)),
    )
    return ranked, seconds


def best_of(ranked: pd.DataFrame, order: str, places: int) -> pd.DataFrame:
    """The first ads of each page view that may be shown."""
    shown = ranked[ranked["outcome"] == "show"]
    return shown.sort_values(["view", order], ascending=[True, False], kind="stable").groupby("view").head(places)


def show_view(view: pd.DataFrame) -> None:
    """The first ads of one page view."""
    print(f"one page view: the best {PLACES + 2} of {len(view)} candidates")
    best = best_of(view, "value", PLACES + 2)
    rows = [(ad.ad_id, ad.category, f"{ad.bid:.2f} €", f"{ad.click:.1%}", f"{ad.value:.3f} €") for ad in best.itertuples()]
    table(["ad", "category", "bid", "click", "value"], rows)


def show_skipped(ranked: pd.DataFrame) -> None:
    """Why candidates may not be shown."""
    skipped = ranked.loc[ranked["outcome"] == "skip", "reason"].replace("", f"its value is below {FLOOR:.2f} €")
    print(f"{len(ranked):,} candidates, {len(skipped):,} are skipped")
    table(["because", "ads"], [(why, f"{count:,}") for why, count in Counter(skipped).most_common()])


def show_orders(ranked: pd.DataFrame) -> dict[str, list[float]]:
    """What each order would have earned; euros per 1,000 page views, for 1 to 10 places."""
    per_1000 = 1000 / ranked["view"].nunique()
    ranked = ranked.assign(known=ranked["bid"] * ranked["clicked"])
    hindsight = best_of(ranked, "known", PLACES)["known"].sum() * per_1000
    earned, rows = {}, []
    for title, order in ORDERS.items():
        chosen = [best_of(ranked, order, places) for places in range(1, PLACES_MAX + 1)]
        earned[title] = [float(best["known"].sum()) * per_1000 for best in chosen]
        euros, clicks = earned[title][PLACES - 1], chosen[PLACES - 1]["clicked"].sum() * per_1000
        rows.append((title, f"{euros:.0f} €", f"{clicks:.0f}", f"{euros / hindsight:.0%}"))
    print(f"{ranked['view'].nunique():,} page views with {PLACES} places, by the clicks that were held out; per 1,000 views")
    table(["ranked by", "earned", "clicks", "of the best in hindsight"], rows)
    return earned


def draw(view: pd.DataFrame, earned: dict[str, list[float]]) -> None:
    """One page view's candidates by bid and click, and what each order earns."""
    more = earned["expected value"][PLACES - 1] / earned["bid"][PLACES - 1] - 1
    title = f"Ads ranked by expected value earn {more:.0%} more than by bid"
    about = f"Made-up data. Left: one page view, {len(view)} ads. Right: {make_data.VIEWS:,} page views, not trained on."
    with picture(MADE / "ad-ranking.png", title, about, 2) as (one_view, all_views):
        draw_view(one_view, view)
        draw_earned(all_views, earned)


def draw_view(axes: Axes, view: pd.DataFrame) -> None:
    """Bids and click chances; ads on one dashed line are worth the same."""
    best = best_of(view, "value", PLACES)
    shown = view[(view["outcome"] == "show") & ~view.index.isin(best.index)]
    skipped = view[view["outcome"] == "skip"]
    axes.scatter(skipped["bid"], skipped["click"] * 100, s=24, marker="x", color=SOFT, linewidths=1, label="skipped")
    axes.scatter(shown["bid"], shown["click"] * 100, s=26, color=look(5)["color"], label="may be shown")
    axes.scatter(best["bid"], best["click"] * 100, s=60, color=look(1)["color"], label=f"the best {PLACES}", zorder=3)
    axes.set(
        xscale="log", yscale="log", xlim=(0.045, 30), ylim=(0.25, 16), xlabel="bid, €", ylabel="predicted chance of a click"
    )
    bids = np.array([0.045, 30])
    for value, percent in ((FLOOR, 0.4), (0.05, 0.5), (0.15, 0.8)):
        axes.plot(bids, 100 * value / bids, color=SOFT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        place = (100 * value / percent, percent)
        note = axes.annotate(f"{value:.2f} €", place, ha="center", va="center", color=INK, fontsize=9.5)
        note.set_path_effects(halo())
    axes.xaxis.set_major_formatter(lambda bid, _: f"{bid:g}")
    axes.yaxis.set_major_formatter(lambda percent, _: f"{percent:g} %")
    axes.legend(loc="lower left", handletextpad=0.2, borderpad=0.1)
    axes.set_title("Value = bid × chance of a click")


def draw_earned(axes: Axes, earned: dict[str, list[float]]) -> None:
    """One line for each order, with its name at its end."""
    places = range(1, PLACES_MAX + 1)
    for index, euros in enumerate(earned.values()):
        axes.plot(places, euros, **look(index))
    axes.set(xlabel="ads on a page", xlim=(0.7, PLACES_MAX + 0.3), xticks=[1, 3, 5, 7, 9], ylim=(0, None))
    axes.legend(list(earned), loc="upper left", borderpad=0.1)
    axes.yaxis.set_major_formatter(lambda euros, _: f"{euros:,.0f} €")
    axes.set_title("Earned by 1,000 page views")


if __name__ == "__main__":
    main()
