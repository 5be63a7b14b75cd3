#include "runtime/data/token_cache.h"

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "runtime/data/token_file.h"

enum { SUMMARY_BYTES = 1 << 16 }; /* maximum size of data.json */

static enum status read_file_count(const struct json_node *root, int64_t *count,
                                   struct fault *fault) {
    struct json_node train, files;
    TRY(json_require(root, "train", &train, fault));
    TRY(json_as_object(&train, fault));
    TRY(json_require(&train, "files", &files, fault));
    TRY(json_as_i64(&files, count, fault));
    return *count > 0 && *count <= FILES_MAX
               ? OK
               : json_fault(&files, fault, NULL, "is not from 1 to %d", FILES_MAX);
}

static enum status read_summary(const char *folder, int64_t *count, struct fault *fault) {
    struct region scratch = {0};
    const char *path = region_format(&scratch, "%s/data.json", folder);
    struct json_document document;
    char *text;
    size_t length;
    enum status status =
        file_read_into_region(path, SUMMARY_BYTES, &scratch, &text, &length, fault);
    if (status == OK) {
        status = json_parse(text, length, SUMMARY_BYTES, path, &document, fault);
    }
    if (status == OK) {
        status = read_file_count(&document.root, count, fault);
        json_finish(&document);
    }
    region_finish(&scratch);
    return status;
}

/* Whether the file is a token file of the size that its header states. */
static enum status check_file(const char *path, struct fault *fault) {
    struct token_file file;
    TRY(token_file_open(path, NULL, &file, fault));
    token_file_close(&file);
    return OK;
}

enum status token_cache_list(const char *folder, struct region *region, struct path_list *list,
                             struct fault *fault) {
    int64_t count = 0;
    TRY(read_summary(folder, &count, fault));
    const char **paths = region_alloc(region, (size_t)count, sizeof *paths);
    for (int64_t i = 0; i < count; i++) {
        paths[i] = region_format(region, "%s/train_%06lld.bin", folder, (long long)i);
        TRY(check_file(paths[i], fault));
    }
    list->paths = paths;
    list->count = (int)count;
    return OK;
}
