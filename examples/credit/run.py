"""The whole example: data, training and a running decision, then a few applications. `python run.py`

What is there already is kept; delete made/ to begin anew.
"""

from __future__ import annotations

from pathlib import Path

import make_data
import train

import flyball

HERE = Path(__file__).resolve().parent
MADE = HERE / "made"

SOUND: dict[str, object] = {
    "applicant_id": "a-1",
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
    "income": 1450.0,
    "monthly_debt": 690.0,
    "employment": "temporary",
    "employed_months": 4,
    "late_payments_24m": 4,
    "inquiries_6m": 5,
    "utilisation": 0.97,
}
APPLICATIONS = {
    "sound": SOUND,
    "strained": STRAINED,
    "no history yet": {key: value for key, value in STRAINED.items() if key not in ("utilisation", "oldest_account_months")},
    "open default": {**SOUND, "open_default": True},
    "a large sum": {**SOUND, "income": 7200.0, "amount": 60_000.0, "term_months": 84},
}


def main() -> None:
    """Make what is missing, serve in this process, decide, stop."""
    if not (MADE / "loans.csv").exists():
        print("making loans …")
        make_data.make()
    if not (MADE / "credit.trees.json").exists():
        print(f"training {train.TREES} trees …")
        train.train()
    with flyball.Decision.load(HERE / "credit.yaml") as credit:
        for title, application in APPLICATIONS.items():
            show(title, credit.decide(application))


def show(title: str, decided: flyball.Decided) -> None:
    """One decision, and what the applicant is told."""
    score = "no score" if decided.score is None else f"{decided.score:.3f}"
    print(f"{title:<16} {decided.outcome} ({score})")
    for reason in decided.reasons:
        print(f"    {reason.code}  {reason.text}")


if __name__ == "__main__":
    main()
