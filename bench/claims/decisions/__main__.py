"""Run:  python -m bench.claims.decisions [--only TOPIC …] [--quick]   from the root; `make claim-decisions` builds first."""

from __future__ import annotations

from bench.claims.decisions import agree, beside, contributions, mutations, redis, retries, stages
from bench.claims.topics import run_topics

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
    run_topics("decisions", TOPICS, __doc__)
