/* tracker_setup: everything that a tracker derives from a run file: its state folder, identity,
 * manifest, address and options. */
#ifndef SKEP_SWARM_SETUP_TRACKER_SETUP_H
#define SKEP_SWARM_SETUP_TRACKER_SETUP_H

#include "runtime/swarm/tracker/tracker.h"
#include "runtime/swarm_setup/manifest_make.h"

/* The command line; NULL: not given. */
struct tracker_setup_args {
    const char *run_path;
    const char *const *overrides;
    int override_count;
    const char *listen;   /* "tcp://HOST:PORT" or "HOST:PORT"; port 0 or *: any free port */
    const char *address;  /* that members connect to; the same form */
    const char *state;    /* folder; else STEM/ beside the run file */
    const char *roster;   /* file; else roster.yaml in the state folder */
    const char *identity; /* file; else `identity` in the state folder */
    const char *ledger;   /* a copy of the ledger, to recreate a store that was lost */
};

struct tracker_setup {
    struct manifest_draft offer;
    struct manifest manifest;
    struct key_pairs keys;
    struct join_string join;
    bool is_new; /* this call made the manifest */
    char state[PATH_BYTES], roster[PATH_BYTES], store[PATH_BYTES], identity[PATH_BYTES];
    char manifest_path[PATH_BYTES]; /* in the state folder; a copy is beside the run file */
    char listen[MESSAGE_ADDRESS_BYTES];
    char *text; /* of the manifest */
};

/* tracker_setup_prepare: reads the run, creates the folder and an identity if there is none, and
 * reads the manifest that an earlier start created there, or creates it, which reads all data files
 * once. A swarm that has begun resumes with its store: it never starts again with an empty ledger.
 * memory  *track is the caller's, zeroed; the rest in `region`
 * errors  those of manifest_draft_read, identity_load_or_create, manifest_draft_sign,
 *         manifest_draft_matches; STATUS_USAGE for an invalid address; STATUS_INPUT when the
 *         store was lost; those of tracker_import */
MUST_CHECK enum status tracker_setup_prepare(const struct tracker_setup_args *wish,
                                             struct region *region, struct tracker_setup *track,
                                             struct fault *fault);

/* tracker_setup_options: the options of the tracker's loop; the caller sets stop_fd. */
struct tracker_loop_options tracker_setup_options(const struct tracker_setup *track);

#endif
