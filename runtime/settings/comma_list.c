#include "runtime/settings/comma_list.h"

#include <string.h>

bool comma_list_next(const char **position, struct comma_item *item) {
    const char *text = *position + strspn(*position, " ");
    if (*text == '\0') {
        return false;
    }
    size_t width = strcspn(text, ",");
    *position = text + width + (text[width] == ',');
    while (width > 0 && text[width - 1] == ' ') {
        width--;
    }
    *item = (struct comma_item){.text = text, .length = width};
    return true;
}

size_t comma_list_count(const char *text) {
    struct comma_item item;
    size_t count = 0;
    while (comma_list_next(&text, &item)) {
        count++;
    }
    return count;
}
