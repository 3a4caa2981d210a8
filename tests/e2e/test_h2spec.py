"""RFC 9113's rules for HTTP/2 and HPACK, tried by h2spec."""

import re
import subprocess
from collections.abc import Callable

import pytest

from tests.support import parts
from tests.support.serving import Server
from tests.support.wire import Http

CASES = 145


@pytest.mark.timeout(300)
def test_h2spec_finds_no_fault_and_skips_no_case(serve: Callable[..., Server]) -> None:
    tool = parts.program("h2spec", "h2spec", variable="FLYBALL_H2SPEC")
    server = serve("linear")
    command = [tool, "--host", server.host, "--port", str(server.port), "--path", "/v2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    (found,) = re.findall(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", done.stdout)
    tests, passed, skipped, failed = map(int, found)
    assert (passed, skipped, failed) == (tests, 0, 0), done.stdout
    assert tests >= CASES
    with Http(server) as connection:
        assert connection.get("/v2/health/live").status == 200
