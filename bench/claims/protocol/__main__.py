"""Run:  python -m bench.claims.protocol [--only TOPIC …] [--quick]   from the root; `make claim-protocol` builds first."""

from __future__ import annotations

from bench.claims.protocol import analyzer, beside, rates
from bench.claims.topics import run_topics

TOPICS = {"beside": beside.measure, "rates": rates.measure, "analyzer": analyzer.measure}

if __name__ == "__main__":
    run_topics("protocol", TOPICS, __doc__)
