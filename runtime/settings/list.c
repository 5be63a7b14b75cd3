#include "runtime/settings/list.h"

#include <string.h>

bool list_next(const char **at, struct list_item *item) {
    const char *text = *at + strspn(*at, " ");
    if (*text == '\0') {
        return false;
    }
    size_t width = strcspn(text, ",");
    *at = text + width + (text[width] == ',');
    while (width > 0 && text[width - 1] == ' ') {
        width--;
    }
    *item = (struct list_item){.text = text, .length = width};
    return true;
}

size_t list_count(const char *text) {
    struct list_item item;
    size_t count = 0;
    while (list_next(&text, &item)) {
        count++;
    }
    return count;
}
