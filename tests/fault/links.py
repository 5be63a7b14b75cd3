"""Links of the internet on one machine: nodes in namespaces of their own, joined by a hub.

Two ways to build them, chosen by what is asked for:

    rates only      node ── veth ── hub      tbf on both ends; the hub routes; cuts are its rules
    delay, loss     node ── TUN ── relay     tests/support/tun_relay.c does all of it

Rates and byte counts are of Ethernet frames: headers included, preamble and check sequence not.
"""
import dataclasses
import os
import pathlib
import subprocess
from typing import NamedTuple

from namespaces import ETHERNET_HEADER_BYTES, Namespace

RELAY = os.environ.get(
    "TUN_RELAY", str(pathlib.Path(__file__).parents[2] / "build/tests/support/tun_relay"))
SUBNET = "10.77.0"
HUB_ADDRESS = "10.77.255.254"
HUB_HARDWARE = "02:00:00:00:ff:fe"
DEVICE = "wire"
BURST_S = 0.001  # what tbf lets through at once, beyond its rate
BURST_BYTES_MIN = 2 * 1514
UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


def bits_per_s(text):
    """ "100mbit" as a number; None and numbers pass."""
    if text is None or isinstance(text, (int, float)):
        return text
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    return float(digits) * UNITS[text[len(digits):]]


@dataclasses.dataclass(frozen=True)
class Way:
    """What one direction of a link does."""
    rate: float = None  # bits a second; None: no limit
    delay_ms: float = 0.0
    jitter_ms: float = 0.0  # on top of the delay, uniform
    loss: float = 0.0
    overtake: float = 0.0  # the part of packets that skip the delay
    queue_ms: float = 50.0  # what waits longer for the rate is dropped

    def only_rate(self):
        return not (self.delay_ms or self.jitter_ms or self.loss or self.overtake)


@dataclasses.dataclass(frozen=True)
class Link:
    up: Way = Way()
    down: Way = Way()

    @staticmethod
    def of(rate=None, rate_up=None, rate_down=None, **both):
        """The same both ways, but for the rates where they are named."""
        return Link(Way(rate=bits_per_s(rate_up or rate), **both),
                    Way(rate=bits_per_s(rate_down or rate), **both))


class Counters(NamedTuple):
    sent_bytes: int
    sent_packets: int
    received_bytes: int
    received_packets: int


class WayCounts(NamedTuple):
    """Packets of one direction of a link."""
    came: int
    ended: int  # lost by chance, or dropped

    def passed(self):
        return self.came - self.ended


class Node:
    """One machine of the network."""

    def __init__(self, number, congestion):
        self.number = number
        self.address = f"{SUBNET}.{number + 1}"
        self.hardware = f"02:00:00:00:00:{number + 1:02x}"
        self.hub_device = f"to{number}"
        self.congestion = f" congctl {congestion}" if congestion else ""
        self.namespace = Namespace()


class Network:
    """Nodes by name, each with its Link to all others. A context manager: at its end the processes
    in it are dead and the network is gone."""

    def __init__(self, links, seed=1, congestion=None):
        """congestion: the algorithm of TCP on every node; None: what the machine takes."""
        self.links = dict(links)
        self.nodes = {name: Node(number, congestion) for number, name in enumerate(self.links)}
        self.processes = []
        only_rates = all(way.only_rate() for link in self.links.values()
                         for way in (link.up, link.down))
        try:
            self.medium = Hub(self) if only_rates else Relay(self, seed)
            for node in self.nodes.values():
                self.medium.route(node)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            process.wait()
        if hasattr(self, "medium"):
            self.medium.close()
        for node in self.nodes.values():
            node.namespace.close()
        self.nodes = {}

    def address(self, name):
        return self.nodes[name].address

    def listen_address(self, name, port):
        return f"tcp://{self.address(name)}:{port}"

    def inside(self, name):
        """Sockets made meanwhile are the node's."""
        return self.nodes[name].namespace.inside()

    def start(self, name, command, **options):
        """A process on that node; killed at the end of the network at the latest."""
        process = self.nodes[name].namespace.start(command, **options)
        self.processes.append(process)
        return process

    def counters(self, name):
        """What has passed the node's end of its link, in Ethernet bytes."""
        got, got_packets, sent, sent_packets = self.nodes[name].namespace.counters()[DEVICE]
        extra = self.medium.uncounted_bytes
        return Counters(sent + extra * sent_packets, sent_packets,
                        got + extra * got_packets, got_packets)

    def set_link(self, name, link):
        """Rates, and with a relay all else, from now on."""
        self.medium.shape(self.nodes[name], link)
        self.links[name] = link

    def pairs(self, one, other):
        """Both directions between `one` and `other`, or everybody when that is None."""
        first = self.nodes[one]
        others = [self.nodes[other]] if other else \
            [node for node in self.nodes.values() if node is not first]
        return [pair for node in others for pair in ((first, node), (node, first))]

    def cut(self, one, other=None):
        """From now on nothing passes between the two, or between one and everybody; nobody is
        told. Cutting twice is not allowed."""
        self.medium.cut(self.pairs(one, other))

    def heal(self, one, other=None):
        """The opposite of the same cut."""
        self.medium.heal(self.pairs(one, other))

    def unplug(self, name):
        """Take the node's own device down: unlike a cut, its kernel knows."""
        self.nodes[name].namespace.ip(f"link set {DEVICE} down")

    def plug(self, name):
        node = self.nodes[name]
        node.namespace.ip(f"link set {DEVICE} up")
        self.medium.route(node)


class Hub:
    """A namespace that routes between veth pairs, with a token bucket at both ends of each. What
    it must not pass it drops without a word."""

    uncounted_bytes = 0

    def __init__(self, network):
        self.namespace = Namespace()
        self.namespace.set("ipv4/ip_forward", 1)
        self.namespace.ip("route add blackhole default")
        for name, node in network.nodes.items():
            self.join(node)
            self.shape(node, network.links[name])

    def close(self):
        self.namespace.close()

    def join(self, node):
        """Neighbours are known for good: their silence must not become an error in between. One
        packet is one frame, so that counts and rates are those of a wire."""
        self.namespace.ip(
            f"link add {node.hub_device} address {HUB_HARDWARE} type veth"
            f" peer name {DEVICE} address {node.hardware} netns {node.namespace.path()}",
            f"link set {node.hub_device} gso_max_segs 1 up",
            f"address add {HUB_ADDRESS}/32 dev {node.hub_device}",
            f"route add {node.address}/32 dev {node.hub_device}",
            f"neighbour replace {node.address} lladdr {node.hardware} dev {node.hub_device}"
            " nud permanent")
        node.namespace.ip(f"link set {DEVICE} gso_max_segs 1 up",
                          f"address add {node.address}/32 dev {DEVICE}")

    def route(self, node):
        node.namespace.ip(
            f"route replace default via {HUB_ADDRESS} dev {DEVICE} onlink{node.congestion}",
            f"neighbour replace {HUB_ADDRESS} lladdr {HUB_HARDWARE} dev {DEVICE} nud permanent")

    def shape(self, node, link):
        shape_device(node.namespace, DEVICE, link.up)
        shape_device(self.namespace, node.hub_device, link.down)

    def cut(self, pairs):
        self.rules("add", pairs)

    def heal(self, pairs):
        self.rules("del", pairs)

    def rules(self, verb, pairs):
        self.namespace.ip(*(f"rule {verb} from {sender.address} to {receiver.address} blackhole"
                            for sender, receiver in pairs))


def shape_device(namespace, device, way):
    """Replace what limits the device."""
    if way.rate is None:
        namespace.tc(f"qdisc replace dev {device} root pfifo")
        return
    burst = max(int(way.rate * BURST_S / 8), BURST_BYTES_MIN)
    namespace.tc(f"qdisc replace dev {device} root tbf rate {int(way.rate)} burst {burst}"
                 f" latency {way.queue_ms:g}ms")


class Relay:
    """One process between TUN devices. They hand over packets, not frames."""

    uncounted_bytes = ETHERNET_HEADER_BYTES

    def __init__(self, network, seed):
        devices = []
        try:
            for node in network.nodes.values():
                devices.append(node.namespace.tun(DEVICE))
                node.namespace.ip(f"address add {node.address}/32 dev {DEVICE}",
                                  f"link set {DEVICE} mtu 1500 up")
            self.process = subprocess.Popen(
                [RELAY, str(seed), *map(str, devices)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, pass_fds=devices)
        finally:
            for descriptor in devices:
                os.close(descriptor)
        for name, node in network.nodes.items():
            self.shape(node, network.links[name])

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, *commands):
        """The answers of the relay, a line each."""
        self.process.stdin.write("".join(f"{command}\n" for command in commands))
        self.process.stdin.flush()
        return [self.process.stdout.readline() for _ in commands]

    def tell(self, *commands):
        answers = self.ask(*commands)
        if any(answer != "ok\n" for answer in answers):
            raise RuntimeError(f"the relay answers {answers} to {commands}")

    def counts(self, node, way):
        """What has come to this direction ("up" or "down") of the node's link, and what of it goes
        no further."""
        packets, _, lost, dropped = map(int, self.ask(f"counts {node.number} {way}")[0].split())
        return WayCounts(packets, lost + dropped)

    def shape(self, node, link):
        self.tell(*(
            f"link {node.number} {name} {int(way.rate or 0)} {int(way.queue_ms * 1000)}"
            f" {int(way.delay_ms * 1000)} {int(way.jitter_ms * 1000)} {way.loss} {way.overtake}"
            for name, way in (("up", link.up), ("down", link.down))))

    def route(self, node):
        node.namespace.ip(f"route replace {SUBNET}.0/24 dev {DEVICE}{node.congestion}")

    def cut(self, pairs):
        for sender, receiver in pairs:
            self.tell(f"cut {sender.number} {receiver.number}")

    def heal(self, pairs):
        for sender, receiver in pairs:
            self.tell(f"heal {sender.number} {receiver.number}")
