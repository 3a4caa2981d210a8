"""The state of a server's work, for tests that need a run in progress or queued requests."""

from pathlib import Path

from tests.support.serving import Server, until
from tests.support.wire import metrics


def in_flight(server: Server, count: int) -> None:
    until(f"{count} in flight", lambda: metrics(server).sum("flyball_in_flight") == count or None)


def cpu_ms(server: Server) -> float:
    """The CPU time that the compute lane has used so far."""
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    (thread,) = [task for task in tasks if _name(task) == "compute-0"]
    return int((thread / "schedstat").read_text().split()[0]) / 1e6


def _name(task: Path) -> str:
    """Of a thread; nothing where it has ended meanwhile, as those that load models do."""
    try:
        return (task / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def under_way(server: Server, since: float | None = None) -> None:
    """Waits until a run has begun. What comes then waits behind it.

    A run is known by the CPU time of its lane. Little of it is needed: beside busy processes a niced lane gets few
    milliseconds a second. Without `since` the time must exceed what the lane used to start.
    """
    until("a run is under way", lambda: cpu_ms(server) >= (10 if since is None else since + 2) or None)
