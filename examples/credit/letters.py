"""Writes the letter that a declined applicant gets: what was decided, and the main reasons in words.

Its parts follow what the Equal Credit Opportunity Act and Regulation B of the United States ask of an adverse action
notice. The wording is an example and no legal text. Must not know the model: a decision's reasons are all that it reads.
"""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import flyball

WIDTH = 78
MADE_UP = (
    "This letter is an example. Lender, applicant and loan are made up, and nobody has checked its wording for legal use."
)
LENDER = "Example Lending\n1 Sample Street, Anytown"
RIGHTS = (
    "You may ask for a copy of the information that we used, and tell us of any mistake in it. A person will then look "
    "at your application again."
)
EQUAL_CREDIT = (
    "Notice: by law a lender may not treat applicants differently because of race, colour, religion, national origin, "
    "sex, marital status or age, because income comes from public assistance, or because they used their rights as "
    "consumers. A lender's real letter names here the authority that supervises it."
)


def write(folder: Path, application: Mapping[str, object], decided: flyball.Decided) -> Path:
    """Write one applicant's letter; returns its file."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{application['applicant_id']}.txt"
    path.write_text(letter(application, decided))
    return path


def letter(application: Mapping[str, object], decided: flyball.Decided) -> str:
    """The letter about a declined application."""
    asked = f"your application for a loan of {application['amount']:,.2f} over {application['term_months']} months"
    reasons = [f"{number}. {_sentence(reason.text)}" for number, reason in enumerate(decided.reasons, 1)]
    paragraphs = [
        f"*** {MADE_UP} ***",
        LENDER,
        f"{datetime.now(UTC):%Y-%m-%d}\nApplicant {application['applicant_id']}\nDecision {decided.id}",
        f"Thank you for {asked}. We cannot grant this loan.",
        "The main reasons are:\n" + "\n".join(reasons),
        RIGHTS,
        EQUAL_CREDIT,
    ]
    return "\n\n".join(_filled(paragraph) for paragraph in paragraphs) + "\n"


def _sentence(text: str) -> str:
    """A reason as a line of its own; reasons.csv has them in lower case."""
    return f"{text[:1].upper()}{text[1:]}."


def _filled(paragraph: str) -> str:
    return "\n".join(textwrap.fill(line, WIDTH) for line in paragraph.splitlines())
