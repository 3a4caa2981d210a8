"""The command line: one file per verb. Each imports what it needs when it runs, so that `serve` starts fast.

Nothing imports this package.
"""

from flyball.cli.app import main

__all__ = ["main"]
