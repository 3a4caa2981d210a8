"""`flyball convert`: turns a trained model into a folder to serve, with proven equal answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.listen_options import Listen
from flyball.cli.option import AsJson, argument, finite, option
from flyball.cli.output import console, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from flyball.models.convert import Converted


_Target = Annotated[str | None, option("The target column of the data, which the model predicts.", metavar="COLUMN")]
_Score = Annotated[int | None, option("The class whose probability is the score, counted from 0.", min=0, metavar="ELEMENT")]


def convert(
    source: Annotated[
        str,
        argument("The model file: .txt, .json, .ubj, .pkl, .joblib, .onnx or .pt2; or MODULE:FUNCTION.", metavar="SOURCE"),
    ],
    out: Annotated[Path, option("The directory to create.", metavar="DIR")],
    data: Annotated[
        Path | None,
        option("Sample rows like the training data: .csv, .parquet or .jsonl; .npz for tensor models.", metavar="ROWS"),
    ] = None,
    target: _Target = None,
    name: Annotated[str | None, option("The decision's name; by default the file's.")] = None,
    score: _Score = None,
    rows_max: Annotated[
        int | None,
        option("Maximum number of rows to compare.", min=100, max=1_000_000, show_default="10000, more for more thresholds"),
    ] = None,
    owner: Annotated[str | None, option("The decision's owner.")] = None,
    purpose: Annotated[str | None, option("The decision's purpose.")] = None,
    bands: Annotated[str | None, option("The policy's bands, as in a decision: '{pass: < 0.3, review: >= 0.3}'.")] = None,
    bound: Annotated[
        float | None, option("Maximum difference from the original's answers.", min=0, callback=finite, show_default="1e-05")
    ] = None,
    trust_pickle: Annotated[
        bool, option("Load a pickle, although that runs code from its author.", "--trust-pickle")
    ] = False,
    force: Annotated[bool, option("Overwrite an earlier conversion.", "--force")] = False,
    serve: Annotated[bool, option("Then serve it, until Ctrl-C.", "--serve")] = False,
    listen: Listen = None,
    json: AsJson = False,
) -> None:
    """Turn a trained model into a folder to serve, with proven equal answers.

    The folder has the model as ONNX, an attribution sidecar, a decision to edit, sample rows, and the comparison: every
    answer of the served decision is within the bound of the original's. If not, only DIR.failed is left.

    A LightGBM model, then served:\n
      flyball convert fraud.txt --data payments.csv --target fraud --out fraud --serve

    A scikit-learn pipeline, loaded in a process without network:\n
      flyball convert pipeline.joblib --data loans.parquet --out credit --trust-pickle

    One class of an XGBoost multiclass model:\n
      flyball convert churn.ubj --data customers.csv --score 2 --out churn
    """
    from flyball.models.convert import Terms
    from flyball.models.convert import convert as convert_model

    err = console(stderr=True)
    trusted = _trust_pickle(err, source, trust_pickle)
    given = {"owner": owner, "purpose": purpose, "bands": _bands(bands)}
    terms = Terms(**{key: value for key, value in given.items() if value is not None})
    with err.status("reading rows") as status:
        made = convert_model(
            source, data=data, out=out, name=name, target=target, score=score, rows=rows_max, trust_pickle=trusted,
            force=force, bound=bound, terms=terms, progress=status.update,
        )  # fmt: skip
    if json:
        print_json({"folder": str(made.folder), **made.document})
    else:
        _show(console(), made)
    if serve:
        _serve(made, listen)


def _trust_pickle(err: Console, source: str, trusted: bool) -> bool:
    """Warn about a pickle that is loaded; without the flag, ask on a terminal and refuse elsewhere."""
    import sys

    from flyball.models.convert.file_kinds import RUNS_CODE, kind_of

    if not Path(source).is_file() or kind_of(Path(source)) not in RUNS_CODE:
        return False
    if not trusted and not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False  # refused, with the same words
    _warn(err, source)
    if trusted:
        return True
    return typer.confirm("Load it?", default=False, err=True)


def _warn(err: Console, source: str) -> None:
    confined = "in a process without network and programs, which can read every file that you can read"
    err.print(f"Warning: loading {source} runs its author's code, {confined}", style="bold red", markup=False)


def _bands(text: str | None) -> Any:
    if text is None:
        return None
    import yaml

    from flyball.errors import UsageError

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(
            f"--bands: {text!r} is not a mapping", next_step="write it as in a decision:  '{pass: < 0.3, review: >= 0.3}'"
        )
    return found


def _show(out: Console, made: Converted) -> None:
    document, comparison = made.document, made.result.comparison
    score = f"score {document['score']}, explained by {document['explained_by']}" if "score" in document else ""
    out.print(f"{made.folder}   {document['source']['kind']}, {score or 'a tensor model'}", markup=False)
    kinds = ", ".join(f"{errors.rows:,} {kind}" for kind, errors in comparison.by_kind.items())
    out.print(
        f"  equal to the original: {comparison.all.rows:,} rows ({kinds}), largest difference {comparison.all.max_abs:.2g},"
        f" bound {comparison.allowed}",
        markup=False,
    )
    if made.result.rounded.rows:
        rows, most = made.result.rounded.rows, made.result.rounded.max_abs
        out.print(
            f"  {rows} rows are closer to a threshold than float32 resolves, and differ by up to {most:.2g}", markup=False
        )
    for note in document["notes"]:
        out.print(f"  note: {note}", markup=False)
    out.print("Next:", markup=False)
    if made.decision_file.exists():
        out.print(f"  flyball decide {made.decision_file} {made.folder / 'samples' / '1.json'} --explain", markup=False)
    out.print(f"  flyball {' '.join(_serve_arguments(made))}", markup=False)


def _serve_arguments(made: Converted) -> list[str]:
    """The arguments of the serve command: a decision if there is one, else a model."""
    if made.decision_file.exists():
        return ["serve", "--decision", str(made.decision_file)]
    return ["serve", f"{made.document['name']}={made.folder / 'model.onnx'}"]


def _serve(made: Converted, listen: list[str] | None) -> None:
    from flyball.cli.serve import become_serve

    become_serve(*_serve_arguments(made)[1:], *(word for address in listen or [] for word in ("--listen", address)))
