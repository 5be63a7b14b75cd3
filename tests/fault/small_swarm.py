"""A swarm of real processes, each on a node of its own: a tracker, members, and what they leave.

The run is made here: a random Llama of about as many parameters as asked for, a text of bytes, a
few short inner steps a round, so that a round is nearly all exchange.
"""
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

BUILD = pathlib.Path(__file__).parents[2] / "build"
SKEP = os.environ.get("SKEP", str(BUILD / "skep"))
LED_TRACKER = os.environ.get("LED_TRACKER", str(BUILD / "tests/support/led_tracker"))
TRACKER = "tracker"
STATUS = "status"  # folder of the identity that asks for the status
TRACKER_PORT = 7700
MEMBER_PORT = 7701
JOIN_STRING = re.compile(r"tcp://\S+#p[a-z2-7]{111}")
START_S = 30
STEPS_MAX = 10**6  # more than any campaign has
VOCAB = 256
PATIENCE = 64  # steps take milliseconds, a snapshot meanwhile a second

SETTINGS = {
    "model": "model", "init": "random", "seed": 11, "steps": STEPS_MAX,
    "data.train": "train.bytes", "data.validation": "valid.bytes",
    "batch.sequence": 8, "batch.tokens": 8, "batch.microbatch": 1,
    "optimizer.lr": 1e-3, "schedule.kind": "constant",
    "swarm.name": "small", "swarm.inner_steps": 4, "swarm.codec": "int8",
    "swarm.members_max": 8, "swarm.shrink_after": 0, "swarm.patience": PATIENCE,
}


def llama(parameters):
    """A Llama over bytes with about so many parameters: (config.json, their exact number)."""
    hidden, layers = (512, 5) if parameters >= 1 << 23 else (128, 4)

    def count(inner):
        return layers * (4 * hidden**2 + 3 * hidden * inner + 2 * hidden) \
            + 2 * VOCAB * hidden + hidden

    inner = max(64, min(range(64, 1 << 14, 64), key=lambda n: abs(count(n) - parameters)))
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
            "vocab_size": VOCAB, "hidden_size": hidden, "intermediate_size": inner,
            "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 4,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "initializer_range": 0.02, "tie_word_embeddings": False,
            "torch_dtype": "float32"}, count(inner)


def nested(settings):
    """{"a.b": 1} as run.yaml has it."""
    groups = {}
    for key, value in settings.items():
        group, _, name = key.rpartition(".")
        groups.setdefault(group, []).append((name, value))
    lines = [f"{name}: {value}" for name, value in groups.pop("", [])]
    for group, entries in groups.items():
        lines += [f"{group}:", *(f"  {name}: {value}" for name, value in entries)]
    return "\n".join(lines) + "\n"


def make_run(folder, parameters, settings=None, **more):
    """model/, the data files and run.yaml in `folder`; the number of parameters. Settings by name,
    or as arguments with a__b for a.b; a setting that is None has its default."""
    config, count = llama(parameters)
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text(json.dumps(config))
    chance = random.Random(5)
    words = ["".join(chance.choices("abcdefghij", k=chance.randrange(2, 7))) for _ in range(200)]
    lines = [" ".join(chance.choices(words, k=32)) for _ in range(1 << 10)]  # above 95 bytes
    for name, bytes_ in (("train.bytes", 1 << 23), ("valid.bytes", 1 << 14)):
        text = " ".join(chance.choices(lines, k=bytes_ // 64)).encode()
        (folder / name).write_bytes(text[:bytes_])
    chosen = SETTINGS | (settings or {}) \
        | {key.replace("__", "."): value for key, value in more.items()}
    (folder / "run.yaml").write_text(nested(
        {key: value for key, value in chosen.items() if value is not None}))
    return count


class Lines:
    """JSON lines of a file that grows; one cut off by a kill is left out."""

    def __init__(self, path):
        self.path = path
        self.offset = 0
        self.rest = b""

    def new(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return []
        self.offset += len(data)
        *whole, self.rest = (self.rest + data).split(b"\n")
        found = []
        for line in whole:
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return found


class Process:
    """One `skep` on its node; a killed one can be started again in its old folder."""

    def __init__(self, network, name, folder, command):
        self.network, self.name, self.folder, self.command = network, name, folder, command
        self.process = None
        self.starts = 0
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, **environment):
        self.starts += 1
        own = {"STATE_DIRECTORY": str(self.folder / "state"),
               "XDG_CONFIG_HOME": str(self.folder / "config"),
               "XDG_CACHE_HOME": str(self.folder / "cache")}
        with open(self.folder / "log", "ab") as log, open(self.folder / "output", "ab") as output:
            self.process = self.network.start(
                self.name, self.command, env={**os.environ, **own, **environment},
                cwd=self.folder, stdout=output, stderr=log, stdin=subprocess.DEVNULL)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def waits_s(self):
        """Seconds that its threads have been ready to run and had no processor; of a process that
        has ended 0."""
        total_ns = 0
        for path in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):
                total_ns += int(path.read_text().split()[1])
        return total_ns * 1e-9

    def text(self, name="log"):
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""


class Member(Process):
    def __init__(self, network, name, folder, join, settings, program=(SKEP,)):
        """program: the words before `join`."""
        record = folder / "record"
        super().__init__(network, name, folder, [
            *program, "join", join, "--name", name, "--listen", "",
            f"metrics={folder / 'metrics.jsonl'}", *settings])
        self.port = MEMBER_PORT - 1
        self.move()
        self.record = record
        self.ledger = folder / "state" / "ledger.jsonl"
        self.lines = Lines(folder / "metrics.jsonl")
        self.rounds = {}  # number: its last line
        self.roots = {}  # number: every root that it ever reported

    def move(self):
        """It listens at another port from its next start on."""
        self.port += 1
        self.command[self.command.index("--listen") + 1] = \
            self.network.listen_address(self.name, self.port)

    def read(self):
        """Take in what it has said since."""
        for line in self.lines.new():
            if line["kind"] == "round":
                self.rounds[line["round"]] = line
                self.roots.setdefault(line["round"], set()).add(line["root"])
        return self.rounds

    def last(self):
        return max(self.read(), default=-1)


class Swarm:
    """The tracker and the members of a network, by name; a context manager."""

    def __init__(self, network, folder, members, record=False,
                 inner_steps=SETTINGS["swarm.inner_steps"], programs=None, settings=None):
        """inner_steps: the run's. programs, settings: by name, the words before `join` and the
        further settings of members that are not like the others."""
        self.network, self.folder = network, pathlib.Path(folder)
        self.record, self.inner_steps = record, inner_steps
        self.programs, self.settings = programs or {}, settings or {}
        address = f"tcp://{network.address(TRACKER)}:{TRACKER_PORT}"
        self.tracker = Process(network, TRACKER, self.folder / TRACKER, [
            SKEP, "track", self.folder / "run.yaml", "--listen", address,
            "--state", self.folder / TRACKER / "state",
            "--roster", self.folder / "roster.yaml"])
        self.names = list(members)
        self.members = {}
        self.write_roster("members:\n" + "".join(
            f"  - key: {self.key_of(name)}\n" for name in [*self.names, STATUS]))

    def key_of(self, name):
        """The key of a member, or of another folder; its identity is created if necessary."""
        command = [SKEP, "keys", "--identity",
                   self.folder / name / ("" if name == STATUS else "config") / "skep" / "identity"]
        return subprocess.run(command, text=True, check=True, capture_output=True).stdout.strip()

    def write_roster(self, text):
        beside = self.folder / "roster.new"
        beside.write_text(text)
        beside.replace(self.folder / "roster.yaml")

    def start(self):
        self.tracker.start()
        join = self.join_string()
        for name in self.names:
            folder = self.folder / name
            settings = ["threads=1", "snapshot.keep=1",
                        # not all at once
                        f"snapshot.every={self.inner_steps * (5 + len(self.members))}",
                        f"data.train={self.folder / 'train.bytes'}",
                        f"data.validation={self.folder / 'valid.bytes'}",
                        *self.settings.get(name, [])]
            if self.record:
                settings.append(f"swarm.record={folder / 'record'}")
            self.members[name] = Member(self.network, name, folder, join, settings,
                                        self.programs.get(name, [SKEP]))
            self.members[name].start()

    def join_string(self):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            found = JOIN_STRING.search(self.tracker.text("output") + self.tracker.text())
            if found:
                return found.group()
            if not self.tracker.is_running():
                break
            time.sleep(0.02)
        raise RuntimeError(f"the tracker gave no join string:\n{self.tracker.text()}")

    def open_roster(self):
        """Others may join as guests."""
        self.write_roster("open: true\n" + (self.folder / "roster.yaml").read_text())

    def close_roster(self):
        """Nobody new is admitted."""
        self.write_roster((self.folder / "roster.yaml").read_text().replace("open: true\n", ""))

    def running(self):
        return [member for member in self.members.values() if member.is_running()]

    def processes(self):
        return [self.tracker, *self.members.values()]

    def stop(self):
        """Ask all to end, members first; the exit codes by name."""
        for process in [*self.members.values(), self.tracker]:
            if process.is_running():
                process.signal(signal.SIGTERM)
        codes = {}
        for process in self.processes():
            with contextlib.suppress(subprocess.TimeoutExpired):
                codes[process.name] = process.process.wait(timeout=20)
        return codes

    def passed_bytes(self, name):
        """Ethernet bytes that a node has sent and received."""
        counters = self.network.counters(name)
        return counters.sent_bytes + counters.received_bytes

    def sent_bytes(self):
        """Ethernet bytes that all members have sent."""
        return sum(self.network.counters(name).sent_bytes for name in self.names)

    def received_bytes(self):
        """Ethernet bytes that have come to all members over their links."""
        return sum(self.network.counters(name).received_bytes for name in self.names)

    def wait_for(self, condition, seconds, what):
        """Poll under a deadline; the condition's value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            for process in self.processes():
                if process.process is not None and process.process.poll() not in (None, -9):
                    raise RuntimeError(f"{process.name} ended with {process.process.returncode} "
                                       f"while waiting for {what}:\n{process.text()[-4000:]}")
            time.sleep(0.002)
        raise TimeoutError(f"no {what} within {seconds} s:\n" + "\n".join(
            f"--- {process.name}\n{process.text()[-1500:]}" for process in self.processes()))
