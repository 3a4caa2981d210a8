"""Attempts on differences between training and serving."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Seen, attempt
from bench.claims.hardening.commands import flyball

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

_SPEC = """
decision: card
owner: risk
purpose: training that must not differ from serving
input:
  amount: {type: float}
  limit: {type: float}
features:
  used: {compute: amount / limit, type: float}
transforms:
  - standardize: [used]
fitted: card.fitted.json
model: {path: card.onnx, columns: [used], score: score}
policy:
  bands: {pass: "< 0.5", reject: ">= 0.5"}
"""
_ROWS = "amount,limit,used,fraud\n" + "".join(f"{n},100,{n / 100 if n != 7 else 99.0},{n % 2}\n" for n in range(1, 41))


def _files(folder: Path) -> None:
    (folder / "card.yaml").write_text(_SPEC)
    (folder / "rows.csv").write_text(_ROWS)


@attempt("`fit` learns from a column that is not what the decision computes in serving")
def fit_on_a_column_that_disagrees(build: Build, folder: Path) -> Seen:
    """Row 7 of the data says 99, and serving would compute 0.07."""
    _files(folder)
    ran = flyball(build, folder, "fit", "card.yaml", "--data", "rows.csv")
    if ran.returncode == 0:
        return Seen(f"fitted: {ran.stdout.strip().splitlines()[-2].strip()[:100]}", holds=False)
    told = ran.stderr.strip()
    return Seen(
        f"exit {ran.returncode}: {told.splitlines()[0][:160]}", holds="'used'" in told and "99" in told and "0.07" in told
    )


@attempt("`fit` wants a column for a feature that the decision itself computes")
def fit_without_the_computed_column(build: Build, folder: Path) -> Seen:
    """The data has what the feature is computed from, and not the feature."""
    _files(folder)
    lines = [line.split(",") for line in _ROWS.splitlines()]
    (folder / "rows.csv").write_text("".join(f"{one[0]},{one[1]},{one[3]}\n" for one in lines))
    ran = flyball(build, folder, "fit", "card.yaml", "--data", "rows.csv")
    return Seen((ran.stderr or ran.stdout).strip().splitlines()[0][:140], holds=ran.returncode == 0)


@attempt("`flyball.training_rows` is not public")
def training_rows_is_not_public(build: Build, folder: Path) -> Seen:
    """Whoever trains asks for the rows that serving would make."""
    code = "import flyball; print(callable(flyball.training_rows), 'training_rows' in flyball.__all__)"
    ran = subprocess.run([build.python, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return Seen((ran.stdout or ran.stderr).strip().splitlines()[-1][:120], holds=ran.stdout.strip() == "True True")
