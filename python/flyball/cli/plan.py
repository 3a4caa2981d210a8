"""`flyball plan`: a decision's stages as the data plane compiled them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from flyball.cli.check import serve_command, show_warnings, warning_document
from flyball.cli.option import AsJson, argument
from flyball.cli.output import console, print_json


def plan(
    file: Annotated[Path, argument("The decision's YAML file.", metavar="SPEC")],
    json: AsJson = False,
) -> None:
    """Show the compiled stages of a decision, in the order in which a request passes them.

    flyball plan card-fraud.yaml
    """
    from rich.text import Text

    from flyball.decision.decision import Decision

    decision = Decision.load(file)
    stages, warnings = decision.check().stages, decision.warnings(file)
    if json:
        shown = [warning_document(one) for one in warnings]
        print_json({"decision": decision.name, "stages": [stage.model_dump() for stage in stages], "warnings": shown})
        return
    out = console()
    out.print(Text(decision.name, style="bold"))
    for stage in stages:
        for index, line in enumerate(stage.lines):
            out.print(Text.assemble((f"  {stage.stage if index == 0 else '':<9}", "bold"), line))
    show_warnings(out, warnings)
    out.print(Text(f"Next:  {serve_command(decision.spec, file)}", style="dim"))
