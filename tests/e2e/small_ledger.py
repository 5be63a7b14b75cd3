"""Ledgers made in plain Python, apart from the program: canonical bytes, BLAKE2b, Ed25519, lines.

Standard library only; Ed25519 as RFC 8032 writes it down, slow and for tests only.
"""
import base64
import hashlib
import json
import struct

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
KINDS = ["genesis", "open", "commit", "abort", "rollback", "suspend"]
REASONS = ["declaration", "contributions", "results"]
ZERO = bytes(32)


def blake(*parts):
    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()


def add(a, b):
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar, point):
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point, scalar = add(point, point), scalar >> 1
    return total


def base_point():
    y = 4 * pow(5, P - 2, P) % P
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P)
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    x = P - x if x & 1 else x
    return x, y, 1, x * y % P


BASE = base_point()


def packed(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


class Signer:
    """One member's signing key, from a number, or from the 32 secret bytes of a key."""

    def __init__(self, number=0, seed=None):
        digest = hashlib.sha512(seed or blake(b"member", bytes([number]))).digest()
        self.scalar = int.from_bytes(digest[:32], "little") & (1 << 254) - 8 | 1 << 254
        self.prefix = digest[32:]
        self.id = packed(times(self.scalar, BASE))

    def sign(self, entry_hash, context=b"skep ledger entry"):
        message = blake(b"skep signature\0", bytes([len(context)]), context, entry_hash)
        nonce = number_of(self.prefix, message)
        point = packed(times(nonce, BASE))
        challenge = number_of(point, self.id, message)
        return point + ((nonce + challenge * self.scalar) % ORDER).to_bytes(32, "little")

    def text(self):
        """The identity's string; the channel's key is all zero here."""
        keys = bytes([15 << 3 | 1]) + ZERO + self.id
        keys += blake(b"skep key string\0", keys)[:5]
        return base64.b32encode(keys).decode().lower()


def number_of(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def sized(value, fixed, fixed_max, wider):
    """A MessagePack header with a size: the shortest of its forms."""
    if value <= fixed_max:
        return bytes([fixed | value])
    code, form = next(pair for pair in wider if value < 1 << 8 * struct.calcsize(pair[1]))
    return bytes([code]) + struct.pack(form, value)


def message_pack(value):
    """MessagePack as its specification writes it down; only types that entries have."""
    if isinstance(value, int):
        return sized(value, 0, 0x7f, [(0xcc, ">B"), (0xcd, ">H"), (0xce, ">I"), (0xcf, ">Q")])
    if isinstance(value, bytes):
        return sized(len(value), 0, -1, [(0xc4, ">B"), (0xc5, ">H"), (0xc6, ">I")]) + value
    if isinstance(value, str):
        return sized(len(value), 0xa0, 31, [(0xd9, ">B")]) + value.encode()
    if isinstance(value, list):
        return sized(len(value), 0x90, 15, [(0xdc, ">H")]) + b"".join(map(message_pack, value))
    pairs = b"".join(message_pack(key) + message_pack(value[key]) for key in value)
    return sized(len(value), 0x80, 15, [(0xde, ">H")]) + pairs


def column(form, values):
    """A bin of numbers, little-endian."""
    return struct.pack(f"<{len(values)}{form}", *values)


def ranges_bytes(ranges):
    return column("Q", [bound for pair in ranges for bound in pair])


def hex_column(rows, key):
    return b"".join(bytes.fromhex(row[key]) for row in rows)


def keys_of(text):
    """The channel key and the signing key of an identity's string."""
    raw = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
    return raw[1:33], raw[33:65]


def delegation_fields(line):
    if "delegation" not in line:
        return {"delegation": 0}
    found = line["delegation"]
    curve, sign = keys_of(found["tracker"])
    return {"delegation": found["serial"], "expires_s": found["expires_s"],
            "tracker_curve": curve, "tracker_sign": sign,
            "delegation_signature": bytes.fromhex(found["signature"])}


def roster_fields(line):
    if "roster" not in line:
        return {"roster": 0}
    found = line["roster"]
    return {"roster": found["serial"], "is_open": int(found["open"]),
            "roster_members": b"".join(map(bytes.fromhex, found["members"])),
            "roster_signature": bytes.fromhex(found["signature"])}


def electors(numbers):
    return sum(1 << number for number in numbers)


def lease_fields(line):
    if "leases" not in line:
        return {"start": 0}
    found = line["leases"]
    fields = {"start": found["start"], "state": bytes.fromhex(found["state"]),
              "resigned": electors(found["resigned"]),
              "resignation_signatures": b"".join(map(bytes.fromhex, found["signatures"]))}
    order = found.get("order", {"members": []})
    fields["order_members"] = b"".join(map(bytes.fromhex, order["members"]))
    if order["members"]:
        fields["order_to_continue"] = bytes.fromhex(order["signature"])
    return fields


def body(line):
    """The canonical bytes of a line."""
    kind, members = line["kind"], line.get("members", [])
    needs = {"needs_leases": line["needs_leases"]} if kind == "genesis" else {}
    entry = {"protocol": 2, "kind": KINDS.index(kind), "incarnation": line["incarnation"],
             "round": line["round"], "commits": line["commits"],
             "deadline_ms": line.get("deadline_ms", 0), **needs,
             "prev": bytes.fromhex(line["prev"]), "root": bytes.fromhex(line["root"]),
             "manifest": bytes.fromhex(line.get("manifest", ZERO.hex())),
             "reference_norm": column("d", [line["reference_norm"]]),
             "position": line["cursor"]["position"],
             "returned": ranges_bytes(line["cursor"]["returned"]),
             "seat_count": len(members), "seats": hex_column(members, "id"),
             "sessions": column("I", [member["session"] for member in members]),
             "guests": bytes(member.get("guest", False) for member in members),
             "ranges": [ranges_bytes(member["ranges"]) for member in members]}
    if kind != "commit":
        entry |= delegation_fields(line)
    if kind == "open":
        entry |= roster_fields(line)
    if kind in ("open", "abort"):
        entry |= lease_fields(line)
    if kind == "suspend":
        entry |= {"suspended": bytes.fromhex(line["suspended"]),
                  "reason": 1 + REASONS.index(line["reason"]), "until_round": line["until_round"]}
    if kind == "rollback":
        order = line.get("order", {"newest": ZERO.hex(), "signature": 2 * ZERO.hex()})
        entry |= {"order_newest": bytes.fromhex(order["newest"]),
                  "order_signature": bytes.fromhex(order["signature"])}
    if kind == "commit":
        entry |= {"tokens": column("Q", [member["tokens"] for member in members]),
                  "weights": column("Q", [member["weight"] for member in members]),
                  "samples": column("Q", [member["samples"] for member in members]),
                  "norms": column("d", [member["norm"] for member in members]),
                  "contributed": column("I", [member["contributed"] for member in members]),
                  "owned": column("I", [member["owned"] for member in members]),
                  "slice_count": line["slice_count"], "results": bytes.fromhex(line["results"]),
                  "chain": bytes.fromhex(line["chain"])}
    return message_pack(entry)


def results_root(slices):
    """The Merkle root over the rows: a level's last node without a sibling moves up as it is."""
    level = []
    for row in slices:
        seats = sum(1 << seat for seat in row["contributors"])
        numbers = struct.pack("<QQBHQQ", row["begin"], row["end"], row["owner"], row["epoch"],
                              seats, row["weight"])
        level.append(blake(b"\x05", numbers, bytes.fromhex(row["hash"])))
    while len(level) > 1:
        pairs = [blake(b"\x01", left, right) for left, right in zip(level[::2], level[1::2])]
        level = pairs + level[len(level) & ~1:]
    return blake(b"\x03", struct.pack("<Q", len(slices)), level[0]).hex()


def results(members, slices):
    """The fields of a commit that follow from its rows."""
    counted = [{**member, "owned": sum(row["owner"] == seat for row in slices),
                "contributed": sum(seat in row["contributors"] for row in slices)}
               for seat, member in enumerate(members)]
    return {"members": counted, "slices": slices, "slice_count": len(slices),
            "results": results_root(slices)}


def cursor_hash(cursor):
    return blake(struct.pack("<Q", cursor["position"]), ranges_bytes(cursor["returned"]))


def roster_hash(members):
    return blake(*[bytes.fromhex(member["id"]) +
                   struct.pack("<III", member["session"], member.get("guest", False),
                               len(member["ranges"])) +
                   ranges_bytes(member["ranges"]) for member in members])


NO_ELECTORS = {"needs_leases": 0, "state_entry": ZERO, "state_round": 0, "electors": b"",
               "vote_seats": 0, "vote_first": 0, "vote_count": 0}
NO_ROSTER = {"roster": 0, "is_open": 0, "roster_members": b"", "roster_signature": 2 * ZERO}


def chain_state(lines):
    """The state of a chain, from all of its lines; none is a rollback or has leases."""
    states = [line for line in lines if line["kind"] in ("genesis", "commit")][-33:]
    opened = [line for line in lines if line["kind"] == "open"]
    ended = [line for line in lines if line["kind"] in ("commit", "abort")]
    delegated = [delegation_fields(line) for line in lines if "delegation" in line]
    epochs = [roster_fields(line) for line in lines if "roster" in line]
    last = lines[-1]
    state = {"swarm": bytes.fromhex(lines[0]["manifest"]), "entry_count": len(lines),
             "head": bytes.fromhex(last["hash"]), "root": bytes.fromhex(last["root"]),
             "reference_norm": column("d", [last["reference_norm"]]),
             "incarnation": last["incarnation"],
             "last_ended_round": ended[-1]["round"] if ended else 0,
             "last_opened_round": opened[-1]["round"] if opened else 0,
             "commits": last["commits"], "is_round_open": int(last["kind"] == "open"),
             "seats": roster_hash(opened[-1]["members"]) if opened else ZERO,
             **NO_ELECTORS,
             "delegation": delegated[-1]["delegation"], "tracker": delegated[-1]["tracker_sign"],
             **(epochs[-1] if epochs else NO_ROSTER),
             "position": last["cursor"]["position"],
             "returned": ranges_bytes(last["cursor"]["returned"]),
             "state_count": len(states), "state_roots": hex_column(states, "root"),
             "state_entries": hex_column(states, "hash"),
             "state_cursors": b"".join(cursor_hash(line["cursor"]) for line in states),
             "state_rounds": column("I", [line["round"] for line in states]),
             "state_commits": column("I", [line["commits"] for line in states])}
    return message_pack(state)


def chain_hash(lines):
    return blake(b"skep ledger chain\0", chain_state(lines)).hex()


def from_checkpoint(lines, index):
    """The lines of a copy that begins with the checkpoint of the commit at this index."""
    checkpoint = {"kind": "checkpoint", "entry_count": index,
                  "state": chain_state(lines[:index]).hex()}
    return [checkpoint, *lines[index:]]


def hash_of(line):
    return blake(b"skep ledger entry\0", body(line))


class Ledger:
    """A chain that grows; each entry is a dict that becomes a line."""

    def __init__(self, member_count, has_roster=True):
        """has_roster: the first OPEN has the roster epoch that every ledger needs."""
        self.needs_roster = has_roster
        self.tracker, self.operator = Signer(100), Signer(101)
        self.signers = [Signer(number) for number in range(member_count)]
        self.lines, self.position, self.returned, self.commits = [], 0, [], 0
        self.root, self.reference_norm = blake(b"start").hex(), 0.0
        self.append("genesis", 0, protocol=2, manifest=blake(b"manifest").hex(), needs_leases=0,
                    delegation=self.delegation(self.tracker, 1))

    def delegation(self, tracker, serial):
        """The operator's delegation to a tracker, for ever."""
        curve, sign = keys_of(tracker.text())
        document = message_pack({"swarm": blake(b"manifest"), "serial": serial, "expires_s": 0,
                                 "curve": curve, "sign": sign})
        signature = self.operator.sign(blake(document), b"skep delegation")
        return {"serial": serial, "expires_s": 0, "tracker": tracker.text(),
                "signature": signature.hex()}

    def roster(self, ids, serial, is_open=False):
        """The operator's list of the members that may have a seat."""
        document = message_pack({"swarm": blake(b"manifest"), "serial": serial,
                                 "is_open": int(is_open), "members": b"".join(sorted(ids))})
        signature = self.operator.sign(blake(document), b"skep roster epoch")
        return {"serial": serial, "open": is_open, "members": [key.hex() for key in sorted(ids)],
                "signature": signature.hex()}

    def append(self, kind, round_number, voters=(), **fields):
        self.commits += kind == "commit"
        line = {"kind": kind, "round": round_number, "commits": self.commits, "incarnation": 1,
                "root": self.root, "reference_norm": self.reference_norm,
                "prev": self.lines[-1]["hash"] if self.lines else ZERO.hex(),
                "cursor": {"position": self.position, "returned": list(self.returned)}, **fields}
        return self.sign(line, voters)

    def sign(self, line, voters=()):
        digest = hash_of(line)
        line["hash"] = digest.hex()
        if line["kind"] == "commit":
            line["signatures"] = [{"id": self.signers[seat].id.hex(),
                                   "signature": self.signers[seat].sign(digest).hex()}
                                  for seat in voters]
        else:
            line["signatures"] = [{"signature": self.tracker.sign(digest).hex()}]
        self.lines.append(line)
        return line

    def members(self, first, **more):
        return [{"id": signer.id.hex(), "session": 7 + seat, **more,
                 "ranges": [[first + 10 * seat, first + 10 * seat + 10]]}
                for seat, signer in enumerate(self.signers)]

    def give_back(self, unused):
        """Returns the samples of an aborted round. Later rounds take new ones."""
        if self.returned and self.returned[-1][1] == unused[0]:
            unused = [self.returned.pop()[0], unused[1]]
        self.returned.append(unused)

    def round(self, number, voters, end="commit", **documents):
        first = self.position
        self.position += 10 * len(self.signers)
        if self.needs_roster:
            documents.setdefault("roster", self.roster([one.id for one in self.signers], 1))
            self.needs_roster = False
        self.append("open", number, members=self.members(first), deadline_ms=5000, **documents)
        if end != "commit":
            self.give_back([first, self.position])
            return self.append(end, number, members=self.members(first))
        self.root, self.reference_norm = blake(b"root", bytes([number])).hex(), 0.1
        everybody = list(range(len(self.signers)))
        slices = [{"index": index, "begin": 100 * index, "end": 100 * index + 100,
                   "owner": index % len(self.signers), "epoch": index,
                   "contributors": everybody if index else everybody[1:],
                   "weight": 30 * (len(self.signers) - (index == 0)),
                   "hash": blake(b"slice", bytes([index])).hex()} for index in range(3)]
        members = self.members(first, tokens=40, weight=30, samples=10, norm=0.1)
        return self.append("commit", number, voters, chain=chain_hash(self.lines),
                           **results(members, slices))

    def text(self):
        return "".join(json.dumps(line) + "\n" for line in self.lines)
