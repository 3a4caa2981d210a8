"""`flyball decide`: sends one row to a server, or decides it locally, and prints the decision."""

from __future__ import annotations

import json as json_
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, print_json
from flyball.cli.plain_words import not_json
from flyball.errors import InvalidInputError

if TYPE_CHECKING:
    from flyball.client import Decided


def decide(
    decision: Annotated[str, argument("The decision's name on the server, or its YAML file.")],
    file: Annotated[str, argument("One row as a JSON object; - for stdin.", metavar="[FILE|-]")] = "-",
    url: Annotated[str, option("The server: http://, grpc:// or unix:/PATH.")] = "http://127.0.0.1:8080",
    idempotency_key: Annotated[str | None, option("Idempotency key; a retry with it gets the same decision.")] = None,
    explain: Annotated[bool, option("Show reasons for any outcome.", "--explain")] = False,
    timings: Annotated[bool, option("Show the time of each stage.", "--timings")] = False,
    json: AsJson = False,
) -> None:
    """Decide one row: by name on a running server, or from a YAML file in this process.

    The command waits up to 3 s for a server that is starting.

    echo '{"amount": 420, "country": "IT"}' | flyball decide fraud --url http://127.0.0.1:8080

    flyball decide card-fraud.yaml payment.json --explain
    """
    row = _row(file)
    options = {"idempotency_key": idempotency_key, "explain": explain, "timings": timings}
    decided = _decided(decision, row, url, options)
    if json:
        print_json(asdict(decided))
    else:
        _show(decided)


def _decided(decision: str, row: dict[str, Any], url: str, options: dict[str, Any]) -> Decided:
    if decision.endswith((".yaml", ".yml", ".json")):
        from flyball.decision.decision import Decision

        with Decision.load(decision) as local:
            return local.decide(row, **options)
    from flyball.cli.starting_server import once_ready
    from flyball.client import Client

    def decided() -> Decided:
        with Client(url) as client:
            found: Decided = client.decide(decision, row, **options)
            return found

    return once_ready(decided)


def _row(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        row = json_.loads(text)
    except OSError as error:
        step = "give a JSON file with one object, or - for stdin"
        raise InvalidInputError(f"cannot read {file}: {error.strerror}", next_step=step) from error
    except ValueError as error:
        what = "the row" if file == "-" else file
        raise InvalidInputError(f"{what} is {not_json(error)}", next_step='give an object:  {"amount": 12.5}') from error
    if not isinstance(row, dict):
        raise InvalidInputError("the row is not an object", next_step='give an object:  {"amount": 12.5}')
    if isinstance(row.get("input"), dict) and len(row) == 1:
        step = f"give only the object under it:  {json_.dumps(row['input'])[:60]}"
        raise InvalidInputError('the row is wrapped in "input", which only the HTTP API needs', next_step=step)
    return row


def _show(decided: Decided) -> None:
    from rich.text import Text

    out = console()
    score = "" if decided.score is None else f" ({decided.score:.3f})"
    out.print(Text.assemble(f"{decided.id}   {decided.decision}   ", (f"{decided.outcome}{score}", "bold")))
    models = "   ".join(f"{item.model} v{item.version} {item.digest[:19]}…" for item in decided.models)
    out.print(Text(f"  {models}   policy {decided.policy[:19]}…   route {decided.route or '–'}"))
    if decided.remedy:
        out.print(Text(f"  remedy: {decided.remedy.used}, for {decided.remedy.cause} at {decided.remedy.stage}"))
    for reason in decided.reasons:
        moved = "" if reason.contribution is None else f"   {reason.field} {reason.contribution:+.3f}"
        out.print(Text(f"  {reason.code} {reason.text or ''}{moved}"))
    if decided.timings_us:
        out.print(Text("  " + " · ".join(f"{stage} {us:.0f} µs" for stage, us in decided.timings_us.items())))
