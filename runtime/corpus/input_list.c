/* input_list: walks folders with fts, which needs no recursion here and finds cycles of links. */
#include "runtime/corpus/input_list.h"

#include "base/limits.h"

#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The list of inputs while it is made. */
struct walk {
    struct input_list list;
    int capacity;               /* number of inputs for which list.inputs has memory */
    enum input_kind stdin_kind; /* what standard input contains */
    struct region *region;
    struct fault *fault;
};

static bool has_suffix(const char *name, size_t length, const char *suffix) {
    const size_t suffix_length = strlen(suffix);
    return length > suffix_length &&
           memcmp(name + length - suffix_length, suffix, suffix_length) == 0;
}

/* Returns the length of a file name without the suffix .gz or .zst. */
static size_t length_without_compression(const char *name) {
    const size_t length = strlen(name);
    return has_suffix(name, length, ".gz")    ? length - strlen(".gz")
           : has_suffix(name, length, ".zst") ? length - strlen(".zst")
                                              : length;
}

static bool has_any_suffix(const char *name, const char *const *suffixes, size_t count) {
    const size_t length = length_without_compression(name);
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found = found || has_suffix(name, length, suffixes[i]);
    }
    return found;
}

static bool is_json_lines(const char *name) {
    static const char *const SUFFIXES[] = {".jsonl", ".ndjson"};
    return has_any_suffix(name, SUFFIXES, ARRAY_COUNT(SUFFIXES));
}

static bool is_text(const char *name) {
    static const char *const SUFFIXES[] = {".txt", ".text", ".md"};
    return has_any_suffix(name, SUFFIXES, ARRAY_COUNT(SUFFIXES));
}

bool input_path_is_text(const char *path) {
    struct stat info;
    return is_text(path) || is_json_lines(path) ||
           (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

/* Rejects a file with the suffix of a kind that is not text. Read as text, such a file would give
 * tokens of noise. */
static enum status reject_other_kind(const char *path, struct fault *fault) {
    static const struct {
        const char *suffix, *kind, *remedy;
    } ROWS[] = {
        {".parquet", "a table in Parquet", "convert it to .jsonl, see docs/DATA.md"},
        {".arrow", "a table in Arrow", "convert it to .jsonl, see docs/DATA.md"},
        {".csv", "a table", "convert it to .jsonl, see docs/DATA.md"},
        {".tsv", "a table", "convert it to .jsonl, see docs/DATA.md"},
        {".json", "one JSON document", "write one object a line, in a file that ends in .jsonl"},
        {".bin", "a binary file", "pass text or .jsonl files; `train` reads token files directly"},
        {".u16", "a token file", "pass text or .jsonl files; `train` reads token files directly"},
        {".u32", "a token file", "pass text or .jsonl files; `train` reads token files directly"},
        {".safetensors", "a file of weights", "pass text or .jsonl files"},
        {".pdf", "a PDF", "extract its text to a .txt file"},
        {".zip", "an archive", "unpack it, and pass the folder instead"},
        {".tar", "an archive", "unpack it, and pass the folder instead"},
        {".tgz", "an archive", "unpack it, and pass the folder instead"},
        {".xz", "compressed with xz", "decompress it, or compress it with zstd"},
        {".bz2", "compressed with bzip2", "decompress it, or compress it with zstd"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (has_any_suffix(path, &ROWS[i].suffix, 1)) {
            return fault_set(fault, STATUS_INPUT, path, ROWS[i].remedy,
                             "is %s, not text or JSON lines", ROWS[i].kind);
        }
    }
    return OK;
}

static enum status add_input(struct walk *walk, const char *path, enum input_kind kind,
                             uint64_t bytes) {
    struct input_list *list = &walk->list;
    if (list->count == INPUTS_MAX) {
        return fault_set(walk->fault, STATUS_INPUT, path, "join small files into JSON lines",
                         "is file number %d; the limit is %d", INPUTS_MAX + 1, INPUTS_MAX);
    }
    if (list->count + 1 >= walk->capacity) {
        list->inputs = region_grow(walk->region, list->inputs, list->count, &walk->capacity,
                                   sizeof *list->inputs);
    }
    list->inputs[list->count++] =
        (struct input){.path = region_copy_text(walk->region, path), .kind = kind, .bytes = bytes};
    list->bytes_total += bytes;
    return OK;
}

static void skip_file(struct walk *walk, const char *path) {
    if (walk->list.skipped_count++ == 0) {
        walk->list.skipped_path = region_copy_text(walk->region, path);
    }
}

static int compare_names(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static enum status open_fault(const char *path, int error, struct fault *fault) {
    struct stat info;
    if (error == ENOENT && lstat(path, &info) == 0) {
        return fault_set(fault, STATUS_INPUT, path, "remove the link, or put the file there",
                         "is a link to a file that does not exist");
    }
    return fault_set(fault, STATUS_INPUT, path,
                     error == EACCES ? "make it readable for this user"
                                     : "check the path, which is relative to the working directory",
                     "cannot open: %s", strerror(error));
}

/* Adds a file that fts has found to the list, or skips it. */
static enum status visit_entry(struct walk *walk, FTS *tree, FTSENT *entry) {
    const bool is_hidden = entry->fts_level > 0 && entry->fts_name[0] == '.';
    const bool has_input_name = is_text(entry->fts_name) || is_json_lines(entry->fts_name);
    switch (entry->fts_info) {
    case FTS_D:
        if (is_hidden) {
            fts_set(tree, entry, FTS_SKIP);
        } else if (entry->fts_level > INPUT_FOLDER_DEPTH_MAX) {
            return fault_set(walk->fault, STATUS_INPUT, entry->fts_path, "pass a folder inside it",
                             "is more than %d folders deep", INPUT_FOLDER_DEPTH_MAX);
        }
        return OK;
    case FTS_DC:
        return fault_set(walk->fault, STATUS_INPUT, entry->fts_path, "remove the link",
                         "is a link to a folder that contains it");
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return fault_set_errno(walk->fault, STATUS_INPUT, entry->fts_path, "cannot read",
                               entry->fts_errno);
    case FTS_F:
        if (!is_hidden && has_input_name) {
            return add_input(walk, entry->fts_path,
                             is_json_lines(entry->fts_name) ? INPUT_JSON_LINES : INPUT_TEXT,
                             (uint64_t)entry->fts_statp->st_size);
        }
        break;
    case FTS_SLNONE: /* a link without a file */
        if (!is_hidden && has_input_name) {
            return open_fault(entry->fts_path, ENOENT, walk->fault);
        }
        break;
    case FTS_DEFAULT: /* FTS_DEFAULT is a pipe, a socket or a device */
        break;
    default:
        return OK;
    }
    if (!is_hidden) {
        skip_file(walk, entry->fts_path);
    }
    return OK;
}

static enum status add_folder(struct walk *walk, const char *path) {
    char *const roots[] = {(char *)(uintptr_t)path, NULL};
    const int before = walk->list.count;
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, compare_names);
    enum status status = OK;
    if (tree == NULL) {
        return fault_set_errno(walk->fault, STATUS_INPUT, path, "cannot read", errno);
    }
    FTSENT *entry = fts_read(tree);
    /* the loop ends: a cycle is an error, which fts reports as FTS_DC */
    while (entry != NULL && status == OK) {
        status = visit_entry(walk, tree, entry);
        entry = status == OK ? fts_read(tree) : NULL;
    }
    fts_close(tree);
    if (status == OK && walk->list.count == before) {
        status = fault_set(walk->fault, STATUS_INPUT, path,
                           "put .txt, .md or .jsonl files there, or pass the paths of the files",
                           "the folder contains no text files");
    }
    return status;
}

static enum status add_path(struct walk *walk, const char *path) {
    struct stat info;
    if (strcmp(path, "-") == 0) {
        if (walk->list.has_stdin) {
            return fault_set(walk->fault, STATUS_INPUT, "-", "pass it once",
                             "standard input is passed twice");
        }
        walk->list.has_stdin = true;
        return add_input(walk, path, walk->stdin_kind, 0);
    }
    if (strlen(path) >= PATH_BYTES || stat(path, &info) != 0) {
        return open_fault(path, strlen(path) >= PATH_BYTES ? ENAMETOOLONG : errno, walk->fault);
    }
    if (S_ISDIR(info.st_mode)) {
        return add_folder(walk, path);
    }
    TRY(reject_other_kind(path, walk->fault));
    return add_input(walk, path, is_json_lines(path) ? INPUT_JSON_LINES : INPUT_TEXT,
                     (uint64_t)info.st_size);
}

enum status input_list_expand(const char *const *paths, int path_count, enum input_kind stdin_kind,
                              struct region *region, struct input_list *list, struct fault *fault) {
    struct walk walk = {.stdin_kind = stdin_kind, .region = region, .fault = fault};
    for (int i = 0; i < path_count; i++) {
        TRY(add_path(&walk, paths[i]));
    }
    if (walk.list.has_stdin) {
        walk.list.bytes_total = 0;
    }
    *list = walk.list;
    return OK;
}
