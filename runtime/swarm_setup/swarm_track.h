/* swarm_track: all that a tracker needs from a run file: its state folder, identity, manifest,
 * address and rules. */
#ifndef SKEP_SWARM_SETUP_SWARM_TRACK_H
#define SKEP_SWARM_SETUP_SWARM_TRACK_H

#include "runtime/swarm/tracker/tracker.h"
#include "runtime/swarm_setup/swarm_offer.h"

/* What the command line says; NULL: not said. */
struct tracker_setup_args {
    const char *run_path;
    const char *const *overrides;
    int override_count;
    const char *listen;   /* "tcp://HOST:PORT", the scheme may be missing; port 0 or * for any */
    const char *address;  /* that others are told; the same form */
    const char *state;    /* folder; else STEM/ beside the run file */
    const char *roster;   /* file; else roster.yaml in the state folder */
    const char *identity; /* file; else `identity` in the state folder */
    const char *ledger;   /* a copy to make the store anew from, which was lost */
};

struct tracker_setup {
    struct manifest_draft offer;
    struct manifest manifest;
    struct key_pairs keys;
    struct join_string join;
    bool is_new; /* this call made the manifest */
    char state[PATH_BYTES], roster[PATH_BYTES], store[PATH_BYTES], identity[PATH_BYTES];
    char manifest_path[PATH_BYTES]; /* in the state folder; a copy lies beside the run file */
    char listen[MESSAGE_ADDRESS_BYTES];
    char *text; /* of the manifest */
};

/* tracker_setup_prepare: read the run, make the folder and an identity if there is none, and read
 * the manifest that an earlier start made there, or make it: then all data files are read once.
 * memory  *track is the caller's, zeroed; the rest in `region`
 * A swarm that was begun goes on with its own store: without its entries nothing begins anew.
 * errors  those of manifest_draft_read, identity_load_or_create, manifest_draft_sign,
 *         manifest_draft_matches; STATUS_USAGE for an address that is none; STATUS_INPUT when the
 *         store was lost; those of tracker_import */
MUST_CHECK enum status tracker_setup_prepare(const struct tracker_setup_args *wish,
                                             struct region *region, struct tracker_setup *track,
                                             struct fault *fault);

/* tracker_setup_options: what the tracker's loop is opened with; stop_fd is for the caller. */
struct tracker_loop_options tracker_setup_options(const struct tracker_setup *track);

#endif
