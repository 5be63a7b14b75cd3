#include "runtime/corpus/tokenizer_folder.h"

#include "base/file.h"
#include "runtime/model/model.h"

#include <stdio.h>
#include <string.h>

enum status tokenizer_folder_find(const char *model, char folder[static PATH_BYTES],
                                  struct fault *fault) {
    if (strlen(model) >= PATH_BYTES) {
        return fault_set(fault, STATUS_INPUT, "model", NULL, "the path is too long");
    }
    if (file_is_folder(model)) {
        snprintf(folder, PATH_BYTES, "%s", model);
        return OK;
    }
    if (file_exists(model)) {
        file_parent_folder(model, folder, PATH_BYTES);
        return OK;
    }
    if (hub_cache_is_model_name(model)) {
        return hub_cache_find(model, folder, fault);
    }
    return fault_set(fault, STATUS_INPUT, model,
                     "name a model folder, or org/name of a model in the Hub cache",
                     "no such folder");
}
