"""Scenario files: who is in a network, over which links, and what goes wrong when.

    {"about": "what it shows",
     "seed": 1,
     "congestion": "cubic",
     "run": {"swarm.members_min": 3},
     "links": {"cable": {"rate_up": "20mbit", "rate_down": "100mbit", "delay_ms": 8}},
     "members": [{"name": "a", "link": "cable", "share": 1.0}],
     "faults": [{"at_s": 2.5, "do": "cut", "who": "a"},
                {"at_bytes": 1000000, "of": "b", "do": "kill", "who": "a"}]}

A share below 1 makes a member slower: it is stopped for the rest of the time. A fault comes at a
time of the clock that its runner starts, or when `of` (else `who`) has sent and received so many
Ethernet bytes by then. What can be done: ACTIONS; "other" names the far end of a cut.
"""
import dataclasses
import json
import pathlib

from links import Link, Network

ACTIONS = ("kill", "stop", "wake", "start", "cut", "heal", "unplug", "plug", "leave")
FOLDER = pathlib.Path(__file__).parent / "scenarios"


@dataclasses.dataclass(frozen=True)
class Member:
    name: str
    link: str = None  # None: one that costs nothing
    share: float = 1.0

    def __post_init__(self):
        if not 0 < self.share <= 1:
            raise ValueError(f"share of {self.name}: {self.share} is not in (0, 1]")


@dataclasses.dataclass(frozen=True)
class Fault:
    do: str
    who: str
    other: str = None
    at_s: float = None
    at_bytes: int = None
    of: str = None

    def __post_init__(self):
        if self.do not in ACTIONS:
            raise ValueError(f"do: {self.do} is none of {', '.join(ACTIONS)}")
        if (self.at_s is None) == (self.at_bytes is None):
            raise ValueError(f"{self.do} {self.who}: give one of at_s and at_bytes")

    def is_due(self, seconds, passed_bytes):
        """passed_bytes(name) of a member since the clock's start."""
        if self.at_s is not None:
            return seconds >= self.at_s
        return passed_bytes(self.of or self.who) >= self.at_bytes


@dataclasses.dataclass(frozen=True)
class Scenario:
    about: str
    members: list
    seed: int = 1
    congestion: str = None  # TCP's algorithm
    run: dict = dataclasses.field(default_factory=dict)  # keys beside small_swarm's
    links: dict = dataclasses.field(default_factory=dict)
    faults: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        names = [member.name for member in self.members]
        if len(set(names)) != len(names):
            raise ValueError("two members of one name")
        for fault in self.faults:
            for name in (fault.who, fault.other, fault.of):
                if name is not None and name not in names:
                    raise ValueError(f"{fault.do} {name}: there is no such member")

    def network(self, **more):
        """The network of its members and of `more` nodes (name=Link)."""
        links = {member.name: self.links[member.link] if member.link else Link()
                 for member in self.members}
        return Network(links | more, seed=self.seed, congestion=self.congestion)


def read(document):
    """A scenario from what JSON gave; ValueError, TypeError and KeyError name what is wrong."""
    fields = dict(document)
    fields["links"] = {name: Link.of(**link) for name, link in fields.get("links", {}).items()}
    fields["members"] = [Member(**member) for member in fields["members"]]
    fields["faults"] = [Fault(**fault) for fault in fields.get("faults", [])]
    scenario = Scenario(**fields)
    for member in scenario.members:
        if member.link is not None and member.link not in scenario.links:
            raise KeyError(f"{member.name}: there is no link {member.link}")
    return scenario


def load(name):
    """One of the tree's scenarios, or a file of that path."""
    path = pathlib.Path(name)
    if path.suffix != ".json":
        path = FOLDER / f"{name}.json"
    return read(json.loads(path.read_text(encoding="utf-8")))
