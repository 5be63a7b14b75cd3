/* tracker_setup: everything that a tracker derives from a run file: its state folder, identity,
 * manifest, address and options. */
#ifndef SKEP_SWARM_SETUP_TRACKER_SETUP_H
#define SKEP_SWARM_SETUP_TRACKER_SETUP_H

#include "runtime/swarm/delegation/delegation.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/tracker.h"
#include "runtime/swarm_setup/manifest_make.h"

/* The arguments of `skep track`. An option that was not given is NULL. */
struct tracker_setup_args {
    const char *run_path;         /* path of the run file */
    const char *const *overrides; /* [override_count]: settings as KEY=VALUE */
    int override_count;
    const char *listen_address;   /* "tcp://HOST:PORT" or "HOST:PORT"; port 0 or *: any free port */
    const char *public_address;   /* address that members connect to; NULL: chosen */
    const char *state_folder;     /* folder of the tracker; NULL: RUN beside RUN.yaml */
    const char *allow_list_path;  /* allow-list; NULL: roster.yaml in the state folder */
    const char *identity_path;    /* identity file; NULL: `identity` in the state folder */
    const char *ledger_copy_path; /* member's copy of a lost ledger, to recreate it; else NULL */
    const char *operator_key_path; /* operator's key; NULL: operator.key in the state folder */
};

struct tracker_setup {
    struct manifest_draft draft;        /* contents of a new manifest */
    struct manifest manifest;           /* the swarm's manifest */
    struct key_pairs keys;              /* keys of the tracker */
    struct join_string join;            /* address of the tracker and public keys of the operator */
    struct known_delegation delegation; /* the operator's statement that `keys` are the tracker's */
    struct allow_list_authority authority; /* operator's keys, which sign the allow-list */
    bool is_new; /* the manifest was created by this process, not by an earlier start */
    char state_folder[PATH_BYTES], allow_list_path[PATH_BYTES];
    char store_path[PATH_BYTES], identity_path[PATH_BYTES];
    char operator_key_path[PATH_BYTES];
    char delegation_path[PATH_BYTES];
    char order_path[PATH_BYTES]; /* file with the operator's order to roll back */
    /* file that states what the operator can order (continue_file.h) */
    char waiting_path[PATH_BYTES];
    char continue_path[PATH_BYTES]; /* file with the operator's order to continue */
    char manifest_path[PATH_BYTES]; /* path in the state folder; a copy is beside the run file */
    char listen_address[MESSAGE_ADDRESS_BYTES];
    char *manifest_text; /* text of the manifest file */
};

/* tracker_setup_prepare: reads the run file, creates the state folder and an identity if they do
 * not exist, and reads the manifest that an earlier start created. If there is none, creates it,
 * which reads all data files once. An existing swarm always resumes from its store, never from an
 * empty ledger.
 * memory  the caller passes a zeroed *setup; the rest is in `region`
 * errors  those of manifest_draft_read, identity_load_or_create, operator_key_read_or_create,
 *         manifest_draft_sign,
 *         manifest_draft_compare; STATUS_USAGE for an invalid address; STATUS_INPUT when the store
 *         was lost, or the operator's key of a new swarm cannot sign; those of tracker_import,
 *         tracker_delegation_load and, before anything is written, state_folder_check_unused */
MUST_CHECK enum status tracker_setup_prepare(const struct tracker_setup_args *args,
                                             struct region *region, struct tracker_setup *setup,
                                             struct fault *fault);

/* tracker_setup_open: reads the run file, and the manifest and identity of an existing swarm. It
 * changes nothing.
 * errors  those of manifest_draft_read, identity_load and manifest_read; STATUS_INPUT when the
 *         folder has no swarm */
MUST_CHECK enum status tracker_setup_open(const struct tracker_setup_args *args,
                                          struct region *region, struct tracker_setup *setup,
                                          struct fault *fault);

/* tracker_setup_open_manifest: as tracker_setup_open, but the identity is not read. */
MUST_CHECK enum status tracker_setup_open_manifest(const struct tracker_setup_args *args,
                                                   struct region *region,
                                                   struct tracker_setup *setup,
                                                   struct fault *fault);
/* tracker_setup_options: returns the options of tracker_loop_open, which point into *setup. The
 * caller sets stop_fd. */
struct tracker_loop_options tracker_setup_options(const struct tracker_setup *setup);

#endif
