"""Run:  python -m bench.claims.protocol [--only TOPIC …] [--quick]   from the root; `make claim-protocol` builds first."""

from __future__ import annotations

import signal

from bench.claims.protocol import analyzer, beside, rates
from bench.claims.report import exit_with
from bench.claims.topics import measure_topics

TOPICS = {"beside": beside.measure, "rates": rates.measure, "analyzer": analyzer.measure}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers are ended on the way out
    exit_with(lambda: measure_topics("protocol", TOPICS, __doc__))
