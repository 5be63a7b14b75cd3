/* keys: the table of run.yaml's keys: class, type, default, bounds, meaning. */
#ifndef SKEP_SETTINGS_KEYS_H
#define SKEP_SETTINGS_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum key_type {
    KEY_INTEGER, /* int64_t */
    KEY_REAL,    /* double */
    KEY_PAIR,    /* struct number_pair */
    KEY_AMOUNT,  /* uint64_t, of bytes; "9GiB" */
    KEY_SECONDS, /* double */
    KEY_DTYPE,   /* int64_t: f32 or bf16 */
    KEY_CHOICE,  /* int64_t: index in `choices` */
    KEY_TEXT,    /* const char *; one of `choices` when there are any */
    KEY_MODEL,   /* const char *: a path as below, or org/name when there is no such folder */
    KEY_PROFILE, /* const char *: a path when it has a '/' or ends in .yaml, else a name */
    KEY_PATH,    /* const char *: in a run file relative to it */
    KEY_PATHS    /* struct path_list: each as above */
};

/* Shared keys are mathematics: a swarm's members agree on them. Local ones may differ. */
enum key_class { KEY_SHARED, KEY_LOCAL };

struct key {
    const char *name;
    enum key_class class;
    enum key_type type;
    size_t offset;        /* in struct run */
    const char *fallback; /* default as text; NULL: unset, a text or a path only */
    const char *unit;     /* "" for none */
    double minimum, maximum;
    const char *choices; /* KEY_CHOICE, KEY_TEXT: "constant|cosine|wsd"; NULL: any */
    const char *meaning;
};

int key_count(void);
const struct key *key_at(int index);
/* key_find: NULL when there is none of that name. */
const struct key *key_find(const char *name);
/* key_names: every name, in the table's order; for naming the nearest. */
const char *const *key_names(void);

#endif
