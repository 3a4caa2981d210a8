"""Closes this process off before it loads a file that may run code: no network, no other programs, limits on what it takes.

By seccomp, a filter of the kernel over system calls that nothing in the process can take back; by Landlock, where the kernel
has it, against writing; and by an audit hook that can say what was tried. What the user may read can still be read: see
docs/guides/convert.md. Linux alone; must not know models.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.convert.landlock import write_only_below
from flyball.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

CPU_S_MAX = 900
FILE_BYTES_MAX = 4 << 30
_FILES_OPEN_MAX = 512
_MEMORY_SHARE = 0.75

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_ALL_THREADS = 1  # SECCOMP_FILTER_FLAG_TSYNC: also those that a library has started
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD_WORD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_CLONE_THREAD = 0x00010000
_ANOTHER_ABI = 0x40000000

# By machine: what AUDIT_ARCH calls it, then the numbers of system calls.
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE = {"x86_64": 56, "aarch64": 220}
_TGKILL = {"x86_64": 234, "aarch64": 131}
_CLONE3 = 435
_EVERYWHERE = (425, 426, 427, 424, 434, 438)  # io_uring_*, pidfd_send_signal, pidfd_open, pidfd_getfd
_REFUSED = {
    # socket connect accept sendto sendmsg bind listen socketpair accept4 sendmmsg; fork vfork execve execveat;
    # kill tkill rt_sigqueueinfo rt_tgsigqueueinfo; ptrace process_vm_readv process_vm_writev; unshare setns mount bpf
    "x86_64": (
        41,
        42,
        43,
        44,
        46,
        49,
        50,
        53,
        288,
        307,
        57,
        58,
        59,
        322,
        62,
        200,
        129,
        297,
        101,
        310,
        311,
        272,
        308,
        165,
        321,
    ),
    "aarch64": (
        198,
        203,
        202,
        206,
        211,
        200,
        201,
        199,
        242,
        269,
        221,
        281,
        129,
        130,
        138,
        240,
        117,
        270,
        271,
        97,
        268,
        40,
        280,
    ),
}
# What the hook names, by its audit event.
_TOLD = {
    "socket.connect": "open a socket to {}",
    "socket.bind": "listen on {}",
    "socket.getaddrinfo": "look up the host {}",
    "socket.gethostbyname": "look up the host {}",
    "socket.__new__": "make a socket",
    "subprocess.Popen": "start the program {}",
    "os.system": "run the command {}",
    "os.exec": "become the program {}",
    "os.posix_spawn": "start the program {}",
    "os.spawn": "start the program {}",
    "os.fork": "start another process",
    "os.forkpty": "start another process",
    "os.kill": "send a signal to process {}",
}


@dataclass(slots=True)
class Watch:
    """What was tried and refused since the seal was set; of libraries too, so it counts only while a file is loaded."""

    tried: list[str] = field(default_factory=list)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook: refuses before the kernel would, because here it is known what was wanted."""
        words = _TOLD.get(event)
        if words is not None:
            self.tried.append(words.format(_target(event, arguments)))
            raise PermissionError(errno.EPERM, f"this process may not {self.tried[-1]}")


def seal(writable: Path) -> Watch:
    """From here on this process has no network, starts no program, and writes in one folder only; cannot be undone."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCH:
        raise _cannot(f"which is not so on {sys.platform} {machine}")
    _limit()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _cannot(f"and this kernel does not let it give up privileges: {os.strerror(ctypes.get_errno())}")
    write_only_below(writable)
    _filter(libc, machine)
    watch = Watch()
    sys.addaudithook(watch.hear)
    return watch


def _cannot(why: str) -> UsageError:
    return UsageError(
        f"a file that may run code is only loaded where it can be closed off, {why}",
        next_step="load it in Python yourself and convert the model:  flyball.convert.convert(model, data=…, out=…)",
    )


def _limit() -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = {
        resource.RLIMIT_CPU: CPU_S_MAX,
        resource.RLIMIT_FSIZE: FILE_BYTES_MAX,
        resource.RLIMIT_NOFILE: _FILES_OPEN_MAX,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_AS: max(int(memory * _MEMORY_SHARE), 4 << 30),
    }
    for what, most in limits.items():
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def _filter(libc: ctypes.CDLL, machine: str) -> None:
    program = _program(machine)
    code = ctypes.create_string_buffer(b"".join(program), 8 * len(program))
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    if libc.syscall(_SECCOMP[machine], _SECCOMP_SET_MODE_FILTER, _ALL_THREADS, ctypes.create_string_buffer(head, len(head))):
        raise _cannot(f"and this kernel refuses a seccomp filter: {os.strerror(ctypes.get_errno())}")


def _program(machine: str) -> list[bytes]:
    """Classic BPF over {number, arch, …, arguments}: what is listed answers EPERM, clone makes threads, signals stay in."""
    refused = (*_REFUSED[machine], *_EVERYWHERE)
    steps: list[_Step] = [
        _Step(_LOAD_WORD, 4),
        _Step(_JUMP_EQUAL, _ARCH[machine], no="deny"),
        _Step(_LOAD_WORD, 0),
        _Step(_JUMP_AT_LEAST, _ANOTHER_ABI, yes="deny"),
        # Its flags lie in memory, which a filter cannot see; without it libc makes threads by clone.
        _Step(_JUMP_EQUAL, _CLONE3, yes="absent"),
        *(_Step(_JUMP_EQUAL, number, yes="deny") for number in refused),
        _Step(_JUMP_EQUAL, _TGKILL[machine], yes="signal"),
        _Step(_JUMP_EQUAL, _CLONE[machine], no="allow"),
        _Step(_LOAD_WORD, 16),
        _Step(_JUMP_BITS, _CLONE_THREAD, yes="allow", no="deny"),
        _Step(_LOAD_WORD, 16, label="signal"),
        _Step(_JUMP_EQUAL, os.getpid(), no="deny"),
        _Step(_RETURN, _ALLOW, label="allow"),
        _Step(_RETURN, _ERRNO | errno.EPERM, label="deny"),
        _Step(_RETURN, _ERRNO | errno.ENOSYS, label="absent"),
    ]
    places = {step.label: place for place, step in enumerate(steps) if step.label}

    def distance(here: int, label: str) -> int:
        return places[label] - here - 1 if label else 0

    return [
        struct.pack("HBBI", step.code, distance(here, step.yes), distance(here, step.no), step.value)
        for here, step in enumerate(steps)
    ]


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction; jumps go to labels that stand later, and on where they name none."""

    code: int
    value: int
    yes: str = ""
    no: str = ""
    label: str = ""


def _target(event: str, arguments: tuple[Any, ...]) -> str:
    if event in ("socket.connect", "socket.bind"):
        address = arguments[1]
        return ":".join(map(str, address[:2])) if isinstance(address, tuple) else str(address)
    if event == "subprocess.Popen":
        command = arguments[1]
        return " ".join(map(str, command)) if isinstance(command, list | tuple) else str(command)
    first = arguments[0] if arguments else ""
    return os.fsdecode(first) if isinstance(first, bytes) else str(first)
