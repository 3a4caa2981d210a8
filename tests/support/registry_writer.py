"""A process that writes to a registry, for tests with concurrent and killed writers.

Run:  python -m tests.support.registry_writer race URL ACTOR | pour URL ACTOR
"""

import json
import os
import sys
from dataclasses import replace

from flyball.errors import FlyballError
from tests.support import registry_events
from tests.support.registry_events import promoted


def race(url: str, actor: str) -> None:
    """For each line: look, say so, and at the next line promote what was decided on by what was seen."""
    _database, log = registry_events.opened(url)
    for _line in sys.stdin:
        seen = log.revision("fraud")
        say({"seen": seen})
        sys.stdin.readline()
        try:
            draft = replace(promoted("fraud", 1, actor=actor), expected_revision=seen)
            say({"won": log.append_all([draft])[0].sequence})
        except FlyballError as error:
            say({"lost": str(error), "code": error.code})


def pour(url: str, actor: str) -> None:
    """For each line: a child that writes until it is killed. Only the first one takes the time to import everything."""
    for _line in sys.stdin:
        child = os.fork()
        if child == 0:
            write(url, actor)
        os.waitpid(child, 0)
        say({"ended": child})


def write(url: str, actor: str) -> None:
    """Promote and roll back without end; what is said to be kept is kept."""
    say({"pid": os.getpid()})
    _database, log = registry_events.opened(url)
    while True:
        try:
            event = log.append_all([promoted("fraud", 1, actor=actor), registry_events.rolled_back("fraud", None, 1)])[-1]
            say({"kept": event.sequence, "hash": event.hash})
        except FlyballError as error:
            say({"lost": str(error), "code": error.code, "maybe_kept": getattr(error, "maybe_kept", False)})


def say(document: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    {"race": race, "pour": pour}[sys.argv[1]](*sys.argv[2:])
