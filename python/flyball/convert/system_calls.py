"""System calls by name, with their numbers on each machine: what a sealed process is refused, always or by what it asks.

The numbers are the kernel's, and a test compares them with its headers. Must not know filters.
"""

from __future__ import annotations

MACHINES = ("x86_64", "aarch64")

# By name: the number on each of the machines; none where it does not have the call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    # the network
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "bind": (49, 200),
    "listen": (50, 201),
    "socketpair": (53, 199),
    "accept4": (288, 242),
    "sendmmsg": (307, 269),
    # other programs
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    # other processes: signals to them, their memory, what is shared with them
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # ways round what is refused here
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "setrlimit": (160, 164),
    # what Landlock leaves open: modes, owners, times and attributes of files; their length on kernels before 6.2
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "truncate": (76, 45),
}
ABSENT: dict[str, tuple[int | None, int | None]] = {"clone3": (435, 435), "openat2": (437, 437)}
"""What they ask lies in memory, which a filter cannot see; libc goes on by clone and openat where the kernel has none."""
JUDGED: dict[str, tuple[int | None, int | None]] = {
    "clone": (56, 220),
    "tgkill": (234, 131),
    "open": (2, None),
    "openat": (257, 56),
    "prlimit64": (302, 261),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
}
"""Refused or not by what they ask."""
SECCOMP: dict[str, tuple[int | None, int | None]] = {"seccomp": (317, 277)}


def on(machine: str, calls: dict[str, tuple[int | None, int | None]]) -> dict[str, int]:
    """The numbers of these calls on one machine, of those that it has."""
    place = MACHINES.index(machine)
    return {name: number for name, numbers in calls.items() if (number := numbers[place]) is not None}
