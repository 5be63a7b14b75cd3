/* state_folder: checks whether a new swarm can use a tracker's state folder. */
#ifndef SKEP_SWARM_SETUP_STATE_FOLDER_H
#define SKEP_SWARM_SETUP_STATE_FOLDER_H

#include "runtime/swarm_setup/tracker_setup.h"

/* state_folder_check_unused: check that no other swarm uses the state folder, before the files of a
 * new one replace its delegation and the signature of its allow-list. Creates no file.
 * errors  STATUS_INPUT: the folder contains a ledger with entries, or a delegation together with
 *         the manifest of another swarm; those of tracker_store_has_entries */
MUST_CHECK enum status state_folder_check_unused(const struct tracker_setup *setup,
                                                 struct fault *fault);

#endif
