"""Run:  python -m bench.claims.ease [--only TOPIC …]   from the root; `make claim-ease` builds the wheel first."""

from __future__ import annotations

from bench.claims.ease import readme, suites
from bench.claims.topics import run_topics

TOPICS = {
    "mistakes": suites.mistakes,
    "forms": suites.forms,
    "async": suites.many_at_once,
    "readme": readme.measure,
}

if __name__ == "__main__":
    run_topics("ease", TOPICS, __doc__)
