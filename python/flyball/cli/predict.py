"""`flyball predict`: sends rows from a file or stdin to a server, and prints the answers."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.option import argument, option
from flyball.cli.output import console, print_json
from flyball.errors import DeadlineError, InvalidInputError

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS_MAX = 8
_ROWS_MAX = 50


def predict(
    model: Annotated[str, argument("The model's name on the server.")],
    file: Annotated[str, argument("JSON or CSV; - for stdin.", metavar="[FILE|-]")] = "-",
    url: Annotated[str, option("The server: http:// or grpc://.")] = "http://127.0.0.1:8080",
    version: Annotated[str | None, option("The model's version; by default the server's choice.")] = None,
    deadline_ms: Annotated[float, option("Deadline of the request, in ms.", min=1)] = 10_000,
    json: Annotated[bool, option("Print JSON: an object of output names to nested lists.", "--json")] = False,
) -> None:
    """Get predictions from a running server.

    The input is a V2 request ({"inputs": [...]}), an object of input name to nested lists, a bare list for a model with
    one input, or CSV with a header line: columns named after the inputs, or the columns of the only input. The
    command waits up to 3 s for a server that is starting.

        echo '[[0.2, -1.0, 3.5]]' | flyball predict fraud --url http://127.0.0.1:8080

        flyball predict fraud rows.csv
    """
    from flyball.cli.rows import read_inputs
    from flyball.cli.starting_server import once_ready
    from flyball.client import Client

    text = _read(file)

    def answered() -> dict[str, Any]:
        with Client(url, deadline_ms=deadline_ms) as client:
            inputs = read_inputs(text, lambda: client.metadata(model, version=version).inputs)
            return client.infer(model, inputs, version=version)

    try:
        answer = once_ready(answered)
    except DeadlineError as error:
        error.next_step = "raise --deadline-ms, or check the server's load"
        raise
    if json:
        print_json({name: _plain(array.tolist()) for name, array in answer.items()})
    else:
        console().print(_table(answer))


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except OSError as error:
        step = "give a JSON or CSV file, or - for stdin"
        raise InvalidInputError(f"cannot read {file}: {error.strerror}", next_step=step) from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{file} is not text: {error.reason}") from error


def _table(answer: dict[str, Any]) -> Table:
    """Build a table with one line per row; wide outputs are cut to their first columns."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("row", justify="right", style="dim")
    columns = []
    for name, array in answer.items():
        flat = array.reshape(array.shape[0], -1) if array.ndim else array.reshape(1, 1)
        width = min(flat.shape[1], _COLUMNS_MAX)
        for index in range(width):
            head = name if flat.shape[1] == 1 else f"{name}[{index}]"
            table.add_column(escape(head), justify="right")
            columns.append(flat[:, index])
        if flat.shape[1] > width:
            table.add_column(f"… {flat.shape[1] - width} more", style="dim")
            columns.append([""] * len(flat))
    count = max((len(column) for column in columns), default=0)
    for row in range(min(count, _ROWS_MAX)):
        table.add_row(str(row), *(escape(_cell(column[row])) if row < len(column) else "" for column in columns))
    if count > _ROWS_MAX:
        table.caption = f"{count - _ROWS_MAX} more rows; see all with --json"
    return table


def _plain(value: Any) -> Any:
    """Make a value valid JSON: non-finite numbers become "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _cell(value: Any) -> str:
    return f"{value:.6g}" if hasattr(value, "dtype") and value.dtype.kind == "f" else str(value)
