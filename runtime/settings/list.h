/* list: the items of a comma-separated text, the form that lists have on the command line. */
#ifndef SKEP_SETTINGS_LIST_H
#define SKEP_SETTINGS_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A part of the text that was given; not NUL-terminated. */
struct list_item {
    const char *text;
    size_t length;
};

/* list_next: the item at *at, without the spaces around it; *at moves behind it and its comma.
 * False at the end. "" has no items, "a," one, "a,,b" three, the second of them empty. */
bool list_next(const char **at, struct list_item *item);

/* list_count: how many items there are. */
size_t list_count(const char *text);

#endif
