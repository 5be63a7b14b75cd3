#include "runtime/swarm_setup/state_folder.h"

#include "base/file.h"
#include "runtime/swarm/tracker/tracker_import.h"

#include <dirent.h>
#include <string.h>

static const char REMEDY[] = "use a different --state folder for this swarm";

static enum status check_store_is_empty(const struct tracker_setup *setup, struct fault *fault) {
    bool has_entries = false;
    TRY(tracker_store_has_entries(setup->store_path, &has_entries, fault));
    return !has_entries ? OK
                        : fault_set(fault, STATUS_INPUT, setup->store_path, REMEDY,
                                    "contains the ledger of a different swarm than %s, which has "
                                    "no manifest in this folder",
                                    setup->draft.settings.swarm_name);
}

static bool is_manifest_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot != NULL && dot != name && strcmp(dot, ".skep") == 0;
}

/* Rejects a folder with a delegation and the manifest of its swarm, even if it has no ledger,
 * which may be lost or not yet begun. A delegation without a manifest is left by an interrupted
 * creation. */
static enum status check_delegation(const struct tracker_setup *setup, struct fault *fault) {
    enum status status = OK;
    DIR *listing = file_exists(setup->delegation_path) ? opendir(setup->state_folder) : NULL;
    if (listing == NULL) {
        return OK;
    }
    for (const struct dirent *file = readdir(listing); file != NULL && status == OK;
         file = readdir(listing)) {
        if (is_manifest_name(file->d_name)) {
            status = fault_set(fault, STATUS_INPUT, setup->delegation_path, REMEDY,
                               "is the delegation of another swarm than %s: its folder contains "
                               "that swarm's manifest %.80s",
                               setup->draft.settings.swarm_name, file->d_name);
        }
    }
    closedir(listing);
    return status;
}

enum status state_folder_check_unused(const struct tracker_setup *setup, struct fault *fault) {
    TRY(check_store_is_empty(setup, fault));
    return check_delegation(setup, fault);
}
