"""Network namespaces without names, and the devices in them.

A namespace lives as long as its file descriptor here or a process in it, and processes started here
die with this one. So nothing is left behind, however this process ends, and nothing that others
made can be touched.
"""
import contextlib
import ctypes
import fcntl
import os
import shutil
import struct
import subprocess

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
CAP_SYS_ADMIN = 21
CAP_NET_ADMIN = 12
ETHERNET_HEADER_BYTES = 14

libc = ctypes.CDLL(None, use_errno=True)


def why_not():
    """What is missing for emulated links, or None."""
    for program in ("ip", "tc", "setpriv", "nsenter"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    with open("/proc/self/status", encoding="ascii") as status:
        effective = next(int(line.split()[1], 16) for line in status if line.startswith("CapEff"))
    if not (effective >> CAP_SYS_ADMIN & effective >> CAP_NET_ADMIN & 1):
        return "making network namespaces needs CAP_SYS_ADMIN and CAP_NET_ADMIN"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    with contextlib.suppress(OSError):
        Namespace().close()
        return None
    return "the kernel makes no network namespaces here"


def checked(result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Namespace:
    """A network of its own: its devices, routes and sockets."""

    def __init__(self):
        outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            checked(libc.unshare(CLONE_NEWNET))
            self.descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            self.devices = os.open("/proc/thread-self/net/dev", os.O_RDONLY)
        finally:
            checked(libc.setns(outside, CLONE_NEWNET))
            os.close(outside)
        self.ip("link set lo up")
        self.set_if_there("ipv6/conf/all/disable_ipv6", 1)  # its own chatter spoils counts
        self.set_if_there("ipv6/conf/default/disable_ipv6", 1)

    def close(self):
        os.close(self.devices)
        os.close(self.descriptor)

    def path(self):
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    @contextlib.contextmanager
    def inside(self):
        """Sockets and processes that this thread makes meanwhile are in the namespace."""
        outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        checked(libc.setns(self.descriptor, CLONE_NEWNET))
        try:
            yield
        finally:
            checked(libc.setns(outside, CLONE_NEWNET))
            os.close(outside)

    def ip(self, *commands):
        self.tool(["ip", "-batch", "-"], "".join(f"{command}\n" for command in commands))

    def tc(self, *commands):
        self.tool(["tc", "-batch", "-"], "".join(f"{command}\n" for command in commands))

    def tool(self, command, text):
        with self.inside():
            done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: {done.stderr.strip()}\n{text}")

    def set(self, setting, value):
        """A setting of the network below /proc/sys/net."""
        with self.inside(), open(f"/proc/sys/net/{setting}", "w", encoding="ascii") as file:
            file.write(f"{value}\n")

    def set_if_there(self, setting, value):
        with contextlib.suppress(FileNotFoundError):
            self.set(setting, value)

    def tun(self, name):
        """The descriptor of a new TUN device."""
        with self.inside():
            descriptor = os.open("/dev/net/tun", os.O_RDWR)
            fcntl.ioctl(descriptor, TUNSETIFF,
                        struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
        return descriptor

    def counters(self):
        """{device: (received bytes, received packets, sent bytes, sent packets)}, as it counts."""
        found = {}
        for line in os.pread(self.devices, 1 << 16, 0).decode().splitlines()[2:]:
            name, _, numbers = line.partition(":")
            words = numbers.split()
            found[name.strip()] = (int(words[0]), int(words[1]), int(words[8]), int(words[9]))
        return found

    def start(self, command, **options):
        """A process in the namespace that dies with this one. Only from the main thread: the
        kernel takes the end of the thread that started it for that of its parent."""
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={self.path()}",
             *map(str, command)], **options)
