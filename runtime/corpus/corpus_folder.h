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

/* Where a corpus is written, and how. */
struct corpus_folder_options {
    const char *path; /* the folder; must not exist, or be empty */
    bool waits;       /* wait while another process writes it; false: an error */
    bool has_stdin;   /* an input is standard input, which cannot be read twice */
};

/* A corpus_attempt writes the token files to folder->unfinished_path and calls
 * corpus_folder_publish.
 * resumes      continue from the progress of an interrupted call, if it is of the same call
 * has_changed  out: the inputs have changed since that call, so nothing is published */
typedef enum status corpus_attempt(void *context, struct corpus_folder *folder, bool resumes,
                                   bool *has_changed, struct fault *fault);

/* corpus_folder_write: make and lock the unfinished folder, call `attempt`, and once more from the
 * start if the inputs have changed since an interrupted call. The unfinished folder is then removed
 * unless it contains the progress from which a later call can continue.
 * errors  STATUS_INPUT when there is something at the path, also when another process has written
 *         it meanwhile; a file is where a folder that contains it must be; another process writes
 *         it; the folder cannot be made; or standard input has changed. STATUS_STOPPED when a
 *         signal ends the wait. Those of `attempt` */
MUST_CHECK enum status corpus_folder_write(const struct corpus_folder_options *options,
                                           corpus_attempt *attempt, void *context,
                                           struct fault *fault);

/* corpus_folder_clear: remove the files that an earlier call left in the unfinished folder. */
void corpus_folder_clear(const struct corpus_folder *folder);

/* corpus_folder_publish: give the unfinished folder its name, and make that durable. The lock is
 * released. */
MUST_CHECK enum status corpus_folder_publish(struct corpus_folder *folder, struct fault *fault);

#endif
