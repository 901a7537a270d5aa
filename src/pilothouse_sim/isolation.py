"""Cuts the current process off from every network but its own loopback interface (Linux)."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["enter_network_namespace"]

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_IFREQ = "16sH14s"


def enter_network_namespace() -> bool:
    """Move this process into a new network namespace whose loopback interface is up.

    Call it before any thread starts: a namespace belongs to the calling thread and to what it
    starts later. Without the privilege for it a user namespace is tried, in which the user keeps
    its own id. Returns False, with nothing changed, where the system allows neither.
    """
    if not sys.platform.startswith("linux"):
        return False
    if threading.active_count() > 1:
        raise RuntimeError("enter_network_namespace() must run before any thread is started")
    for enter in (_enter, _enter_as_user):
        # A child tries first: some systems grant the namespace and then refuse its use, and
        # there is no way back.
        if _succeeds_in_child(enter):
            enter()
            return True
    return False


def _succeeds_in_child(enter: Callable[[], None]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            enter()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _enter() -> None:
    _unshare(_CLONE_NEWNET)
    _bring_loopback_up()


def _enter_as_user() -> None:
    user, group = os.getuid(), os.getgid()
    _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
    # Without a map every file would seem to belong to nobody; setgroups must be given up first.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    _bring_loopback_up()


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack(_IFREQ, b"lo", 0, b"")
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, asked)
        flags = struct.unpack(_IFREQ, answer)[1] | _IFF_UP
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", flags, b""))
