"""The house rules as data: the include table, allowed calls, banned words, and the exceptions."""

# room: the rooms and headers that it may include, besides its own. A room is a folder, without the
# folders in it; it includes only rooms that stand above it here (docs/ARCHITECTURE.md has a word on
# each).
MAY_INCLUDE = {
    "base": (),
    "arena": ("base",),
    "arena/formats": ("base", "arena"),
    "targets": ("base",),
    "targets/os": ("base",),
    "targets/ports": ("base", "targets", "targets/os"),
    "targets/probe": ("base", "targets", "targets/os", "targets/ports"),
    "kernels": ("base", "targets/os"),
    "kernels/loops": ("base", "kernels"),
    "kernels/loops/x86": ("base", "kernels/loops"),
    "kernels/loops/arm": ("base", "kernels/loops"),
    "kernels/cpu": ("base", "kernels", "kernels/loops"),
    "kernels/cuda/device": ("kernels",),
    "kernels/cuda/launch": (
        "base", "targets", "targets/ports", "kernels", "kernels/loops", "kernels/cuda/device"),
    "transport/identity": ("base",),
    "transport/messages": ("base", "transport/identity"),
    "transport/site": ("base", "targets/os"),
    "transport/collectives": ("base", "targets/os", "targets/ports", "transport/site"),
    "runtime/model": ("base",),
    "runtime/model/families": ("base", "runtime/model"),
    "runtime/shard": ("base", "runtime/model"),
    "runtime/ops": (
        "base", "targets", "kernels", "kernels/cuda/launch", "runtime/model", "runtime/shard"),
    "runtime/schedule": (
        "base", "arena/extent.h", "targets", "kernels", "runtime/model", "runtime/model/families",
        "runtime/shard", "runtime/ops"),
    "runtime/checkpoint": ("base", "runtime/model"),
    "runtime/swarm/packer": ("base",),
    "runtime/swarm/leases": ("base", "transport/identity"),
    "runtime/swarm/ledger": (
        "base", "transport/identity", "runtime/swarm/packer", "runtime/swarm/leases"),
    "runtime/swarm/delegation": (
        "base", "transport/identity", "transport/messages", "runtime/swarm/ledger"),
    "runtime/swarm/protocol": ("base", "runtime/swarm/ledger"),
    "runtime/swarm/tracker_machine": ("base", "runtime/swarm/ledger", "runtime/swarm/protocol"),
    "runtime/swarm/member_machine": ("base", "runtime/swarm/ledger", "runtime/swarm/protocol"),
    "runtime/swarm/wire": (
        "base", "transport/identity", "transport/messages", "runtime/swarm/packer",
        "runtime/swarm/ledger", "runtime/swarm/protocol"),
    "runtime/swarm/replica": (
        "base", "targets/ports", "kernels", "kernels/cuda/launch", "transport/messages",
        "runtime/swarm/ledger", "runtime/swarm/protocol"),
    "runtime/swarm/member": (
        "base", "targets/os", "transport/identity", "transport/messages", "runtime/swarm/leases",
        "runtime/swarm/ledger", "runtime/swarm/delegation", "runtime/swarm/protocol",
        "runtime/swarm/member_machine", "runtime/swarm/wire", "runtime/swarm/replica"),
    "runtime/swarm/client": (
        "base", "transport/identity", "runtime/swarm/ledger", "runtime/swarm/delegation",
        "runtime/swarm/wire"),
    "runtime/swarm/tracker": (
        "base", "transport/identity", "transport/messages", "runtime/swarm/packer",
        "runtime/swarm/leases", "runtime/swarm/ledger",
        "runtime/swarm/delegation", "runtime/swarm/protocol", "runtime/swarm/tracker_machine",
        "runtime/swarm/wire", "runtime/swarm/client"),
    "runtime/program": (
        "base", "arena", "targets", "targets/os", "targets/ports", "kernels", "kernels/cpu",
        "kernels/cuda/launch", "transport/site", "transport/collectives", "runtime/schedule"),
    "runtime/tokenizer/unicode": ("base",),
    "runtime/tokenizer": ("base", "runtime/checkpoint", "runtime/tokenizer/unicode"),
    "runtime/chat": ("base", "runtime/tokenizer"),
    "runtime/corpus": (
        "base", "targets/os", "transport/site", "runtime/model", "runtime/tokenizer",
        "runtime/chat"),
    "runtime/settings": (
        "base", "runtime/model", "runtime/shard", "runtime/schedule", "runtime/checkpoint"),
    "runtime/data": (
        "base", "targets/os", "transport/site", "runtime/checkpoint", "runtime/swarm/ledger",
        "runtime/tokenizer", "runtime/chat", "runtime/corpus", "runtime/settings"),
    "runtime/session": (
        "base", "targets/os", "targets/ports", "targets/probe", "kernels", "transport/site",
        "transport/collectives", "runtime/model", "runtime/model/families", "runtime/shard",
        "runtime/schedule", "runtime/checkpoint", "runtime/program", "runtime/settings",
        "runtime/data"),
    "runtime/swarm_setup": (
        "base", "targets", "kernels", "kernels/cpu", "transport/identity", "transport/messages",
        "transport/site", "runtime/model", "runtime/model/families", "runtime/schedule",
        "runtime/checkpoint", "runtime/swarm/leases", "runtime/swarm/ledger",
        "runtime/swarm/delegation", "runtime/swarm/replica", "runtime/swarm/member",
        "runtime/swarm/client", "runtime/swarm/tracker", "runtime/settings",
        "runtime/data", "runtime/session"),
    "runtime/train": (
        "base", "targets/os", "transport/site", "runtime/schedule", "runtime/checkpoint",
        "runtime/program", "runtime/settings", "runtime/data", "runtime/session"),
    "runtime/inner_training": (
        "base", "transport/identity", "transport/site", "runtime/schedule", "runtime/checkpoint",
        "runtime/swarm/ledger", "runtime/swarm/delegation", "runtime/swarm/replica",
        "runtime/swarm/member", "runtime/swarm/client", "runtime/program", "runtime/data",
        "runtime/swarm_setup",
        "runtime/session", "runtime/train"),
    "runtime/diagnose": (
        "base", "targets/os", "targets/ports", "targets/probe", "kernels", "kernels/cuda/launch",
        "transport/site", "transport/collectives", "runtime/shard", "runtime/checkpoint",
        "runtime/swarm/ledger", "runtime/data", "runtime/session"),
    "runtime/cli/reports": (
        "base", "arena/formats", "runtime/tokenizer", "runtime/chat", "runtime/corpus",
        "runtime/model", "runtime/shard", "runtime/checkpoint", "runtime/session",
        "runtime/swarm_setup", "runtime/diagnose"),
    "runtime/cli": (
        "base", "arena", "arena/formats", "targets", "targets/os", "targets/probe",
        "transport/identity", "transport/site", "runtime/tokenizer", "runtime/chat",
        "runtime/corpus", "runtime/model/families", "runtime/checkpoint", "runtime/swarm/ledger",
        "runtime/swarm/delegation", "runtime/swarm/client", "runtime/swarm/tracker",
        "runtime/program", "runtime/settings", "runtime/data",
        "runtime/swarm_setup", "runtime/session", "runtime/train", "runtime/inner_training",
        "runtime/diagnose", "runtime/cli/reports"),
}
# Folders that may include anything and that nothing includes.
OUTSIDE = ("tests", "bench", "tools")

# A foreign library's header: the folders or files that wrap it.
FOREIGN_HEADERS = {
    "jansson.h": ("base/json.c",),
    "libfyaml.h": ("base/yaml.c", "base/yaml_read.c"),
    "sodium.h": ("base/hash.c", "transport/identity/keys.c", "tests/contract/curve_peer.c"),
    "sqlite3.h": ("runtime/swarm/ledger/ledger_store.c",),
    "pcre2.h": ("runtime/tokenizer/pattern.c",),
    "msgpack/pack.h": ("runtime/swarm/packer/packer.c",),
    "msgpack/unpack.h": ("runtime/swarm/packer/packer_tokens.c",),
    "msgpack/unpack_define.h": ("runtime/swarm/packer/packer_tokens.c",),
    "msgpack/unpack_template.h": ("runtime/swarm/packer/packer_tokens.c",),
    "msgpack.h": ("tests/unit/swarm",),
    "cmocka.h": ("tests",),
    "assert.h": (),
    "zlib.h": ("runtime/corpus/byte_stream.c",),
    "zstd.h": ("runtime/corpus/byte_stream.c", "tests/kernels/fatbin.c"),
    "zmq.h": ("transport/messages", "tests/contract/test_messages_hostile.c"),
    "nccl.h": ("transport/collectives", "tests/contract/test_nccl_header.c"),
    "cuda_runtime.h": ("targets/ports", "kernels/cuda"),
}

ALLOCATION = "allocate before seal through struct region (base/region.h)"
TEXT = "build text with base/text.h, which cannot overrun"
PARSE = "parse with text_parse_i64 or text_parse_f64 (base/text.h), which refuse half a number"
PRINT = "report through runtime/cli, or log_line (base/log.h)"
ENDING = "return an enum status with a fault (base/fault.h); only runtime/cli ends the process"
CLOCK = "read time through base/clock.h"
FILES = "read and write through base/file.h"
CHANCE = "take random values from base/random.h, the same on every machine"
SHELL = "the program starts no shell"

# What to do instead, the calls, and where they are allowed all the same.
FORBIDDEN_CALLS = (
    (ALLOCATION, "malloc calloc realloc reallocarray free strdup strndup aligned_alloc"
                 " posix_memalign asprintf vasprintf", ("base/region.c", "tests", "bench")),
    ("use a fixed buffer with a named limit, or a workspace", "alloca", ()),
    (TEXT, "strcpy strncpy strcat strncat sprintf vsprintf stpcpy gets", ("tests",)),
    (PARSE, "atoi atol atoll atof strtol strtoll strtoul strtoull strtod strtof sscanf",
     # the kernel writes what targets reads; json_scan has checked the number before
     ("base/text.c", "targets/os", "targets/profile.c", "runtime/checkpoint/json_scan.c", "tests")),
    (PRINT, "printf fprintf vprintf vfprintf puts fputs putchar fputc dprintf perror",
     ("runtime/cli", "base/region.c", "base/fault.c", "base/log.c", "tests", "bench")),
    (ENDING, "exit _exit quick_exit abort",
     # a second signal ends the process at once; so does a child that cannot become a rank
     ("runtime/cli", "transport/site/stop.c", "transport/site/launch_children.c", "base/region.c",
      "base/fault.c", "tests", "bench")),
    (CLOCK, "time gettimeofday clock_gettime clock", ("base/clock.c",)),
    (FILES, "fopen fdopen freopen fread fwrite fgets fscanf getline",
     ("runtime/cli", "tests", "bench")),
    (CHANCE, "rand srand random srandom drand48 rand_r", ()),
    (SHELL, "system popen", ("tests",)),
    ("return through the callers", "setjmp longjmp sigsetjmp siglongjmp", ()),
    ("wait for the event itself: sleeping hides races", "sleep usleep", ()),
    ("wait for the event itself: only a test polls, under a deadline", "nanosleep", ("tests",)),
    ("write ASSERT (base/check.h), which stays on in release builds", "assert", ()),
)

# Parts of names that say nothing about the job.
EMPTY_WORDS = {
    "util": "name the job it does",
    "utils": "name the job it does",
    "helper": "name the job it does",
    "helpers": "name the job it does",
    "manager": "name what it owns and does",
    "common": "put it in the folder whose job it is",
    "misc": "give each thing a file of its own",
}

# (pattern, what to do). Searched in every text file but this folder's.
FORBIDDEN_WORDS = (
    (r"\b(TODO|FIXME|XXX|HACK|WIP)\b", "finish it now, or leave it out and say so in docs/"),
    (r"(?<![\w.])/(home|root|work|Users)/", "no paths of one machine; make it relative"),
    (r"^\s*#\s*if\s+0\b", "delete dead code; history keeps it"),
    (r"(?i)\b(see|per|as) (in )?(the|this) (issue|ticket|brief)\b",
     "say the reason itself: the tree must read without a tracker"),
)

ROOM_FILES_MAX = 36
ROOM_LINES_MAX = 5000  # without blanks and comments
STRUCT_FIELDS_MAX = 25
MAP_LINES_MAX = 60  # of docs/ARCHITECTURE.md

# Rooms without a header that explains them and names those that other rooms may include.
NO_DOOR = (
    # nothing includes them: kernels/loops declares what they define
    "kernels/loops/x86", "kernels/loops/arm")

# struct: why it has more fields than STRUCT_FIELDS_MAX.
WIDE_STRUCTS = {
    "settings": "the settings of a run file: one field for each key",
}

# Each field of a struct of these folders' headers is assigned in one file.
OWNED_STRUCTS = ("runtime/swarm/", "transport/messages/")
# struct: why any file may fill it in.
VALUE_STRUCTS = {
    "action": "a value: any part of a state machine emits one",
    "delegation": "a value: the operator and a reader each make one",
    "entry": "a value: the reader, the tracker and the store each make one",
    "electors": "a value: each chain and the tracker's record have one",
    "entry_documents": "a part of an entry",
    "entry_leases": "a part of an entry",
    "entry_signature": "a part of an entry",
    "frame": "a value: any sender makes one",
    "continue_order": "a value: the operator and a reader each make one",
    "known_delegation": "a value: the operator and a reader each make one",
    "known_roster": "a value: the operator and a reader each make one",
    "lease": "a value: a member and a reader each make one",
    "message": "a value: any sender makes one",
    "message_ballot": "a part of a message",
    "roster_epoch": "a value: the operator and a reader each make one",
    "round_table": "a part of a message",
    "sample_range": "a value",
    "slice_report": "a part of a message",
    "swarm_timing": "a value",
    "tracker_contact": "a value: a tracker knows its own, others search for it",
    "tracker_start": "a value: a tracker and each reader make one",
    "tracker_record": "a value: the store and an import make one for the state machine",
}
# struct: why another file than the owner of its fields may overwrite it whole.
OVERWRITTEN_STRUCTS = {
    "allow_list_watch": "its constructor makes it; allow_list_epoch.c owns the signed list in it",
    "contribution_part": "a value: the owner and the reader of a list each make one",
    "entry_member": "a part of an entry",
    "entry_seat": "a part of an entry",
    "entry_slice": "a part of an entry",
    "leaf_replay": "its constructor empties it; the fetch sets its timeout",
    "link": "its constructor empties it; several files of the room own its fields",
    "manifest": "a value: the reader and the draft each make one",
    "manifest_file": "a part of a manifest",
    "member_job": "a value: the mailbox copies one",
    "member_loop": "its constructor empties it; several files of the room own its fields",
    "member_table": "the address book reads a table into an empty one",
    "messenger": "its constructor empties it; several files of the room own its fields",
    "messenger_event": "a value: each source of events makes one",
    "peer": "the table empties a slot before another peer uses it",
    "replica": "the member makes it, and the replica's files then change it",
    "residual_source": "a part of a replica",
    "signature": "a value",
    "slice_plan": "a part of a round table",
    "timing_measured": "a value",
    "tracker_answer": "a value: either source of a ledger makes one",
    "tracker_member": "its constructor empties it; two files of the room own its fields",
    "wire_address_book": "a value: the sender and the reader each make one",
}

COLUMNS_MAX = 100
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
FUNCTION_LINES_P95 = 30

# path: why it is longer. An entry that is no longer needed is a failure too.
LONG_FILES = {
    "tests/unit/swarm/test_member_values.c": "all its tests need the one scene",
}
# room: its limit of lines of code, and why.
LARGE_ROOMS = {}
# path: why its lines are wider.
WIDE_FILES = {}
# (path, function): why it is longer.
LONG_FUNCTIONS = {}
# (path, function): the bound that ends it.
RECURSIVE_FUNCTIONS = {}
# path: why no meson.build names it.
UNBUILT_FILES = {}

# Files and folders whose prose is plain English: their comments, messages, documents and
# docstrings contain none of PHRASES. Add a folder when it has been rewritten; the aim is the whole
# tree.
PLAIN_FOLDERS = (
    "README.md",
    "arena",
    "bench",
    "base",
    "docs",
    "kernels",
    "runtime/chat",
    "runtime/checkpoint",
    "runtime/cli",
    "runtime/corpus",
    "runtime/data",
    "runtime/diagnose",
    "runtime/inner_training",
    "runtime/model",
    "runtime/ops",
    "runtime/program",
    "runtime/schedule",
    "runtime/session",
    "runtime/settings",
    "runtime/shard",
    "runtime/swarm/client",
    "runtime/swarm/delegation",
    "runtime/swarm/leases",
    "runtime/swarm/ledger",
    "runtime/swarm/packer",
    "runtime/swarm/member",
    "runtime/swarm/member_machine",
    "runtime/swarm/protocol",
    "runtime/swarm/replica",
    "runtime/swarm/tracker",
    "runtime/swarm/tracker_machine",
    "runtime/swarm/wire",
    "runtime/swarm_setup",
    "runtime/tokenizer",
    "runtime/train",
    "targets",
    "tests/tidy",
    "tests/unit/arena",
    "tests/unit/base",
    "tests/unit/checkpoint",
    "tests/unit/model",
    "tests/unit/schedule",
    "tests/unit/shard",
    "tools",
    "transport/collectives",
    "transport/identity",
    "transport/messages",
    "transport/site",
)

# Markdown files and folders whose prose wraps at COLUMNS_MAX, except tables and fences.
WRAPPED_DOCS = (
    "README.md",
    "docs",
)

BE = "(?:is|are|was|were|be|been|being)"
PEOPLE = "(?:person|people|reader|readers|user|users|operator|operators|author|authors|those)"
# (pattern, what to write). Case is ignored, and a blank stands for any white space. A pattern that
# begins with a "keep" group accepts the phrase when that group matches.
PHRASES = (
    (rf"(?P<keep>\b{PEOPLE},? )?\bwho\b", "name the subject: 'the member that ...'"),
    (r"\bwho(?:m?ever|m)\b", "name the subject: 'any member that ...'"),
    (r"\b(?:no|some|every)body\b", "name the subject: 'no member', 'a peer', 'all ranks'"),
    (r"\bwhat of\b", "'the part of ... that'"),
    (rf"\b{BE} told\b", "'is notified', 'receives', or name the sender"),
    (r"\btells\b", "'reports', 'states', 'shows' or 'sends'"),
    (r"\bstands\b(?! for\b)|\bstand (?:in|on|at|behind|beside)\b",
     "'is', 'is up', 'is current', 'is stored in' or 'is listed in'"),
    (r"\b(?:go|goes|going|went) on\b", "'continues' or 'resumes'"),
    (rf"\b{BE} gone\b", "'disconnected', 'ended', 'is missing' or 'was removed'"),
    (r"\b(?:come|comes|came|coming) back\b", "'returns', 'reconnects' or 'restarts'"),
    (r"\b(?:give|gives|gave|giving) (?:\w+ )?places? up\b|"
     r"\b(?:give|gives|gave|giving) up (?:its|their|the|a) place", "'its slot is freed'"),
    (r"\bgives? way\b", "'is evicted'"),
    (rf"\b{BE} tried again\b", "'is retried'"),
    (r"\blet(?:s|ting)? (?:(?:it|them|him|her|us|others|strangers) )?in\b", "'admits'"),
    (rf"\b{BE} let (?:in|go|through)\b", "'is admitted', 'is released' or 'passes'"),
    (r"\bnot one more\b", "'at most N'"),
    (rf"\b{BE} (?:not )?heard\b", "'is received'"),
    (rf"\b{BE} (?:not )?said (?:to|by|of|on|when|that)\b", "'is sent', 'is reported'"),
    (r"\bof late\b", "'recently'"),
    (r"\bthe own\b", "'its own', or name the owner"),
)

# Commit subjects are checked after this commit, in clones that contain it.
SUBJECT_BASE = "1d96b31bfd37d48fc4d9156a1ca0575680d35962"
SUBJECT_MAX = 72
# First words that are not verbs. A word in -s, -ed or -ing is none either, with these exceptions.
NOT_VERBS = frozenset("""
    a all an and any as at both by each every few first five for four from how if in into it its
    last less many more most much neither new no nobody none nor not nothing now of on one only
    or other our own several six so some somebody such ten that the their there these they this
    those three to two we what whatever when where which who whoever whose why with you
    """.split())
INFLECTED_LOOKING_VERBS = frozenset("""
    alias bias bring canvas embed exceed feed focus heed need ping proceed ring seed shed speed
    string succeed wed weed
    """.split())
