"""The emulated links are what was asked for: rates, delays, losses, order, silent cuts; and
nothing is left behind."""
import contextlib
import json
import os
import pathlib
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import scenario
from links import Link, Network, Way
from namespaces import why_not

SKIPPED = 77  # as Meson reads it
RATE_TOLERANCE = 0.05
ATTEMPTS = 4
DELAY_TOLERANCE_S = 0.002
SIGMAS = 5  # of a binomial count
PORT = 5000
SO_TIMESTAMPNS = 35  # which Python has no name for
BATCH = 100  # datagrams; the queue of a TUN device holds 500
PATIENCE_S = 30
RTO_S = 3.0  # within which TCP has tried again


def connection(network, client, server):
    """A TCP connection: (client's end, server's end)."""
    with network.inside(server):
        listener = socket.create_server((network.address(server), PORT))
    with network.inside(client):
        near = socket.socket()
    near.settimeout(5)
    near.connect((network.address(server), PORT))
    far = listener.accept()[0]
    listener.close()
    return near, far


@contextlib.contextmanager
def flooded(network, sender, receiver):
    """TCP from one to the other as fast as it goes; gives the count of bytes that arrived."""
    near, far = connection(network, sender, receiver)
    arrived = [0]

    def send():
        with contextlib.suppress(OSError):
            while True:
                near.sendall(bytes(1 << 18))

    def receive():
        with contextlib.suppress(OSError):
            while count := len(far.recv(1 << 20)):
                arrived[0] += count

    threads = [threading.Thread(target=work) for work in (send, receive)]
    for thread in threads:
        thread.start()
    try:
        yield arrived
    finally:
        for end in (near, far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        near.close()
        far.close()


class Datagrams:
    """Numbered, timed UDP packets from one node to another."""

    def __init__(self, network, sender, receiver):
        self.network, self.sender, self.receiver = network, sender, receiver
        with network.inside(receiver):
            self.far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.far.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.far.bind((network.address(receiver), PORT))
        self.far.setblocking(False)
        with network.inside(sender):
            self.near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.near.connect((network.address(receiver), PORT))
        self.arrived = []  # (number, seconds on the way)

    def close(self):
        self.near.close()
        self.far.close()

    def take(self, seconds):
        """Receive for so long. The kernel says when a packet arrived: this process may have waited
        for a processor since then."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.far, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                if selector.select(left):
                    data, ((_, _, stamp),), _, _ = self.far.recvmsg(64, 64)
                    number, sent = struct.unpack("=Qd", data)
                    whole_s, ns = struct.unpack("=qq", stamp)
                    self.arrived.append((number, whole_s + ns * 1e-9 - sent))

    def send_one(self, number):
        self.near.send(struct.pack("=Qd", number, time.time()))

    def send(self, count, gap_s, wait_s):
        for number in range(count):
            self.send_one(number)
            self.take(gap_s)
        self.take(wait_s)
        return self.arrived

    def send_all(self, count):
        """As fast as the relay takes them; until each has arrived or is lost. Queues hold a
        batch."""
        for begin in range(0, count, BATCH):
            end = min(begin + BATCH, count)
            for number in range(begin, end):
                self.send_one(number)
            self.wait_for_relay(end)
        return self.arrived

    def wait_for_relay(self, sent):
        """Until nothing of what was sent is under way. Nothing else is sent on this network."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self.take(0.001)
            up = self.network.medium.counts(self.network.nodes[self.sender], "up")
            down = self.network.medium.counts(self.network.nodes[self.receiver], "down")
            if up.came == sent and down.came == up.passed() \
                    and len(self.arrived) == down.passed():
                return
        raise TimeoutError(f"of {sent} packets {up} and {down}, {len(self.arrived)} arrived")


class LinksTest(unittest.TestCase):
    def network(self, **links):
        network = Network(links)
        self.addCleanup(network.close)
        return network

    def open_datagrams(self, network, sender, receiver):
        datagrams = Datagrams(network, sender, receiver)
        self.addCleanup(datagrams.close)
        return datagrams

    def datagrams(self, network, sender, receiver, **sending):
        return self.open_datagrams(network, sender, receiver).send(**sending)


class Rates(LinksTest):
    def assert_rate(self, expected, measure):
        """A busy machine only makes it less, now and then."""
        rates = []
        while len(rates) < ATTEMPTS and (not rates or rates[-1] < expected * (1 - RATE_TOLERANCE)):
            rates.append(measure())
        self.assertAlmostEqual(rates[-1] / expected, 1, delta=RATE_TOLERANCE, msg=rates)

    def assert_link(self, expected, links):
        """Ethernet bytes that arrive at b, while a sends by TCP all it can."""
        network = self.network(**links)

        def measure():
            with flooded(network, "a", "b"):
                time.sleep(0.3)
                before, began = network.counters("b").received_bytes, time.monotonic()
                time.sleep(0.6)
                passed = network.counters("b").received_bytes - before
                return passed * 8 / (time.monotonic() - began)

        self.assert_rate(expected, measure)

    def test_hub_limits_the_way_up(self):
        self.assert_link(40e6, {"a": Link.of(rate_up="40mbit"), "b": Link()})

    def test_hub_limits_the_way_down(self):
        self.assert_link(30e6, {"a": Link.of("100mbit"), "b": Link.of(rate_down="30mbit")})

    def test_relay_limits_the_way_up(self):
        self.assert_link(20e6, {"a": Link.of(rate_up="20mbit", delay_ms=2), "b": Link()})

    def test_relay_limits_the_way_down(self):
        self.assert_link(30e6, {"a": Link.of("100mbit", delay_ms=2),
                                "b": Link(down=Way(rate=30e6))})

    def test_relay_carries_200_mbit_at_60_ms_on_one_core(self):
        """By the time that it computes: there may be no whole core for it now."""
        far = Link.of("200mbit", delay_ms=15)
        network = self.network(a=far, b=far)
        datagrams = self.open_datagrams(network, "a", "b")
        spent = pathlib.Path(f"/proc/{network.medium.process.pid}/schedstat")
        before, began = network.counters("b").received_bytes, int(spent.read_text().split()[0])
        for _ in range(300):
            for _ in range(24):
                datagrams.near.send(bytes(1472))
            time.sleep(0.0012)
        time.sleep(0.1)
        carried = network.counters("b").received_bytes - before
        computed_s = (int(spent.read_text().split()[0]) - began) * 1e-9
        self.assertGreater(carried, 100 * 1514)
        self.assertLess(computed_s / carried * 200e6 / 8, 1)

    def test_counts_are_what_was_sent_with_all_headers(self):
        for link in (Link(), Link.of(delay_ms=1)):
            network = self.network(a=link, b=Link())
            before = network.counters("a"), network.counters("b")
            self.datagrams(network, "a", "b", count=50, gap_s=0, wait_s=0.1)
            sent, got = network.counters("a"), network.counters("b")
            frame = 14 + 20 + 8 + 16
            self.assertEqual(sent.sent_packets - before[0].sent_packets, 50)
            self.assertEqual(sent.sent_bytes - before[0].sent_bytes, 50 * frame)
            self.assertEqual(got.received_bytes - before[1].received_bytes, 50 * frame)


class Delays(LinksTest):
    def test_relay_delays_by_both_links(self):
        network = self.network(a=Link.of(delay_ms=20), b=Link.of(delay_ms=7))
        times = sorted(time_s for _, time_s in
                       self.datagrams(network, "a", "b", count=100, gap_s=0.002, wait_s=0.1))
        self.assertEqual(len(times), 100)
        self.assertGreaterEqual(times[0], 0.027)
        self.assertLessEqual(times[50], 0.027 + DELAY_TOLERANCE_S)

    def test_jitter_stays_within_its_bound_and_keeps_the_order(self):
        network = self.network(a=Link.of(delay_ms=10, jitter_ms=10), b=Link())
        arrived = self.datagrams(network, "a", "b", count=300, gap_s=0.001, wait_s=0.1)
        times = sorted(time_s for _, time_s in arrived)
        self.assertEqual([number for number, _ in arrived], list(range(300)))
        self.assertGreaterEqual(times[0], 0.010)
        self.assertLessEqual(times[270], 0.020 + DELAY_TOLERANCE_S)
        self.assertGreater(times[270] - times[30], 0.002)

    def test_some_packets_overtake_where_asked(self):
        network = self.network(a=Link(up=Way(delay_ms=10, overtake=0.2)), b=Link())
        numbers = [number for number, _ in
                   self.datagrams(network, "a", "b", count=500, gap_s=0.001, wait_s=0.1)]
        late = sum(number < highest for number, highest in
                   zip(numbers, [max(numbers[:i + 1]) for i in range(500)]))
        self.assertEqual(sorted(numbers), list(range(500)))
        self.assertGreater(late, 100)


class Losses(LinksTest):
    def test_relay_loses_as_many_as_asked(self):
        network = self.network(a=Link(up=Way(loss=0.1)), b=Link(down=Way(loss=0.05)))
        count, kept = 4000, 0.9 * 0.95
        arrived = self.open_datagrams(network, "a", "b").send_all(count)
        sigma = (count * kept * (1 - kept)) ** 0.5
        self.assertAlmostEqual(len(arrived), count * kept, delta=SIGMAS * sigma)

    def test_a_seed_loses_the_same(self):
        lost = []
        for _ in range(2):
            network = self.network(a=Link(up=Way(loss=0.3)), b=Link())
            arrived = self.open_datagrams(network, "a", "b").send_all(200)
            lost.append([number for number, _ in arrived])
        self.assertEqual(lost[0], lost[1])


class Cuts(LinksTest):
    WAYS = {"hub": Link.of("100mbit"), "relay": Link.of("100mbit", delay_ms=5)}

    def received(self, end, seconds):
        end.settimeout(seconds)
        try:
            return end.recv(1 << 16)
        except TimeoutError:
            return None

    def assert_cut_and_healed(self, network, cut):
        """What is said during the cut comes after it, on the same connection; no word of it, no
        end and no error, meanwhile."""
        near, far = connection(network, "a", "b")
        self.addCleanup(near.close)
        self.addCleanup(far.close)
        near.send(b"before")
        self.assertEqual(self.received(far, 2), b"before")
        network.cut(*cut)
        before = network.counters("b")
        near.send(b"meanwhile")
        self.assertIsNone(self.received(far, 0.3))
        self.assertIsNone(self.received(near, 0.1))
        self.assertEqual(near.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)
        self.assertEqual(network.counters("b").received_packets, before.received_packets)
        network.heal(*cut)
        self.assertEqual(self.received(far, RTO_S), b"meanwhile")

    def test_a_member_cut_off_is_silent_and_heals(self):
        for link in self.WAYS.values():
            self.assert_cut_and_healed(self.network(a=link, b=link, c=link), ("b",))

    def test_a_pair_cut_is_silent_while_others_talk(self):
        for link in self.WAYS.values():
            network = self.network(a=link, b=link, c=link)
            self.assert_cut_and_healed(network, ("a", "b"))
            network.cut("a", "b")
            for one, other in (("a", "c"), ("c", "b")):
                near, far = connection(network, one, other)
                near.send(b"still")
                self.assertEqual(self.received(far, 2), b"still")
                near.close()
                far.close()

    def test_nobody_refuses_a_connection_through_a_cut(self):
        for link in self.WAYS.values():
            network = self.network(a=link, b=link)
            network.cut("a", "b")
            with network.inside("a"):
                near = socket.socket()
            self.addCleanup(near.close)
            near.settimeout(0.4)
            with self.assertRaises(TimeoutError):
                near.connect((network.address("b"), PORT))

    def test_a_plug_pulled_and_put_back(self):
        for link in self.WAYS.values():
            network = self.network(a=link, b=link)
            near, far = connection(network, "a", "b")
            self.addCleanup(near.close)
            self.addCleanup(far.close)
            network.unplug("a")
            far.send(b"meanwhile")
            self.assertIsNone(self.received(near, 0.3))
            network.plug("a")
            self.assertEqual(self.received(near, RTO_S), b"meanwhile")


ABANDONED = """
import sys, time
from links import Link, Network
network = Network({"a": Link.of("1mbit"), "b": Link.of(delay_ms=float(sys.argv[1]))})
inner = network.start("a", ["sleep", "1000"])
print(inner.pid, getattr(getattr(network.medium, "process", inner), "pid", 0), flush=True)
time.sleep(1000)
"""


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Endings(LinksTest):
    def test_a_killed_run_leaves_no_process_behind(self):
        for delay_ms in (0, 5):
            run = subprocess.Popen([sys.executable, "-c", ABANDONED, str(delay_ms)], text=True,
                                   cwd=pathlib.Path(__file__).parent, stdout=subprocess.PIPE)
            pids = [int(word) for word in run.stdout.readline().split()]
            run.send_signal(signal.SIGKILL)
            run.wait()
            run.stdout.close()
            deadline = time.monotonic() + 5
            while not all(is_gone(pid) for pid in pids) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertTrue(all(is_gone(pid) for pid in pids), pids)

    def test_a_closed_network_is_gone(self):
        before = set(os.listdir("/sys/class/net")), len(os.listdir("/proc/self/fd"))
        for delay_ms in (0, 5):
            with Network({"a": Link.of("1mbit"), "b": Link.of(delay_ms=delay_ms)}) as network:
                inner = network.start("a", ["sleep", "1000"])
            self.assertIsNotNone(inner.returncode)
        self.assertEqual(before, (set(os.listdir("/sys/class/net")),
                                  len(os.listdir("/proc/self/fd"))))


class Scenarios(unittest.TestCase):
    def test_every_scenario_of_the_tree_builds_its_network(self):
        paths = sorted(scenario.FOLDER.glob("*.json"))
        self.assertTrue(paths)
        for path in paths:
            found = scenario.load(path)
            with found.network(tracker=Link()) as network:
                self.assertEqual(len(network.nodes), len(found.members) + 1)

    def test_a_fault_comes_at_its_time_or_byte(self):
        passed = {"a": 10, "b": 99}.get
        by_time = scenario.Fault(do="kill", who="a", at_s=2)
        by_bytes = scenario.Fault(do="kill", who="a", of="b", at_bytes=100)
        self.assertFalse(by_time.is_due(1.9, passed))
        self.assertTrue(by_time.is_due(2.0, passed))
        self.assertFalse(by_bytes.is_due(1e9, passed))
        self.assertTrue(by_bytes.is_due(0, lambda name: 100))

    def test_wrong_scenarios_are_refused(self):
        good = {"about": "", "links": {"l": {"rate": "1mbit"}},
                "members": [{"name": "a", "link": "l"}]}
        scenario.read(json.loads(json.dumps(good)))
        for change in ({"unknown": 1}, {"members": [{"name": "a", "link": "none"}]},
                       {"members": [{"name": "a"}, {"name": "a"}]},
                       {"members": [{"name": "a", "share": 0}]},
                       {"links": {"l": {"rate": "1parsec"}}}, {"links": {"l": {"speed": 1}}},
                       {"faults": [{"do": "kill", "who": "z", "at_s": 1}]},
                       {"faults": [{"do": "melt", "who": "a", "at_s": 1}]},
                       {"faults": [{"do": "kill", "who": "a"}]}):
            with self.assertRaises((ValueError, TypeError, KeyError), msg=change):
                scenario.read(good | change)


if __name__ == "__main__":
    missing = why_not()
    if missing:
        print(f"skipped: {missing}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
