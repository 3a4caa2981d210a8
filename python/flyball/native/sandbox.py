"""Restricts this process before it loads a file that may run code, and reports what the file tries.

The kernel enforces an allow-list of system calls and files (`crates/sandbox`) that nothing in the process can revoke.
Resource limits apply, and an audit hook reports attempts. Linux only; must not know models.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flyball.errors import FlyballError, UsageError
from flyball.native.boundary import call, native

CPU_S_MAX = 900
FILE_BYTES_MAX = 4 << 30
_FILES_OPEN_MAX = 512
_MEMORY_SHARE = 0.75

_OWN_IN_PYTHON = "load it in Python yourself and convert the model:  flyball.convert.convert(model, data=…, out=…)"
_GET_LANDLOCK = (
    "use Linux 5.13 or newer with Landlock switched on (lsm=landlock,…), in a container with a seccomp profile that allows"
    f" landlock_create_ruleset, landlock_add_rule and landlock_restrict_self; or {_OWN_IN_PYTHON}"
)

# Texts for attempts, by audit event.
_ATTEMPTS = {
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
    """Refused attempts since the sandbox was entered, also of libraries: relevant only while a file is loaded."""

    tried: list[str] = field(default_factory=list)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The audit hook: refuses before the kernel does, because here the target is known."""
        text = _ATTEMPTS.get(event)
        if text is not None:
            self.tried.append(text.format(_target(event, arguments)))
            raise PermissionError(errno.EPERM, f"this process may not {self.tried[-1]}")


def seal(folder: Path, *readable: Path) -> None:
    """Restrict this process: it writes only below `folder`, and reads only there, its packages and `readable`.

    It has no network, starts no program and has no capabilities. Call it first, while there is only one thread: the kernel
    would not restrict others, and packages start threads when they are imported.
    """
    if sys.platform != "linux":
        raise _cannot(f"{sys.platform} has none")
    _limit()
    try:
        call(native.enclose, folder, [*_packages(), *readable])
    except FlyballError as error:
        raise _cannot(error.message, next_step=_GET_LANDLOCK if error.code == "no_landlock" else _OWN_IN_PYTHON) from error


def watch() -> Watch:
    """Record refused attempts from now on; the hook cannot be removed."""
    watching = Watch()
    sys.addaudithook(watching.audit)
    return watching


def _packages() -> list[Path]:
    """The folders of the interpreter's modules and libraries."""
    return [*(Path(entry) for entry in sys.path if Path(entry).is_absolute()), Path(sys.base_prefix, "lib")]


def _cannot(why: str, next_step: str = _OWN_IN_PYTHON) -> UsageError:
    return UsageError(f"a file that may run code is only loaded in a sandbox: {why}", next_step=next_step)


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


def _target(event: str, arguments: tuple[Any, ...]) -> str:
    if event in ("socket.connect", "socket.bind"):
        address = arguments[1]
        return ":".join(map(str, address[:2])) if isinstance(address, tuple) else str(address)
    if event == "subprocess.Popen":
        command = arguments[1]
        return " ".join(map(str, command)) if isinstance(command, list | tuple) else str(command)
    first = arguments[0] if arguments else ""
    return os.fsdecode(first) if isinstance(first, bytes) else str(first)
