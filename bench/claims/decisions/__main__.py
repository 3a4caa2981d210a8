"""Run:  python -m bench.claims.decisions [--only TOPIC …] [--quick]   from the root; `make claim-decisions` builds first."""

from __future__ import annotations

import signal

from bench.claims.decisions import agree, beside, contributions, mutations, redis, retries, stages
from bench.claims.report import exit_with
from bench.claims.topics import measure_topics

TOPICS = {
    "stages": stages.measure,
    "beside": beside.measure,
    "agree": agree.measure,
    "contributions": contributions.measure,
    "redis": redis.measure,
    "retries": retries.measure,
    "mutations": mutations.measure,
}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers are ended on the way out
    exit_with(lambda: measure_topics("decisions", TOPICS, __doc__))
