"""Makes loans from a seed: applications, and whether they were paid back. No real people are involved.

Writes made/loans.csv with every field of the spec, its computed feature, and `defaulted`.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

MADE = Path(__file__).resolve().parent / "made"
SEED = 20261115
LOANS = 12_000
EMPLOYMENT = ["permanent", "temporary", "self_employed", "none"]


def make() -> None:
    """Write the file."""
    random = np.random.default_rng(SEED)
    employment = random.choice(4, LOANS, p=[0.66, 0.16, 0.13, 0.05])
    income = np.round(random.lognormal(7.7, 0.42, LOANS) * np.array([1.0, 0.8, 1.05, 0.45])[employment], 2)
    amount = np.round(np.clip(random.lognormal(8.8, 0.8, LOANS), 500, 75_000), -1)
    term = random.choice([12, 24, 36, 48, 60, 84], LOANS, p=[0.12, 0.2, 0.28, 0.2, 0.14, 0.06])
    monthly_debt = np.round(income * random.beta(1.6, 5.5, LOANS), 2)
    employed = np.where(employment == 3, 0, np.minimum(random.exponential(60, LOANS), 480)).astype(int)
    late = random.poisson(np.where(random.random(LOANS) < 0.15, 2.2, 0.12))
    inquiries = random.poisson(1.1, LOANS)
    without_line, without_history = random.random(LOANS) < 0.2, random.random(LOANS) < 0.1
    utilisation = np.round(random.beta(1.4, 2.2, LOANS) * 1.1, 3)
    oldest = random.gamma(2.2, 45, LOANS).astype(int)
    debt_to_income = monthly_debt / income
    burden = debt_to_income + amount / term / income
    logit = (
        -3.9
        + 2.6 * np.clip(burden, 0, 1.5)
        + 0.75 * np.minimum(late, 5)
        + 0.22 * inquiries
        + 1.1 * np.where(without_line, 0.4, utilisation)
        + np.array([0.0, 0.45, 0.35, 1.1])[employment]
        - 0.006 * np.minimum(employed, 120)
        - 0.005 * np.where(without_history, 0, np.minimum(oldest, 200))
    )
    defaulted = (random.random(LOANS) < 1 / (1 + np.exp(-logit))).astype(int)
    MADE.mkdir(exist_ok=True)
    columns = {
        "income": income,
        "monthly_debt": monthly_debt,
        "amount": amount,
        "term_months": term,
        "employment": [EMPLOYMENT[place] for place in employment],
        "employed_months": employed,
        "late_payments_24m": late,
        "inquiries_6m": inquiries,
        "utilisation": ["" if absent else value for absent, value in zip(without_line, utilisation, strict=True)],
        "oldest_account_months": ["" if absent else value for absent, value in zip(without_history, oldest, strict=True)],
        "debt_to_income": debt_to_income,
        "defaulted": defaulted,
    }
    with (MADE / "loans.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


if __name__ == "__main__":
    make()
