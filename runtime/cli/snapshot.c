/* snapshot: `skep snapshot list, verify, inspect, export FOLDER`. FOLDER is a snapshot or contains
 * snapshots; inspect and export use the newest good one. */
#include "runtime/checkpoint/snapshot.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"

#include <string.h>

struct request {             /* options of `skep snapshot` */
    const char *out, *dtype; /* folder and element type of the export; NULL: the defaults */
    bool json;               /* --json */
};

/* The arguments of all actions (list, verify, inspect, export). */
struct action_args {
    const struct request *request;
    const char *folder; /* folder of one snapshot, or of several snapshots */
    struct region *region;
    struct fault *fault;
};

static bool is_snapshot(const char *folder) {
    char path[PATH_BYTES];
    path_join(folder, "snapshot.json", path, sizeof path);
    return file_exists(path);
}

static enum status list_snapshots(const struct action_args *args,
                                  struct snapshot_list_item **listed, int *count) {
    if (!is_snapshot(args->folder)) {
        return snapshot_list(args->folder, args->region, listed, count, args->fault);
    }
    *listed = region_alloc(args->region, 1, sizeof **listed);
    (*listed)->is_readable =
        snapshot_read(args->folder, args->region, &(*listed)->snapshot, &(*listed)->fault) == OK;
    (*listed)->snapshot.path = args->folder;
    *count = 1;
    return OK;
}

static void print_list(const struct action_args *args, const struct snapshot_list_item *listed,
                       int count, bool is_verified) {
    (args->request->json ? snapshot_print_list_json : snapshot_print_list)(args->folder, listed,
                                                                           count, is_verified);
}

static enum status run_list(const struct action_args *args) {
    struct snapshot_list_item *listed = NULL;
    int count = 0;
    TRY(list_snapshots(args, &listed, &count));
    print_list(args, listed, count, false);
    return OK;
}

static enum status run_verify(const struct action_args *args) {
    struct snapshot_list_item *listed = NULL;
    int count = 0;
    int damaged = 0;
    TRY(list_snapshots(args, &listed, &count));
    if (count == 0) {
        return fault_set(args->fault, STATUS_INPUT, args->folder,
                         "pass the folder of a run's snapshots",
                         "the folder contains no snapshots");
    }
    for (int i = 0; i < count; i++) {
        if (listed[i].is_readable) {
            listed[i].is_readable = snapshot_verify(listed[i].snapshot.path, args->region,
                                                    &listed[i].snapshot, &listed[i].fault) == OK;
        }
        damaged += !listed[i].is_readable;
    }
    print_list(args, listed, count, true);
    if (damaged == 0) {
        return OK;
    }
    return fault_set(args->fault, STATUS_INPUT, args->folder,
                     "remove the damaged ones, or restore them from a backup",
                     "%d of %d snapshots are damaged", damaged, count);
}

/* Finds the snapshot to use: the folder itself, or the newest valid snapshot in it. */
static enum status find_snapshot(const struct action_args *args, struct snapshot *snapshot) {
    bool found = false;
    if (is_snapshot(args->folder)) {
        return snapshot_verify(args->folder, args->region, snapshot, args->fault);
    }
    TRY(snapshot_find_newest(args->folder, args->region, snapshot, &found, args->fault));
    if (!found) {
        return fault_set(args->fault, STATUS_INPUT, args->folder,
                         "pass the folder of a run's snapshots, or of one snapshot",
                         "the folder contains no snapshots");
    }
    return OK;
}

static enum status run_inspect(const struct action_args *args) {
    struct snapshot snapshot;
    TRY(find_snapshot(args, &snapshot));
    (args->request->json ? snapshot_print_details_json : snapshot_print_details)(&snapshot);
    return OK;
}

static enum status read_dtype(const struct action_args *args, const struct snapshot *snapshot,
                              enum dtype *dtype) {
    if (args->request->dtype == NULL) {
        return snapshot_model_dtype(snapshot, dtype, args->fault);
    }
    if (!dtype_parse(args->request->dtype, dtype) || *dtype == DTYPE_I32) {
        return fault_set(args->fault, STATUS_USAGE, "--dtype", "write f32, bf16 or f16",
                         "\"%s\" is not a type of weights", args->request->dtype);
    }
    return OK;
}

static enum status run_export(const struct action_args *args) {
    struct snapshot snapshot;
    enum dtype dtype = DTYPE_F32;
    TRY(find_snapshot(args, &snapshot));
    TRY(read_dtype(args, &snapshot, &dtype));
    char *out = region_alloc(args->region, PATH_BYTES, 1);
    struct text text = text_over(out, PATH_BYTES);
    text_add(&text, args->request->out != NULL ? "%s" : "%s-model",
             args->request->out != NULL ? args->request->out : snapshot.path);
    if (text.truncated || text.length == 0) {
        return fault_set(args->fault, STATUS_USAGE, "-o", "choose another name",
                         "\"%.80s\" is not a valid folder name", out);
    }
    TRY(snapshot_export(&snapshot, out, dtype, args->fault));
    (args->request->json ? snapshot_print_export_json : snapshot_print_export)(&snapshot, out);
    return OK;
}

static enum status run_snapshot(struct invocation *invocation) {
    static const struct {
        const char *name;
        enum status (*run)(const struct action_args *args);
    } ACTIONS[] = {{"list", run_list},
                   {"verify", run_verify},
                   {"inspect", run_inspect},
                   {"export", run_export}};
    const char *action = invocation->positionals[0];
    const struct action_args args = {invocation->request, invocation->positionals[1],
                                     &invocation->region, &invocation->fault};
    for (size_t i = 0; i < ARRAY_COUNT(ACTIONS); i++) {
        if (strcmp(action, ACTIONS[i].name) != 0) {
            continue;
        }
        if (!file_is_folder(args.folder)) {
            return fault_set(args.fault, STATUS_INPUT, args.folder,
                             "pass the folder of a run's snapshots, or of one snapshot",
                             "is not a folder");
        }
        return ACTIONS[i].run(&args);
    }
    return fault_set(args.fault, STATUS_USAGE, "snapshot",
                     "the subcommand is list, verify, inspect or export", "unknown action \"%s\"",
                     action);
}

static const struct option OPTIONS[] = {
    {OPTION("-o", TEXT, out), .value_name = "DIR",
     .help = "folder of the exported model; default: the snapshot with -model appended",
     .example = "export run/snapshots -o model-1000"},
    {OPTION("--dtype", TEXT, dtype), .value_name = "f32|bf16|f16",
     .help = "type of the exported weights; default: that of the run",
     .example = "export run/snapshots --dtype bf16"},
    {OPTION("--json", FLAG, json), .help = "print one JSON document instead of text",
     .example = "list run/snapshots --json"},
};

const struct command COMMAND_SNAPSHOT = {
    .name = "snapshot",
    .arguments = "list|verify|inspect|export FOLDER",
    .actions = "list|verify|inspect|export",
    .summary = "list, verify or print snapshots; export one as a model folder",
    .details =
        "FOLDER is a snapshot, or the folder of the snapshots of a run. `list` prints one line for "
        "each snapshot, `verify` checks the hashes of all their files, `inspect` prints the newest "
        "valid one, and `export` writes it as a Hugging Face model folder.",
    .example = "export run/snapshots -o model",
    .positional_count = 2,
    REQUEST_OPTIONS,
    .run = run_snapshot,
};
