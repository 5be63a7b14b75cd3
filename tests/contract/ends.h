/* ends: messengers in one process, and what each of them heard. */
#ifndef SKEP_TESTS_CONTRACT_ENDS_H
#define SKEP_TESTS_CONTRACT_ENDS_H

#include "transport/messages/messages.h"

#include "base/hash.h"

enum { ENDS_MAX = 4, HEARD_MAX = 256, WITHIN_MS = 20000 };

struct heard {
    enum messenger_event_kind kind;
    uint8_t curve[KEY_BYTES];
    bool is_guest;
    struct frame frame;
    struct hash payload;
    char address[MESSAGE_ADDRESS_BYTES];
};

struct end {
    struct key_pairs keys;
    struct messenger_options options;
    struct region region;
    struct messenger *messenger; /* NULL when closed */
    struct heard heard[HEARD_MAX];
    uint32_t count;
};

/* An end with new keys, kinds 1 to 4 known, two bulk connections; change `options`, then open. */
void end_init(struct end *end);
void end_open(struct end *end);
void end_close(struct end *end);

const uint8_t *end_curve(const struct end *end);
/* "tcp://127.0.0.1:PORT" of an open end; of one static buffer per end of the last four asked. */
const char *end_address(const struct end *end);
void end_names(struct end *end, const struct end *other, const char *address);

/* Whatever all ends have to do and to hear, until `done` says so; false after WITHIN_MS. */
bool ends_until(struct end *const *ends, int count, bool (*done)(void *), void *context);

/* One round of it. */
void ends_pump(struct end *const *ends, int count);

/* How many events of a kind, from `from` or from anybody (NULL), an end has heard. */
uint32_t heard_count(const struct end *end, enum messenger_event_kind kind, const struct end *from);
/* Pump until `end` has heard `wanted` of them. */
bool hears(struct end *const *ends, int count, struct end *end, enum messenger_event_kind kind,
           uint32_t wanted);
/* The newest event of a kind. */
const struct heard *heard_last(const struct end *end, enum messenger_event_kind kind);
/* Every end of the two has heard that the other is there. */
bool ends_meet(struct end *a, struct end *b);

/* Whether each other's kernels come to confirm as many bytes as both have sent. */
bool ends_confirm(struct end *a, struct end *b);

#endif
