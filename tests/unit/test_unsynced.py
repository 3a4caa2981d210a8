"""The file layer that keeps only synced bytes: what it forgets at a power loss, and what it keeps."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from bench.parts.unsynced import Unsynced

SYNCED, LOST = b"s" * 5000, b"l" * 9000
# Each is followed by `kill -9`, as a server's end.
WRITES = {
    "pwrite": "os.pwrite(fd, LOST, 5000)",
    "write": "os.write(fd, LOST)",
    "writev": "os.writev(fd, [LOST[:1], LOST[1:]])",
}


def killed(disk: Unsynced, script: str) -> None:
    program = f"import os, signal\nSYNCED, LOST = {SYNCED!r}, {LOST!r}\n{script}\nos.kill(os.getpid(), signal.SIGKILL)"
    ended = subprocess.run([sys.executable, "-c", program], env={**os.environ, **disk.next_process()}, check=False)
    assert ended.returncode == -9


@pytest.fixture
def disk(tmp_path: Path) -> Unsynced:
    (tmp_path / "log").mkdir()
    return Unsynced.over(tmp_path / "log", tmp_path)


@pytest.mark.parametrize("written", WRITES)
@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
def test_what_was_written_after_the_last_sync_is_lost(disk: Unsynced, written: str, sync: str) -> None:
    path = disk.folder / "segment"
    killed(
        disk, f"fd = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)\nos.write(fd, SYNCED)\nos.{sync}(fd)\n{WRITES[written]}"
    )
    assert path.read_bytes() == SYNCED + LOST
    assert disk.found() == {path: [(5000, 14000)]}
    while disk.lose_power(random.Random(os.urandom(8))) < 9000:
        pass
    assert path.read_bytes() == SYNCED + bytes(9000)


def test_another_file_s_sync_does_not_keep_these_bytes(disk: Unsynced) -> None:
    one, other = disk.folder / "one", disk.folder / "other"
    open_both = f"fd, other = (os.open(name, os.O_RDWR | os.O_CREAT) for name in ({str(one)!r}, {str(other)!r}))"
    killed(disk, f"{open_both}\nos.write(fd, LOST)\nos.write(other, LOST)\nos.fdatasync(other)")
    assert disk.found() == {one: [(0, 9000)]}


def test_bytes_that_replace_others_are_kept_and_files_elsewhere_do_not_count(disk: Unsynced, tmp_path: Path) -> None:
    path, elsewhere = disk.folder / "note", tmp_path / "elsewhere"
    path.write_bytes(SYNCED)
    killed(
        disk,
        f"fd = os.open({str(path)!r}, os.O_RDWR)\nos.pwrite(fd, b'new', 0)\n"
        f"other = os.open({str(elsewhere)!r}, os.O_RDWR | os.O_CREAT)\nos.write(other, LOST)",
    )
    assert disk.found() == {}


def test_a_child_of_the_process_forgets_nothing(disk: Unsynced) -> None:
    path = disk.folder / "segment"
    child = f"{sys.executable!r}, '-c', 'pass'"
    killed(
        disk,
        f"import subprocess\nfd = os.open({str(path)!r}, os.O_RDWR | os.O_CREAT)\nos.write(fd, LOST)\n"
        f"subprocess.run([{child}], check=True)",
    )
    assert disk.found() == {path: [(0, 9000)]}
