/* list: the items of a comma-separated text, the form that lists have on the command line. */
#ifndef SKEP_SETTINGS_COMMA_LIST_H
#define SKEP_SETTINGS_COMMA_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A part of the text that was given; not NUL-terminated. */
struct comma_item {
    const char *text;
    size_t length;
};

/* comma_list_next: the item at *at, without the spaces around it; *at moves behind it and its
 * comma. False at the end. "" has no items, "a," one, "a,,b" three, the second of them empty. */
bool comma_list_next(const char **at, struct comma_item *item);

/* comma_list_count: how many items there are. */
size_t comma_list_count(const char *text);

#endif
