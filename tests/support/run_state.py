"""The state of a server's work, for tests that need a run in progress or queued requests."""

from pathlib import Path

from tests.support.serving import Server, until
from tests.support.wire import metrics


def in_flight(server: Server, count: int) -> None:
    until(f"{count} in flight", lambda: metrics(server).sum("flyball_in_flight") == count or None)


def cpu_ticks(server: Server) -> int:
    """What the compute lane has used of its core so far, in hundredths of a second."""
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    (thread,) = [task for task in tasks if _name(task) == "compute-0"]
    fields = (thread / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _name(task: Path) -> str:
    """Of a thread; nothing where it has ended meanwhile, as those that load models do."""
    try:
        return (task / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def under_way(server: Server, since: int = 0) -> None:
    """Until a run has begun: its thread has used some CPU time since. What comes then waits behind it."""
    until("a run is under way", lambda: cpu_ticks(server) >= since + 3 or None)
