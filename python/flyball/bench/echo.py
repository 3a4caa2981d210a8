"""A bare server for measuring the generator, with configurable faults.

Run:  python -m flyball.bench.echo [--listen 127.0.0.1:0] [--service-us N] [--stall-ms N --stall-every-s N] [--reply-bytes N]
Prints `ready http://127.0.0.1:PORT` once it accepts requests, and runs until SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import signal
import sys

from flyball.errors import FlyballError
from flyball.native.load import Echo
from flyball.native.load_documents import EchoOptions

_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main(arguments: list[str] | None = None) -> int:
    """Serve until a signal arrives; the exit code is 0 unless the start failed."""
    options = _options(arguments)
    # Blocked before the echo's thread starts, which inherits the mask: only this thread receives them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        echo = Echo(options)
    except FlyballError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"ready {echo.url()}\n")
    sys.stdout.flush()
    signal.sigwait(_SIGNALS)
    echo.stop()
    return 0


def _options(arguments: list[str] | None) -> EchoOptions:
    parser = argparse.ArgumentParser(prog="python -m flyball.bench.echo", description="A bare HTTP/1.1 server.")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    parser.add_argument("--service-us", type=int, default=0, help="busy time per request")
    parser.add_argument("--stall-ms", type=int, default=0, help="length of a stall")
    parser.add_argument("--stall-every-s", type=float, default=0.0, help="interval between stalls")
    parser.add_argument("--reply-bytes", type=int, default=0, help="pad replies with spaces to this length")
    return EchoOptions(**vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
