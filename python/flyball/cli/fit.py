"""`flyball fit`: learns the open parameters of a decision's transforms, and writes them beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.option import argument, option
from flyball.cli.output import printed_as_json


def fit(
    decision: Annotated[Path, argument("The decision's YAML file.", metavar="SPEC")],
    data: Annotated[Path, option("Rows to learn from: .parquet, .csv or .jsonl.")],
    target: Annotated[str | None, option("The target column, for target encoding.")] = None,
    out: Annotated[Path | None, option("The file to write; by default the decision's fitted.")] = None,
    json: Annotated[bool, option("Also print the result as JSON.", "--json")] = False,
) -> None:
    """Learn the open parameters of a decision's transforms from rows.

    Rows also need the decision's features: one column for each looked-up value or window, under its name. Computed
    features are computed as servers do; a column that contradicts them is refused.

        flyball fit card-fraud.yaml --data payments.csv --target fraud
    """
    from flyball.decision.spec.read import read_spec
    from flyball.decision.training.training_rows import fit_spec

    spec, origin = read_spec(decision)
    fitted = fit_spec(spec, decision.parent, origin, data, target=target)
    path = out or decision.parent / (spec.fitted or f"{spec.decision}.fitted.json")
    fitted.write(path)
    if printed_as_json({"path": str(path), "rows": fitted.rows, "transforms": fitted.transforms}, json):
        return
    typer.echo(f"{path}   {len(fitted.transforms)} transforms fitted on {fitted.rows:,} rows")
    for one in fitted.transforms:
        typer.echo(f"  transforms[{one['at']}]  {one['op']} of {', '.join(one['of'])}: {_parameters(one)}")
    if spec.fitted is None and out is None:
        typer.echo(f"Next:  add to {decision}:  fitted: {path.name}")
    else:
        typer.echo(f"Next:  flyball check {decision}")


def _parameters(one: dict[str, Any]) -> str:
    """Summarise the parameters of one transform."""
    return ", ".join(f"{key} {_short(value)}" for key, value in one.items() if key not in ("at", "op", "of"))


def _short(value: Any) -> str:
    if isinstance(value, list):
        shown = ", ".join(_short(item) for item in value[:4])
        return f"{shown}, … {len(value) - 4} more" if len(value) > 4 else shown
    if isinstance(value, dict):
        return f"{len(value)} values"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
