"""Closes this process off before it loads a file that may run code: no network, no other programs, limits on what it takes.

By Landlock against writing elsewhere, set before anything starts threads; by seccomp, a filter of the kernel over system
calls that nothing in the process can take back; and by an audit hook that can say what was tried. What the user may read can
still be read: see docs/guides/convert.md. Linux alone; must not know models.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import resource
import struct
import sys
import termios
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flyball.convert import system_calls
from flyball.convert.landlock import write_only_below
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CPU_S_MAX = 900
FILE_BYTES_MAX = 4 << 30
_FILES_OPEN_MAX = 512
_MEMORY_SHARE = 0.75

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_ALL_THREADS = 1  # SECCOMP_FILTER_FLAG_TSYNC: also those that a library has started
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD_WORD, _AND, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_CLONE_THREAD = 0x00010000
_ANOTHER_ABI = 0x40000000
_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as AUDIT_ARCH calls them
_F_SETOWN_EX = 15
_OWN_IN_PYTHON = "load it in Python yourself and convert the model:  flyball.convert.convert(model, data=…, out=…)"

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


def keep_writes_below(folder: Path) -> None:
    """From here on this process writes in one folder only. First of all, while it is one thread: no other would be bound."""
    libc = _libc()
    _give_up_privileges(libc)
    try:
        threads = len(os.listdir("/proc/self/task"))
        if threads > 1:
            raise _cannot(f"and this process has {threads} threads already: the kernel would bind only one of them")
        write_only_below(folder)
    except OSError as error:
        raise _cannot(
            f"and nothing keeps it from writing elsewhere: there is no Landlock here ({error.strerror})",
            next_step="use Linux 5.13 or newer with Landlock switched on (lsm=landlock,…), in a container with a seccomp"
            " profile that allows landlock_create_ruleset, landlock_add_rule and landlock_restrict_self;"
            f" or {_OWN_IN_PYTHON}",
        ) from error


def seal() -> Watch:
    """From here on it has no network, starts no program, and changes nothing about files elsewhere; cannot be undone."""
    libc = _libc()
    _limit()
    _give_up_privileges(libc)
    _filter(libc, platform.machine())
    watch = Watch()
    sys.addaudithook(watch.hear)
    return watch


def _libc() -> ctypes.CDLL:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCH:
        raise _cannot(f"which is not so on {sys.platform} {machine}")
    return ctypes.CDLL(None, use_errno=True)


def _give_up_privileges(libc: ctypes.CDLL) -> None:
    """The kernel wants it of whoever restricts itself: a program with more rights would be restricted too, and confused."""
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _cannot(f"and this kernel does not let it give up privileges: {os.strerror(ctypes.get_errno())}")


def _cannot(why: str, next_step: str = _OWN_IN_PYTHON) -> UsageError:
    return UsageError(f"a file that may run code is only loaded where it can be closed off, {why}", next_step=next_step)


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
    number = system_calls.on(machine, system_calls.SECCOMP)["seccomp"]
    if libc.syscall(number, _SECCOMP_SET_MODE_FILTER, _ALL_THREADS, ctypes.create_string_buffer(head, len(head))):
        raise _cannot(f"and this kernel refuses a seccomp filter: {os.strerror(ctypes.get_errno())}")


def _program(machine: str) -> list[bytes]:
    """Classic BPF over {number, arch, …, arguments}: what is listed answers EPERM, some by what it asks."""
    refused, absent, judged = (
        system_calls.on(machine, calls) for calls in (system_calls.REFUSED, system_calls.ABSENT, system_calls.JUDGED)
    )
    steps: list[_Step] = [
        _Step(_LOAD_WORD, 4),
        _Step(_JUMP_EQUAL, _ARCH[machine], no="deny"),
        _Step(_LOAD_WORD, 0),
        _Step(_JUMP_AT_LEAST, _ANOTHER_ABI, yes="deny"),
        *(_Step(_JUMP_EQUAL, number, yes="deny") for number in refused.values()),
        *(_Step(_JUMP_EQUAL, number, yes="absent") for number in absent.values()),
        *(_Step(_JUMP_EQUAL, number, yes=name) for name, number in judged.items()),
        _Step(_RETURN, _ALLOW),
        *_judgements(),
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


def _judgements() -> list[_Step]:
    """Calls that are refused by what they ask, told by the lower half of an argument: of most the kernel takes no more."""
    how = os.O_TRUNC | os.O_ACCMODE
    cut_off = (os.O_TRUNC, how)  # to read, or for neither reading nor writing
    # Asked by Python and by libc; others change attributes of files that are open for reading, or type on terminals.
    harmless = (termios.TCGETS, termios.TIOCGWINSZ, termios.FIONREAD, termios.FIONBIO, termios.FIOCLEX, termios.FIONCLEX)
    return [
        *_judged("clone", _argument(0), [_CLONE_THREAD], mask=_CLONE_THREAD, yes="allow", no="deny"),
        *_judged("tgkill", _argument(0), [os.getpid()], yes="allow", no="deny"),
        # It empties a file, and is no writing to Landlock before its third version.
        *_judged("open", _argument(1), cut_off, mask=how, yes="deny", no="allow"),
        *_judged("openat", _argument(2), cut_off, mask=how, yes="deny", no="allow"),
        # Limits may be asked for but not set, of this process or of any other: both halves of a pointer are null.
        *_judged("prlimit64", _argument(2), [0], yes="and its upper half", no="deny"),
        *_judged("and its upper half", _argument(2) + 4, [0], yes="allow", no="deny"),
        *_judged("ioctl", _argument(1), harmless, yes="allow", no="deny"),
        # Whoever owns a file is sent a signal when there is something to read: any process of the user's.
        *_judged("fcntl", _argument(1), [fcntl.F_SETOWN, fcntl.F_SETSIG, _F_SETOWN_EX], yes="deny", no="allow"),
    ]


def _judged(name: str, word: int, values: Sequence[int], *, yes: str, no: str, mask: int | None = None) -> list[_Step]:
    """One call, by whether a word of what it asks is among these values."""
    masked = [] if mask is None else [_Step(_AND, mask)]
    *first, last = (_Step(_JUMP_EQUAL, value, yes=yes) for value in values)
    return [_Step(_LOAD_WORD, word, label=name), *masked, *first, replace(last, no=no)]


def _argument(place: int) -> int:
    return 16 + 8 * place


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
