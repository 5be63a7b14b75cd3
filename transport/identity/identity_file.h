/* identity_file: the file in which an identity is kept: one line, mode 0600, made whole or not at
 * all, never overwritten. */
#ifndef SKEP_TRANSPORT_IDENTITY_IDENTITY_FILE_H
#define SKEP_TRANSPORT_IDENTITY_IDENTITY_FILE_H

#include "base/fault.h"
#include "base/limits.h"
#include "transport/identity/keys.h"

#include <stdbool.h>

/* identity_path: where the identity is: `given` when not NULL, else skep/identity in
 * $XDG_CONFIG_HOME, or in $HOME/.config where that is unset, empty or relative.
 * errors  STATUS_INPUT when neither variable names a folder, or the path is too long; `path` is
 *         then untouched */
MUST_CHECK enum status identity_path(const char *given, char path[static PATH_BYTES],
                                     struct fault *fault);

/* identity_load: read the file.
 * errors  STATUS_INPUT, *keys untouched: no such file, not a regular file, others may read or
 *         write it, another length, not a line of ours */
MUST_CHECK enum status identity_load(const char *path, struct key_pairs *keys, struct fault *fault);

/* identity_load_or_create: read the file; when there is none, make an identity, write it and its
 * folders. Processes that do so at once all get the identity of the first to finish, and a file
 * that is seen at `path` is always whole and durable. *made tells whether this call made it.
 * errors  those of identity_load; STATUS_FIT or STATUS_FAILED when it cannot be written, and
 *         nothing is then at `path` */
MUST_CHECK enum status identity_load_or_create(const char *path, struct key_pairs *keys, bool *made,
                                               struct fault *fault);

#endif
