"""Two hosts in network namespaces of their own, with one cable between them (Linux).

Host      a namespace with its loopback and one end of the cable; no process keeps it alive
Cable     a veth pair, which can be pulled and put back

Nothing has to be installed: the one thing that ioctl cannot do is one netlink message. A namespace
is gone with the descriptor that is held here and the last process in it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

__all__ = ["Cable", "Host", "Hosts", "two_hosts"]

CLONE_NEWNET: Final = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
IFF_UP: Final = 0x1
# rtnetlink(7)
RTM_NEWLINK: Final = 16
REQUEST_CREATE_ACK: Final = 0x1 | 0x4 | 0x200 | 0x400
IFLA_IFNAME, IFLA_LINKINFO, IFLA_NET_NS_FD = 3, 18, 28
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1

END: Final = "cable"
"""What the cable is called on either host."""

_libc = ctypes.CDLL(None, use_errno=True)


class Host:
    """One namespace. Whatever is opened or started within `entered` is on this host."""

    def __init__(self, address: str) -> None:
        self.address: Final = address
        with _own_namespace() as here:
            _call("unshare", CLONE_NEWNET)
            try:
                self._namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                _switch("lo", on=True)
            finally:
                _call("setns", here, CLONE_NEWNET)

    @contextmanager
    def entered(self) -> Generator[None]:
        """Be on this host: this thread, the threads and processes it starts, its new sockets."""
        with _own_namespace() as here:
            _call("setns", self._namespace, CLONE_NEWNET)
            try:
                yield
            finally:
                _call("setns", here, CLONE_NEWNET)

    def fileno(self) -> int:
        return self._namespace

    def has(self, pid: int) -> bool:
        """Whether a process is on this host."""
        own, its = os.fstat(self._namespace), os.stat(f"/proc/{pid}/ns/net")  # noqa: PTH116
        return (own.st_dev, own.st_ino) == (its.st_dev, its.st_ino)

    def close(self) -> None:
        os.close(self._namespace)


class Cable:
    """What is sent while it is out is lost, and nobody is told so."""

    def __init__(self, one: Host, other: Host) -> None:
        self._other = other
        with one.entered():
            _lay(other)
            _address(one.address)
            _switch(END, on=True)
        with other.entered():
            _address(other.address)
        self.plug()

    def pull(self) -> None:
        with self._other.entered():
            _switch(END, on=False)

    def plug(self) -> None:
        with self._other.entered():
            _switch(END, on=True)


class Hosts(NamedTuple):
    a: Host
    b: Host
    cable: Cable


@contextmanager
def two_hosts() -> Generator[Hosts]:
    """Two hosts that reach each other and nothing else."""
    with ExitStack() as stack:
        try:
            a = Host("10.77.0.1")
            stack.callback(a.close)
            b = Host("10.77.0.2")
            stack.callback(b.close)
            cable = Cable(a, b)
        except PermissionError as error:
            raise AssertionError(
                f"this system lets nobody but root make network namespaces ({error}); run as root, "
                "or where unprivileged user namespaces are allowed"
            ) from error
        yield Hosts(a, b, cable)


# The kernel


@contextmanager
def _own_namespace() -> Generator[int]:
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield here
    finally:
        os.close(here)


def _call(name: str, *numbers: int) -> None:
    if getattr(_libc, name)(*numbers) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _lay(other: Host) -> None:
    """Make a veth pair: one end here, one there."""
    name = _attribute(IFLA_IFNAME, END.encode() + b"\0")
    there = _attribute(IFLA_NET_NS_FD, struct.pack("I", other.fileno()))
    peer = _attribute(VETH_INFO_PEER, bytes(16) + name + there)
    kind = _attribute(IFLA_INFO_KIND, b"veth\0") + _attribute(IFLA_INFO_DATA, peer)
    body = bytes(16) + name + _attribute(IFLA_LINKINFO, kind)
    header = struct.pack("IHHII", 16 + len(body), RTM_NEWLINK, REQUEST_CREATE_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as kernel:
        kernel.send(header + body)
        [failure] = struct.unpack_from("i", kernel.recv(4096), 16)
    if failure:
        raise OSError(-failure, f"no veth pair can be made: {os.strerror(-failure)}")


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("HH", size, kind) + value + bytes(-size % 4)


def _address(address: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for order, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.0")):
            fields = (END.encode(), socket.AF_INET, socket.inet_aton(value))
            fcntl.ioctl(control, order, struct.pack("16sH2x4s8x", *fields))


def _switch(end: str, *, on: bool) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sH14s", end.encode(), 0, b"")
        [flags] = struct.unpack_from("H", fcntl.ioctl(control, SIOCGIFFLAGS, asked), 16)
        flags = flags | IFF_UP if on else flags & ~IFF_UP
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14s", end.encode(), flags, b""))
