/* snapshot: `skep snapshot list, verify, inspect, export FOLDER`: tools for snapshots. FOLDER holds
 * snapshots or is one; inspect and export take the newest good one of several. */
#include "runtime/checkpoint/snapshot.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/cli/arguments.h"
#include "runtime/cli/command.h"
#include "runtime/cli/reports/snapshot_print.h"

#include <string.h>
#include <unistd.h>

struct tool {
    const char *action, *folder, *out, *dtype;
    bool json;
    struct region region;
    struct fault fault;
};

static bool is_one(const struct tool *tool) {
    char path[PATH_BYTES];
    file_join(tool->folder, "snapshot.json", path, sizeof path);
    return file_exists(path);
}

static enum status list_all(struct tool *tool, struct snapshot_listed **listed, int *count) {
    if (!is_one(tool)) {
        return snapshot_list(tool->folder, &tool->region, listed, count, &tool->fault);
    }
    *listed = region_alloc(&tool->region, 1, sizeof **listed);
    (*listed)->readable =
        snapshot_read(tool->folder, &tool->region, &(*listed)->snapshot, &(*listed)->fault) == OK;
    (*listed)->snapshot.path = tool->folder;
    *count = 1;
    return OK;
}

static void print_list(const struct tool *tool, const struct snapshot_listed *listed, int count,
                       bool verified) {
    if (tool->json) {
        snapshot_print_list_json(tool->folder, listed, count, verified);
    } else {
        snapshot_print_list(tool->folder, listed, count, verified);
    }
}

static enum status run_list(struct tool *tool) {
    struct snapshot_listed *listed = NULL;
    int count = 0;
    TRY(list_all(tool, &listed, &count));
    print_list(tool, listed, count, false);
    return OK;
}

static enum status run_verify(struct tool *tool) {
    struct snapshot_listed *listed = NULL;
    int count = 0;
    int damaged = 0;
    TRY(list_all(tool, &listed, &count));
    if (count == 0) {
        return fault_set(&tool->fault, STATUS_INPUT, tool->folder,
                         "name the folder of a run's snapshots", "it holds no snapshots");
    }
    for (int i = 0; i < count; i++) {
        if (listed[i].readable) {
            listed[i].readable = snapshot_verify(listed[i].snapshot.path, &tool->region,
                                                 &listed[i].snapshot, &listed[i].fault) == OK;
        }
        damaged += !listed[i].readable;
    }
    print_list(tool, listed, count, true);
    if (damaged == 0) {
        return OK;
    }
    return fault_set(&tool->fault, STATUS_INPUT, tool->folder, NULL, "%d of %d snapshots damaged",
                     damaged, count);
}

/* The one that is named, or the newest good one. */
static enum status choose(struct tool *tool, struct snapshot *snapshot) {
    bool found = false;
    if (is_one(tool)) {
        return snapshot_verify(tool->folder, &tool->region, snapshot, &tool->fault);
    }
    TRY(snapshot_find_newest(tool->folder, &tool->region, snapshot, &found, &tool->fault));
    if (!found) {
        return fault_set(&tool->fault, STATUS_INPUT, tool->folder,
                         "name the folder of a run's snapshots, or one of them",
                         "holds no snapshots");
    }
    return OK;
}

static enum status run_inspect(struct tool *tool) {
    struct snapshot snapshot;
    TRY(choose(tool, &snapshot));
    if (tool->json) {
        snapshot_print_whole_json(&snapshot);
    } else {
        snapshot_print_whole(&snapshot);
    }
    return OK;
}

static enum status choose_dtype(struct tool *tool, const struct snapshot *snapshot,
                                enum dtype *dtype) {
    if (tool->dtype == NULL) {
        return snapshot_model_dtype(snapshot, dtype, &tool->fault);
    }
    if (!dtype_parse(tool->dtype, dtype) || *dtype == DTYPE_I32) {
        return fault_set(&tool->fault, STATUS_USAGE, "--dtype", "f32, bf16 or f16",
                         "\"%s\" is no type of weights", tool->dtype);
    }
    return OK;
}

static enum status run_export(struct tool *tool) {
    struct snapshot snapshot;
    enum dtype dtype = DTYPE_F32;
    TRY(choose(tool, &snapshot));
    TRY(choose_dtype(tool, &snapshot, &dtype));
    char *out = region_alloc(&tool->region, PATH_BYTES, 1);
    struct text text = text_over(out, PATH_BYTES);
    text_add(&text, tool->out != NULL ? "%s" : "%s-model",
             tool->out != NULL ? tool->out : snapshot.path);
    if (text.truncated || text.length == 0) {
        return fault_set(&tool->fault, STATUS_USAGE, "-o", NULL, "not a folder's name");
    }
    TRY(snapshot_export(&snapshot, out, dtype, &tool->fault));
    if (tool->json) {
        snapshot_print_export_json(&snapshot, out);
    } else {
        snapshot_print_export(&snapshot, out);
    }
    return OK;
}

static enum status run(struct tool *tool) {
    static const struct {
        const char *name;
        enum status (*run)(struct tool *tool);
    } ACTIONS[] = {{"list", run_list},
                   {"verify", run_verify},
                   {"inspect", run_inspect},
                   {"export", run_export}};
    for (size_t i = 0; i < ARRAY_COUNT(ACTIONS); i++) {
        if (strcmp(tool->action, ACTIONS[i].name) != 0) {
            continue;
        }
        if (!file_is_folder(tool->folder)) {
            return fault_set(&tool->fault, STATUS_INPUT, tool->folder,
                             "name the folder of a run's snapshots, or one of them",
                             "is not a folder");
        }
        return ACTIONS[i].run(tool);
    }
    return fault_set(&tool->fault, STATUS_USAGE, "snapshot", "list, verify, inspect or export",
                     "cannot \"%s\"", tool->action);
}

int command_snapshot(int argc, char **argv) {
    static struct arguments arguments;
    struct tool tool = {0};
    const struct flag flags[] = {
        {"-o", &tool.out, NULL}, {"--dtype", &tool.dtype, NULL}, {"--json", NULL, &tool.json}};
    enum status status =
        arguments_read(argc, argv, flags, ARRAY_COUNT(flags), 2, &arguments, &tool.fault);
    if (status == OK) {
        status = arguments_only(&arguments, argv[0], &tool.fault);
    }
    if (status == OK) {
        tool.action = arguments.positionals[0];
        tool.folder = arguments.positionals[1];
        status = run(&tool);
    }
    if (status != OK) {
        fault_print(&tool.fault, STDERR_FILENO);
    }
    region_finish(&tool.region);
    return fault_exit_code(status);
}
