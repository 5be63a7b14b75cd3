/* delegation: how processes learn the keys of a swarm's tracker from the operator's key alone. The
 * operator signs a delegation (runtime/swarm/ledger/operator_documents.h), which is a file in the
 * tracker's state folder. The tracker sends it over each connection to the port number one above
 * its own. Clients and members fetch it from there before they connect with CURVE, and store the
 * newest one.
 *
 *     operator ── signs ──► file ──► delegation_server ──► delegation_fetch ──► delegation_search
 *
 * This header declares the file, and the warnings before the expiry.
 *
 * public   delegation_fetch.h delegation_search.h delegation_server.h
 *          roster_file.h */
#ifndef SKEP_SWARM_DELEGATION_DELEGATION_H
#define SKEP_SWARM_DELEGATION_DELEGATION_H

#include "base/fault.h"
#include "runtime/swarm/ledger/operator_documents.h"

/* The name of the delegation file in the tracker's state folder. */
#define DELEGATION_FILE_NAME "delegation.signed"

/* A delegation whose signature was verified. */
struct known_delegation {
    struct hash swarm;            /* hash of the swarm's manifest */
    struct delegation delegation; /* the delegation; serial 0: none is known */
};

/* delegation_read_verified: decode a frame and verify that the operator with this key signed it.
 * errors  a text that describes the error: those of delegation_read, or a signature of another
 *         key; *known is then unchanged */
MUST_CHECK const char *delegation_read_verified(const uint8_t *bytes, size_t count,
                                                const uint8_t operator_key[static KEY_BYTES],
                                                struct known_delegation *known);

/* delegation_file_read: read and verify a delegation file. delegation_file_write: replace the file
 * atomically and durably.
 * errors  STATUS_INPUT: the file is missing, damaged or not signed by this key; *known is then
 *         unchanged; those of file_replace: the earlier file remains */
MUST_CHECK enum status delegation_file_read(const char *path,
                                            const uint8_t operator_key[static KEY_BYTES],
                                            struct known_delegation *known, struct fault *fault);
MUST_CHECK enum status delegation_file_write(const char *path, const struct known_delegation *known,
                                             struct fault *fault);

/* operator_file_read: read a file of at most `capacity` bytes with a document of the operator.
 * *count is 0 if the file is longer.
 * errors  STATUS_INPUT: the file is missing or cannot be read */
MUST_CHECK enum status operator_file_read(const char *path, uint8_t *bytes, size_t capacity,
                                          size_t *count, struct fault *fault);

enum {
    DELEGATION_WARN_S = 7 * 24 * 60 * 60,   /* time before the expiry at which warnings begin */
    DELEGATION_WARN_EVERY_S = 24 * 60 * 60, /* time between two warnings of the expiry */
    DELEGATION_WARN_LAST_S = 60 * 60,       /* time between the last warning and the expiry */
};

/* delegation_poll_warning: whether to warn of the expiry now. *warn_s is the Unix time of the next
 * warning. If that time has come, *warn_s becomes the time of the warning after it.
 * delegation_time_left: the time until the expiry as text: "2 days", "3 hours", "59 s". */
MUST_CHECK bool delegation_poll_warning(const struct delegation *delegation, uint64_t now_s,
                                        uint64_t *warn_s);
const char *delegation_time_left(const struct delegation *delegation, uint64_t now_s,
                                 char text[static 24]);

#endif
