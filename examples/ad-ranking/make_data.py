"""Makes ad impressions from a seed: what was shown to whom, and whether it was clicked. No real people are involved.

Writes made/impressions.csv to train on, one ad each; and made/auctions.csv, held out, with every candidate of 1,000 page
views. Of those it also has the click of ads that nobody would have shown, which only made-up data can know.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

MADE = Path(__file__).resolve().parent / "made"
SEED = 20261115
ADS = 300
IMPRESSIONS = 60_000
VIEWS, CANDIDATES = 1000, 40
CATEGORIES = ["travel", "games", "finance", "fashion", "food", "cars"]
TYPICAL_BID = np.array([0.9, 0.35, 2.2, 0.6, 0.4, 1.4])
DEVICES = ["phone", "desktop", "tablet"]


def make() -> None:
    """Write both files."""
    random = np.random.default_rng(SEED)
    ads = make_ads(random)
    MADE.mkdir(exist_ok=True)
    shown = random.integers(0, ADS, IMPRESSIONS)
    impressions(random, ads, shown, per_view=1).to_csv(MADE / "impressions.csv", index=False)
    candidates = np.concatenate([random.choice(ADS, CANDIDATES, replace=False) for _ in range(VIEWS)])
    auctions = impressions(random, ads, candidates, per_view=CANDIDATES)
    auctions.insert(0, "view", np.repeat(np.arange(VIEWS), CANDIDATES))
    auctions.to_csv(MADE / "auctions.csv", index=False)


def make_ads(random: np.random.Generator) -> pd.DataFrame:
    """Ads with a bid, an appeal that nobody sees, and last week's click rate, which shows some of it."""
    category = random.integers(0, len(CATEGORIES), ADS)
    appeal = random.normal(0, 0.7, ADS)
    # Cheap ads are often good ones: who knows that few will click has to pay for each.
    bid = TYPICAL_BID[category] * np.exp(random.normal(0, 0.6, ADS) - 0.45 * appeal)
    views_7d = random.integers(50, 5000, ADS)
    rate = random.binomial(views_7d, 1 / (1 + np.exp(3.1 - appeal))) / views_7d
    return pd.DataFrame(
        {
            "ad_id": [f"ad-{number:03d}" for number in range(ADS)],
            "category": category,
            "bid": np.round(np.clip(bid, 0.05, 20), 2),
            "appeal": appeal,
            "ad_ctr_7d": np.where(random.random(ADS) < 0.08, np.nan, np.round(rate, 4)),
            "ad_age_days": random.integers(0, 120, ADS),
        }
    )


def impressions(random: np.random.Generator, ads: pd.DataFrame, which: np.ndarray, per_view: int) -> pd.DataFrame:
    """These ads, each before a user; `per_view` of them in a row are before the same one."""
    rows = ads.iloc[which].reset_index(drop=True)
    views = len(rows) // per_view
    reads = random.dirichlet(np.full(len(CATEGORIES), 0.5), views).repeat(per_view, axis=0)
    interest = reads[np.arange(len(rows)), rows["category"]]
    device = random.choice(len(DEVICES), views, p=[0.6, 0.3, 0.1]).repeat(per_view)
    hour = random.integers(0, 24, views).repeat(per_view)
    seen = random.poisson(0.7, len(rows))
    evening, small = (hour >= 18), (device == 0)
    logit = (
        -4.1
        + rows["appeal"]
        + 2.4 * np.sqrt(interest)
        - 0.35 * seen
        + 0.5 * np.where(rows["category"] == 1, evening & small, 0)  # games: on the phone, in the evening
        - 0.6 * np.where(rows["category"] == 2, small, 0)  # finance: not on the phone
        + 0.4 * np.where(rows["category"] == 4, np.isin(hour, [11, 12, 17, 18]), 0)  # food: before meals
    )
    return rows.drop(columns="appeal").assign(
        category=np.array(CATEGORIES)[rows["category"]],
        interest=np.round(interest, 4),
        device=np.array(DEVICES)[device],
        hour=hour,
        seen_24h=seen,
        clicked=(random.random(len(rows)) < 1 / (1 + np.exp(-logit))).astype(int),
    )


if __name__ == "__main__":
    make()
