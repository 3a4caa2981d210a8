"""Where a server's work stands: for tests that must come while a run is under way, or while others are queued."""

from pathlib import Path

from serving import Server, until
from wire import metrics


def in_flight(server: Server, count: int) -> None:
    until(f"{count} in flight", lambda: metrics(server).sum("flyball_in_flight") == count or None)


def under_way(server: Server) -> None:
    """Until the first run has begun: its thread has used some CPU time. What comes then waits behind it."""

    def ticks() -> int:
        tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
        (thread,) = [task for task in tasks if (task / "comm").read_text().strip() == "compute-0"]
        fields = (thread / "stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    until("a run is under way", lambda: ticks() >= 3 or None)
