"""`flyball decisions`: queries, verifies and replays the decision log. One file per verb.

Options shared by all verbs are in `options.py`.
"""

from __future__ import annotations

import typer

from flyball.cli.decisions.checkpoint import checkpoint
from flyball.cli.decisions.compact import compact
from flyball.cli.decisions.erase import erase
from flyball.cli.decisions.export import export
from flyball.cli.decisions.hold import hold, holds, release
from flyball.cli.decisions.outcome import outcome
from flyball.cli.decisions.push import push
from flyball.cli.decisions.query import query
from flyball.cli.decisions.replay import replay
from flyball.cli.decisions.review import override, review
from flyball.cli.decisions.show import show
from flyball.cli.decisions.tail import tail
from flyball.cli.decisions.verify import verify

__all__ = ["decisions"]

decisions = typer.Typer(
    name="decisions",
    no_args_is_help=True,
    help=(
        "Read the decision log: what was decided and why, and proof that nothing was changed.\n\n"
        "    flyball decisions query --decision card-fraud --since 1d --outcome reject\n\n"
        '    flyball decisions query "select outcome, count(*) from decisions group by 1"\n\n'
        "    flyball decisions show 0192f6c1\n\n"
        "    flyball decisions verify"
    ),
)
decisions.command()(query)
decisions.command()(show)
decisions.command()(tail)
decisions.command()(replay)
decisions.add_typer(review, name="review", rich_help_panel="People")
decisions.command(rich_help_panel="People")(override)
decisions.command(rich_help_panel="People")(outcome)
decisions.command(rich_help_panel="Proof")(verify)
decisions.command(rich_help_panel="Proof")(checkpoint)
decisions.command(rich_help_panel="Proof")(export)
for _verb in (compact, push, erase, hold, release, holds):
    decisions.command(rich_help_panel="Retention")(_verb)
