/* identity: the keys of a process in a swarm, and the addresses of processes. The module owns
 * the identity file, the keys in it and their signatures, the join string of a tracker, and network
 * addresses as text. The messenger authenticates connections with the keys, the ledger and the
 * tracker sign and verify with them, and the commands `skep keys`, `skep track` and `skep join`
 * read and print them.
 *
 * public   address.h join_string.h keys.h numeric_address.h operator_key.h
 *
 * An identity is stored in one file of one line and mode 0600. The file is created completely or
 * not at all, and is never overwritten. */
#ifndef SKEP_TRANSPORT_IDENTITY_IDENTITY_H
#define SKEP_TRANSPORT_IDENTITY_IDENTITY_H

#include "base/fault.h"
#include "base/limits.h"
#include "transport/identity/keys.h"

#include <stdbool.h>

/* identity_path: the path of the identity file: `given` unless NULL, else skep/identity in
 * $XDG_CONFIG_HOME, or in $HOME/.config if that variable is unset, empty or a relative path.
 * errors  STATUS_INPUT: neither variable gives a folder, or the path is too long; `path` is then
 *         unchanged */
MUST_CHECK enum status identity_path(const char *given, char path[static PATH_BYTES],
                                     struct fault *fault);

/* identity_load: read the identity file.
 * errors  STATUS_INPUT: the file is missing, is not a regular file, is accessible to other users,
 *         or is damaged; *keys is then unchanged */
MUST_CHECK enum status identity_load(const char *path, struct key_pairs *keys, struct fault *fault);

/* identity_load_or_create: read the identity file, or, if it is missing, create it with its folders
 * and a new identity. If several processes do this at once, all of them get the identity of the
 * first. A file at `path` is always complete and durable. *created: whether this call created it.
 * errors  those of identity_load; STATUS_FIT or STATUS_FAILED: the file cannot be written, and does
 *         not exist */
MUST_CHECK enum status identity_load_or_create(const char *path, struct key_pairs *keys,
                                               bool *created, struct fault *fault);

#endif
