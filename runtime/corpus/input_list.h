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
    enum input_kind kind; /* kind of the file's contents */
    uint64_t bytes;       /* size of the file; 0 for standard input */
};

struct input_list {
    struct input *inputs; /* [count] */
    int count;
    bool has_stdin; /* one of the inputs is standard input */
    /* sum of the sizes of all inputs; 0 with standard input, whose size is unknown */
    uint64_t bytes_total;
    /* number of skipped files in folders: not text, or a pipe or device */
    int skipped_count;
    const char *skipped_path; /* first of the skipped files; NULL: none */
};

/* input_path_is_text: whether a file has a suffix of text or JSON lines, also compressed, or a
 * folder exists at the path. */
bool input_path_is_text(const char *path);

/* input_list_expand: list the files of `paths`, in this order. A folder stands for the files in it
 * and in its folders, sorted by name, with a suffix of text (.txt, .text, .md) or of JSON lines
 * (.jsonl, .ndjson), which may be followed by .gz or .zst; files with other suffixes, and names
 * that begin with a period, are skipped. Symbolic links are followed. A file in `paths` itself is
 * text unless its suffix is that of JSON lines. "-" is standard input.
 * stdin_kind  what standard input contains
 * memory      in `region`
 * errors      STATUS_INPUT for a path that does not exist, a folder without text, a file whose
 *             suffix is that of another kind, standard input that is in `paths` twice, and more
 *             than INPUTS_MAX files; *list is then unchanged */
MUST_CHECK enum status input_list_expand(const char *const *paths, int path_count,
                                         enum input_kind stdin_kind, struct region *region,
                                         struct input_list *list, struct fault *fault);

#endif
