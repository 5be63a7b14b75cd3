/* input_list: the files of a corpus, from the files and folders that a user passes. */
#ifndef SKEP_CORPUS_INPUT_LIST_H
#define SKEP_CORPUS_INPUT_LIST_H

#include "base/fault.h"
#include "base/region.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    INPUTS_MAX = 1 << 20,       /* maximum number of files of a corpus */
    INPUT_FOLDER_DEPTH_MAX = 32 /* maximum depth of folders in a folder that the user passes */
};

enum input_kind {
    INPUT_TEXT,       /* the file is one document */
    INPUT_JSON_LINES, /* each line is one document, in a field of a JSON object */
};

struct input {
    const char *path;     /* "-": standard input */
    enum input_kind kind; /* what the file contains */
    uint64_t bytes;       /* size of the file; 0 for standard input */
};

struct input_list {
    struct input *inputs; /* [count] */
    int count;
    bool has_stdin;           /* one of them is standard input */
    uint64_t bytes_total;     /* sum of the sizes; 0 with standard input, whose size is unknown */
    int skipped_count;        /* files in folders that are not text, pipes and devices too */
    const char *skipped_path; /* the first of these files; NULL: none */
};

/* input_path_is_text: whether a file has a suffix of text or JSON lines, also compressed, or a
 * folder exists at the path. */
bool input_path_is_text(const char *path);

/* input_list_expand: list the files of `paths`, in this order. A folder stands for the files
 * in it and in its folders, sorted by name, with a suffix of text (.txt, .text, .md) or of JSON
 * lines (.jsonl, .ndjson), which may be followed by .gz or .zst; others, and names that begin with
 * a period, are skipped. Symbolic links are followed. A file that is named itself is text unless
 * its suffix is that of JSON lines. "-" is standard input.
 * stdin_kind  what standard input contains
 * memory      in `region`
 * errors      STATUS_INPUT for a path that does not exist, a folder without text, a file whose
 *             suffix says that it is neither text nor JSON lines, standard input that is named
 *             twice, and more than INPUTS_MAX files; *list is then unchanged */
MUST_CHECK enum status input_list_expand(const char *const *paths, int path_count,
                                         enum input_kind stdin_kind, struct region *region,
                                         struct input_list *list, struct fault *fault);

#endif
