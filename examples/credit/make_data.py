"""Makes loans from a seed: applications, and whether they were paid back. No real people are involved.

Writes made/loans.csv to train on: the fields of the spec, its computed feature, and `defaulted`. made/held_out.csv has
later applications, whole ones as the lender gets them, and what became of them. Nobody knows that of a declined applicant;
made-up data does.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

MADE = Path(__file__).resolve().parent / "made"
SEED = 20261115
LOANS, HELD_OUT = 12_000, 3_000
EMPLOYMENT = ["permanent", "temporary", "self_employed", "none"]


def make() -> None:
    """Write both files."""
    random = np.random.default_rng(SEED)
    MADE.mkdir(exist_ok=True)
    write("loans.csv", applications(random, LOANS))
    held_out = applications(random, HELD_OUT)
    first = {"applicant_id": [f"a-{number:04d}" for number in range(HELD_OUT)]}
    del held_out["debt_to_income"]  # the decision computes it
    write("held_out.csv", {**first, **held_out, "open_default": random.random(HELD_OUT) < 0.01})


def applications(random: np.random.Generator, count: int) -> dict[str, Any]:
    """Columns of so many applications."""
    employment = random.choice(4, count, p=[0.66, 0.16, 0.13, 0.05])
    income = np.round(random.lognormal(7.7, 0.42, count) * np.array([1.0, 0.8, 1.05, 0.45])[employment], 2)
    amount = np.round(np.clip(random.lognormal(8.8, 0.8, count), 500, 75_000), -1)
    term = random.choice([12, 24, 36, 48, 60, 84], count, p=[0.12, 0.2, 0.28, 0.2, 0.14, 0.06])
    monthly_debt = np.round(income * random.beta(1.6, 5.5, count), 2)
    employed = np.where(employment == 3, 0, np.minimum(random.exponential(60, count), 480)).astype(int)
    late = random.poisson(np.where(random.random(count) < 0.15, 2.2, 0.12))
    inquiries = random.poisson(1.1, count)
    without_line, without_history = random.random(count) < 0.2, random.random(count) < 0.1
    utilisation = np.round(random.beta(1.4, 2.2, count) * 1.1, 3)
    oldest = random.gamma(2.2, 45, count).astype(int)
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
    defaulted = (random.random(count) < 1 / (1 + np.exp(-logit))).astype(int)
    return {
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


def write(name: str, columns: dict[str, Any]) -> None:
    """One file of applications."""
    with (MADE / name).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


if __name__ == "__main__":
    make()
