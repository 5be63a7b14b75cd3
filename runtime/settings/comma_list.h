/* comma_list: reads the items of a comma-separated list, as on the command line. */
#ifndef SKEP_SETTINGS_COMMA_LIST_H
#define SKEP_SETTINGS_COMMA_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* One item: a part of the list's text, not NUL-terminated. */
struct comma_item {
    const char *text; /* first byte of the item */
    size_t length;    /* number of bytes */
};

/* comma_list_next: read the item at *position without surrounding spaces, and advance *position
 * past the item and its comma. Returns false at the end. "" has no items, "a," has one, and "a,,b"
 * has three, of which the second is empty. */
bool comma_list_next(const char **position, struct comma_item *item);

/* comma_list_count: return the number of items in the list `text`. */
size_t comma_list_count(const char *text);

#endif
