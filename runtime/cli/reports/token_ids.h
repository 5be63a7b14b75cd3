/* token_ids: reads a list of token ids: a JSON array such as [464, 318], or numbers that are
 * separated by commas or blanks. */
#ifndef SKEP_CLI_REPORTS_TOKEN_IDS_H
#define SKEP_CLI_REPORTS_TOKEN_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_ids_status { TOKEN_IDS_FOUND, TOKEN_IDS_END, TOKEN_IDS_INVALID };

struct token_ids {
    const char *at, *end; /* what is unread */
    bool is_array;        /* the list is in brackets */
    bool needs_id;        /* the last byte that was read is a comma */
    bool has_ids;         /* at least one id was read */
    const char *digits;   /* [digit_count] digits of the last id, as they are in the text */
    int digit_count;
};

/* token_ids_begin: read the list in `text`, which the caller keeps.
 * text  [count] one line, without its line end */
void token_ids_begin(struct token_ids *ids, const char *text, size_t count);

/* token_ids_next: read the next id. An id above INT64_MAX becomes INT64_MAX.
 * returns  TOKEN_IDS_FOUND, with *id; TOKEN_IDS_END at the end of the list; TOKEN_IDS_INVALID when
 *          the text is no list of ids */
enum token_ids_status token_ids_next(struct token_ids *ids, int64_t *id);

#endif
