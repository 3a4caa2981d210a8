"""The topics of `make claim-compat`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.compat import originals

SUITE = Suite(
    "compat",
    "Triton's own suites",
    """`make claim-compat TRITON_QA_DIR=…/server/qa`, with Triton's repository `client` beside `server`, or in
`TRITON_CLIENT_DIR`. With `ONLY="http grpc"` only these suites
run, and no record is stored. The table by suite is on the
[conformance page](reference/conformance.md#tritons-own-test-suites).
""",
    (originals.TOPIC,),
)
