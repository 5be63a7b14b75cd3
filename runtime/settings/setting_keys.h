/* keys: the table of run.yaml's keys: class, type, default, bounds, meaning. */
#ifndef SKEP_SETTINGS_SETTING_KEYS_H
#define SKEP_SETTINGS_SETTING_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum setting_type {
    SETTING_INTEGER, /* int64_t */
    SETTING_REAL,    /* double */
    SETTING_PAIR,    /* struct number_pair */
    SETTING_BYTES,   /* uint64_t, of bytes; "9GiB" */
    SETTING_SECONDS, /* double */
    SETTING_DTYPE,   /* int64_t: f32 or bf16 */
    SETTING_CHOICE,  /* int64_t: index in `choices` */
    SETTING_TEXT,    /* const char *; one of `choices` when there are any */
    SETTING_MODEL,   /* const char *: a path as below, or org/name when there is no such folder */
    SETTING_PROFILE, /* const char *: a path when it has a '/' or ends in .yaml, else a name */
    SETTING_PATH,    /* const char *: in a run file relative to it */
    SETTING_PATHS    /* struct path_list: each as above */
};

/* Shared keys are mathematics: a swarm's members agree on them. Local ones may differ. */
enum setting_class { SETTING_SHARED, SETTING_LOCAL };

struct setting_key {
    const char *name;
    enum setting_class class;
    enum setting_type type;
    size_t offset;            /* in struct settings */
    const char *default_text; /* default as text; NULL: unset, a text or a path only */
    const char *unit;         /* "" for none */
    double minimum, maximum;
    const char *choices; /* SETTING_CHOICE, SETTING_TEXT: "constant|cosine|wsd"; NULL: any */
    const char *help;
};

int setting_key_count(void);
const struct setting_key *setting_key_at(int index);
/* setting_key_find: NULL when there is none of that name. */
const struct setting_key *setting_key_find(const char *name);
/* setting_key_names: every name, in the table's order; for naming the nearest. */
const char *const *setting_key_names(void);

#endif
