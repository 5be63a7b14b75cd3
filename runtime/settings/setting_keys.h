/* setting_keys: the table of the keys of a run file, with their types, defaults and bounds. */
#ifndef SKEP_SETTINGS_SETTING_KEYS_H
#define SKEP_SETTINGS_SETTING_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum setting_type {
    SETTING_INTEGER, /* int64_t */
    SETTING_REAL,    /* double */
    SETTING_PAIR,    /* struct number_pair: two numbers, for example "0.9,0.95" */
    SETTING_BYTES,   /* uint64_t: bytes or bytes per second, for example "9GiB" */
    SETTING_SECONDS, /* double: a duration, for example "8s" */
    SETTING_DTYPE,   /* int64_t: DTYPE_F32 or DTYPE_BF16; with `choices` also DTYPE_AUTO */
    SETTING_CHOICE,  /* int64_t: an index in `choices` */
    SETTING_TEXT,    /* const char *: one of `choices` unless they are NULL */
    SETTING_MODEL,   /* const char *: a path, or org/name if no such path exists */
    SETTING_PROFILE, /* const char *: a path if it has a '/' or ends in .yaml, else a name */
    SETTING_PATH,    /* const char *: relative to the run file */
    SETTING_PATHS    /* struct path_list: paths, each relative to the run file */
};

enum { DTYPE_AUTO = -1 }; /* the type follows from other settings and the model */

/* Shared keys determine the mathematics and are equal for all members of a swarm. Local keys may
 * differ. */
enum setting_class { SETTING_SHARED, SETTING_LOCAL };

struct setting_key {
    const char *name;         /* Name in a run file, such as "batch.tokens". */
    enum setting_class class; /* Shared by all members of a swarm, or local. */
    enum setting_type type;   /* how the text is read, and the type of the field */
    size_t offset;            /* Offset of the field in struct settings. */
    /* Text of the default value; NULL: none, which only texts and paths may have. */
    const char *default_text;
    const char *unit;        /* Unit of the value; "" for none. */
    double minimum, maximum; /* Permitted range of numbers, both ends included. */
    const char *choices; /* Permitted values, for example "constant|cosine|wsd"; NULL: any value. */
    const char *help;    /* Description for the list of keys. */
};

int setting_key_count(void);
const struct setting_key *setting_key_at(int index);
/* setting_key_find: return the key with the given name, or NULL. */
const struct setting_key *setting_key_find(const char *name);
/* setting_key_find_by_end: return the only key whose name is `end` or ends with "." and `end`, or
 * NULL if there is none or several. "microbatch" finds batch.microbatch. */
const struct setting_key *setting_key_find_by_end(const char *end);
/* setting_key_names: return the names of all keys, in the order of the table. */
const char *const *setting_key_names(void);

#endif
