/* snapshot: `skep snapshot list, verify, inspect, export FOLDER`. FOLDER is a snapshot or contains
 * snapshots; inspect and export use the newest good one. */
#include "runtime/checkpoint/snapshot.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/reports/reports.h"

#include <string.h>

struct request {
    const char *out, *dtype; /* folder and type of the export; NULL: the defaults */
    bool json;
};

/* The arguments of all actions (list, verify, inspect, export). */
struct snapshot_tool {
    const struct request *request;
    const char *folder; /* folder of one snapshot, or of several */
    struct region *region;
    struct fault *fault;
};

static bool is_snapshot(const char *folder) {
    char path[PATH_BYTES];
    file_join(folder, "snapshot.json", path, sizeof path);
    return file_exists(path);
}

static enum status list_snapshots(const struct snapshot_tool *tool,
                                  struct snapshot_list_item **listed, int *count) {
    if (!is_snapshot(tool->folder)) {
        return snapshot_list(tool->folder, tool->region, listed, count, tool->fault);
    }
    *listed = region_alloc(tool->region, 1, sizeof **listed);
    (*listed)->is_readable =
        snapshot_read(tool->folder, tool->region, &(*listed)->snapshot, &(*listed)->fault) == OK;
    (*listed)->snapshot.path = tool->folder;
    *count = 1;
    return OK;
}

static void print_list(const struct snapshot_tool *tool, const struct snapshot_list_item *listed,
                       int count, bool is_verified) {
    (tool->request->json ? snapshot_print_list_json : snapshot_print_list)(tool->folder, listed,
                                                                           count, is_verified);
}

static enum status run_list(const struct snapshot_tool *tool) {
    struct snapshot_list_item *listed = NULL;
    int count = 0;
    TRY(list_snapshots(tool, &listed, &count));
    print_list(tool, listed, count, false);
    return OK;
}

static enum status run_verify(const struct snapshot_tool *tool) {
    struct snapshot_list_item *listed = NULL;
    int count = 0;
    int damaged = 0;
    TRY(list_snapshots(tool, &listed, &count));
    if (count == 0) {
        return fault_set(tool->fault, STATUS_INPUT, tool->folder,
                         "give the folder of a run's snapshots",
                         "the folder contains no snapshots");
    }
    for (int i = 0; i < count; i++) {
        if (listed[i].is_readable) {
            listed[i].is_readable = snapshot_verify(listed[i].snapshot.path, tool->region,
                                                    &listed[i].snapshot, &listed[i].fault) == OK;
        }
        damaged += !listed[i].is_readable;
    }
    print_list(tool, listed, count, true);
    if (damaged == 0) {
        return OK;
    }
    return fault_set(tool->fault, STATUS_INPUT, tool->folder, NULL,
                     "%d of %d snapshots are damaged", damaged, count);
}

/* Finds the snapshot to use: the folder itself, or the newest valid snapshot in it. */
static enum status find_snapshot(const struct snapshot_tool *tool, struct snapshot *snapshot) {
    bool found = false;
    if (is_snapshot(tool->folder)) {
        return snapshot_verify(tool->folder, tool->region, snapshot, tool->fault);
    }
    TRY(snapshot_find_newest(tool->folder, tool->region, snapshot, &found, tool->fault));
    if (!found) {
        return fault_set(tool->fault, STATUS_INPUT, tool->folder,
                         "give the folder of a run's snapshots, or of one snapshot",
                         "the folder contains no snapshots");
    }
    return OK;
}

static enum status run_inspect(const struct snapshot_tool *tool) {
    struct snapshot snapshot;
    TRY(find_snapshot(tool, &snapshot));
    (tool->request->json ? snapshot_print_details_json : snapshot_print_details)(&snapshot);
    return OK;
}

static enum status read_dtype(const struct snapshot_tool *tool, const struct snapshot *snapshot,
                              enum dtype *dtype) {
    if (tool->request->dtype == NULL) {
        return snapshot_model_dtype(snapshot, dtype, tool->fault);
    }
    if (!dtype_parse(tool->request->dtype, dtype) || *dtype == DTYPE_I32) {
        return fault_set(tool->fault, STATUS_USAGE, "--dtype", "write f32, bf16 or f16",
                         "\"%s\" is not a type of weights", tool->request->dtype);
    }
    return OK;
}

static enum status run_export(const struct snapshot_tool *tool) {
    struct snapshot snapshot;
    enum dtype dtype = DTYPE_F32;
    TRY(find_snapshot(tool, &snapshot));
    TRY(read_dtype(tool, &snapshot, &dtype));
    char *out = region_alloc(tool->region, PATH_BYTES, 1);
    struct text text = text_over(out, PATH_BYTES);
    text_add(&text, tool->request->out != NULL ? "%s" : "%s-model",
             tool->request->out != NULL ? tool->request->out : snapshot.path);
    if (text.truncated || text.length == 0) {
        return fault_set(tool->fault, STATUS_USAGE, "-o", NULL,
                         "\"%.80s\" is not a valid folder name", out);
    }
    TRY(snapshot_export(&snapshot, out, dtype, tool->fault));
    (tool->request->json ? snapshot_print_export_json : snapshot_print_export)(&snapshot, out);
    return OK;
}

static enum status run_snapshot(struct invocation *invocation) {
    static const struct {
        const char *name;
        enum status (*run)(const struct snapshot_tool *tool);
    } ACTIONS[] = {{"list", run_list},
                   {"verify", run_verify},
                   {"inspect", run_inspect},
                   {"export", run_export}};
    const char *action = invocation->positionals[0];
    const struct snapshot_tool tool = {invocation->request, invocation->positionals[1],
                                       &invocation->region, &invocation->fault};
    for (size_t i = 0; i < ARRAY_COUNT(ACTIONS); i++) {
        if (strcmp(action, ACTIONS[i].name) != 0) {
            continue;
        }
        if (!file_is_folder(tool.folder)) {
            return fault_set(tool.fault, STATUS_INPUT, tool.folder,
                             "give the folder of a run's snapshots, or of one snapshot",
                             "is not a folder");
        }
        return ACTIONS[i].run(&tool);
    }
    return fault_set(tool.fault, STATUS_USAGE, "snapshot",
                     "the subcommand is list, verify, inspect or export", "unknown action \"%s\"",
                     action);
}

static const struct option OPTIONS[] = {
    {OPTION("-o", TEXT, out), .value = "DIR",
     .help = "folder of the exported model; default: the snapshot with -model appended",
     .example = "export run/snapshots -o model-1000"},
    {OPTION("--dtype", TEXT, dtype), .value = "f32|bf16|f16",
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
