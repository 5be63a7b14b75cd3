/* corpus_folder: the folder of the token files, which appears only when it is complete. */
#ifndef SKEP_CORPUS_CORPUS_FOLDER_H
#define SKEP_CORPUS_CORPUS_FOLDER_H

#include "base/fault.h"
#include "base/limits.h"

#include <stdbool.h>

struct corpus_folder {
    char final_path[PATH_BYTES];      /* path of the folder that the user asked for */
    char unfinished_path[PATH_BYTES]; /* that path with ".new", until all files are complete */
    int lock_fd;                      /* of the lock file in the unfinished folder; -1: none */
};

/* corpus_folder_open: check that `path` does not exist, or is an empty folder; make the unfinished
 * folder if it does not exist; and lock it.
 * errors  STATUS_INPUT when there is something at `path`, a file is where a folder that contains it
 *         must be, another process writes it, or the folder cannot be made */
MUST_CHECK enum status corpus_folder_open(const char *path, struct corpus_folder *folder,
                                          struct fault *fault);

/* corpus_folder_clear: remove the files that an earlier call left in the unfinished folder. */
void corpus_folder_clear(const struct corpus_folder *folder);

/* corpus_folder_start_over: corpus_folder_clear, because the inputs have changed since the
 * interrupted call.
 * errors  STATUS_INPUT when one of them is standard input, which cannot be read again */
MUST_CHECK enum status corpus_folder_start_over(const struct corpus_folder *folder, bool has_stdin,
                                                struct fault *fault);

/* corpus_folder_publish: give the unfinished folder its name, and make that durable. */
MUST_CHECK enum status corpus_folder_publish(struct corpus_folder *folder, struct fault *fault);

/* corpus_folder_close: release the lock. The unfinished folder is removed unless it contains the
 * progress from which a later call can continue. */
void corpus_folder_close(struct corpus_folder *folder);

#endif
