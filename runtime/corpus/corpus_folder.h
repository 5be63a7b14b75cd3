/* corpus_folder: the folder of the token files, which appears only when it is complete. */
#ifndef SKEP_CORPUS_CORPUS_FOLDER_H
#define SKEP_CORPUS_CORPUS_FOLDER_H

#include "base/fault.h"
#include "base/limits.h"

#include <stdbool.h>

struct corpus_folder {
    char final_path[PATH_BYTES]; /* path of the folder that the user asked for */
    /* final_path with ".new" at its end: path of the folder until all files are complete */
    char unfinished_path[PATH_BYTES];
    /* descriptor of the lock file in the unfinished folder; -1: none */
    int lock_fd;
    bool is_complete; /* all token files are complete, so they are never removed */
};

/* The folder to which a corpus is written, and options for writing it. */
struct corpus_folder_options {
    const char *path; /* path of the folder, which either does not exist or is empty */
    bool waits;       /* wait while another process writes the folder; false: an error */
    bool has_stdin;   /* an input is standard input, which cannot be read twice */
};

/* A corpus_attempt writes the token files to folder->unfinished_path and calls
 * corpus_folder_publish.
 * resumes      continue from the progress of an interrupted call, if that call had the same
 *              arguments
 * has_changed  out: the inputs have changed since that call, so nothing is published */
typedef enum status corpus_attempt(void *context, struct corpus_folder *folder, bool resumes,
                                   bool *has_changed, struct fault *fault);

/* corpus_folder_write: make and lock the unfinished folder, and call `attempt`. If the inputs have
 * changed since an interrupted call, call `attempt` once more, from the start. The unfinished
 * folder is then removed unless it contains the progress from which a later call can continue.
 * errors  STATUS_INPUT when a symbolic link, a file or a folder with content exists at the path,
 *         also when another process has written it meanwhile; when a file exists where one of the
 *         folders that contain the path must be; when another process writes the folder; when the
 *         folder cannot be made; or when standard input has changed. STATUS_STOPPED when a signal
 *         ends the wait. Those of `attempt` */
MUST_CHECK enum status corpus_folder_write(const struct corpus_folder_options *options,
                                           corpus_attempt *attempt, void *context,
                                           struct fault *fault);

/* corpus_folder_clear: remove the files that an earlier call left in the unfinished folder. */
void corpus_folder_clear(const struct corpus_folder *folder);

/* corpus_folder_publish: rename the unfinished folder to its final path, make the name durable, and
 * release the lock.
 * errors  STATUS_FAILED when the folder cannot be renamed; the complete files then remain in the
 *         unfinished folder, which the remedy names */
MUST_CHECK enum status corpus_folder_publish(struct corpus_folder *folder, struct fault *fault);

#endif
