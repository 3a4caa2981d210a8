"""`python -m flyball` is the `flyball` command."""

from flyball.cli import main

main()
