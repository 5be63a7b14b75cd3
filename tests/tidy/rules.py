"""The house rules as data: who may include whom, what is called from where, and the exceptions."""

# folder: what it may include, besides itself (docs/ARCHITECTURE.md draws it).
BELOW_PROGRAM = ("base", "arena", "targets", "kernels", "transport", "runtime/model",
                 "runtime/shard", "runtime/schedule", "runtime/checkpoint", "runtime/swarm")
MAY_INCLUDE = {
    "base": (),
    "arena": ("base",),
    "targets": ("base",),
    "runtime/model": ("base",),
    "kernels": ("targets", "base"),
    "transport": ("targets", "base"),
    "runtime/shard": ("runtime/model", "base"),
    "runtime/schedule": ("runtime/shard", "runtime/model", "kernels", "targets",
                         "arena/extent.h", "base"),
    "runtime/checkpoint": ("runtime/shard", "runtime/model", "base"),
    "runtime/swarm": ("transport", "kernels", "targets", "base"),
    "runtime/program": BELOW_PROGRAM,
    "runtime/train": BELOW_PROGRAM + ("runtime/program",),
    "runtime/cli": BELOW_PROGRAM + ("runtime/program", "runtime/train"),
}
# Folders that may include anything and that nothing includes.
OUTSIDE = ("tests", "bench", "tools")

# A foreign library's header: the folders or files that wrap it.
FOREIGN_HEADERS = {
    "jansson.h": ("base/json.c",),
    "libfyaml.h": ("base/yaml.c", "base/yaml_read.c"),
    "sodium.h": ("base/hash.c", "transport/keys.c", "tests/contract/curve_peer.c"),
    "sqlite3.h": ("runtime/swarm/ledger_store.c",),
    "cmocka.h": ("tests",),
    "assert.h": (),
    "zmq.h": ("transport", "tests/contract/test_messages_hostile.c"),
    "nccl.h": ("transport", "tests/contract/test_nccl_header.c"),
    "cuda_runtime.h": ("targets", "kernels/cuda"),
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
     ("base/text.c", "targets", "runtime/checkpoint/json_scan.c", "tests")),
    (PRINT, "printf fprintf vprintf vfprintf puts fputs putchar fputc dprintf perror",
     ("runtime/cli", "base/region.c", "base/fault.c", "base/log.c", "tests", "bench")),
    (ENDING, "exit _exit quick_exit abort",
     # a second signal ends the process at once; so does a child that cannot become a rank
     ("runtime/cli", "runtime/train/stop.c", "transport/launch_children.c", "base/region.c",
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

COLUMNS_MAX = 100
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# path: why it is longer. An entry that is no longer needed is a failure too.
LONG_FILES = {}
# path: why its lines are wider.
WIDE_FILES = {}
# (path, function): why it is longer.
LONG_FUNCTIONS = {}
# (path, function): the bound that ends it.
RECURSIVE_FUNCTIONS = {}
# path: why it is built by nobody.
UNBUILT_FILES = {}
