#include "runtime/settings/model_config.h"

#include "base/file.h"
#include "base/limits.h"

#include <stdio.h>

enum status model_config_read(const char *model, const char *folder, struct region *region,
                              const char **text, size_t *length, struct fault *fault) {
    char path[2 * PATH_BYTES];
    size_t read = 0;
    char *config = region_alloc(region, CONFIG_BYTES_MAX, 1);
    if (folder[0] == '\0') {
        snprintf(path, sizeof path, "%s", model);
    } else {
        path_join(folder, "config.json", path, sizeof path);
    }
    TRY(file_read_text(path, config, CONFIG_BYTES_MAX, &read, fault));
    *text = config;
    *length = read;
    return OK;
}
