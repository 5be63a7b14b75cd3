/* allow_list_read: the rows of a parsed allow-list, for its reader and its editor. */
#ifndef SKEP_SWARM_TRACKER_ALLOW_LIST_READ_H
#define SKEP_SWARM_TRACKER_ALLOW_LIST_READ_H

#include "base/yaml.h"
#include "runtime/swarm/tracker/allow_list.h"

/* allow_list_rows: all rows of a parsed file; row r is item r of its members.
 * errors  those of allow_list_read; open, count and rows are then undefined */
MUST_CHECK enum status allow_list_rows(const struct yaml_document *document,
                                       struct allow_list *list, struct fault *fault);

/* allow_list_append: add a row at the end. allow_list_erase: remove row `index`.
 * limits  fewer than ALLOW_LIST_MAX rows; index < list->count */
void allow_list_append(struct allow_list *list, const struct allow_list_row *row);
void allow_list_erase(struct allow_list *list, uint32_t index);

#endif
