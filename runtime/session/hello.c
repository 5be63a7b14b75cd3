#include "runtime/session/hello.h"

#include "build_config.h"
#include "runtime/settings/keys.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VERSION_BYTES = 32, HOST_BYTES = 64, SHOWN_BYTES = 200 };

/* One rank's part of the first exchange. */
struct hello {
    char host[HOST_BYTES];
    char version[VERSION_BYTES];
    struct hash data, plan;
    struct hash keys[RUN_KEYS_MAX];
};

/* Where a rank differs from rank 0. */
struct difference {
    int rank; /* 0: none does */
    int key;  /* index, or -1: something else */
    const char *what;
};

static bool may_differ(const struct key *key) {
    return strcmp(key->name, "target") == 0 || strcmp(key->name, "metrics") == 0 ||
           strncmp(key->name, "limits.", strlen("limits.")) == 0;
}

static void describe(const struct session *session, int index, struct text *text) {
    settings_describe_key(&session->run, setting_key_at(index), text);
}

static void fill(const struct session *session, const struct hash *data, struct region *region,
                 struct hello *hello) {
    size_t room = settings_describe_bytes_max(&session->run);
    char *buffer = region_alloc(region, room, 1);
    (void)gethostname(hello->host, sizeof hello->host - 1);
    snprintf(hello->version, sizeof hello->version, "%s", SKEP_VERSION);
    hello->data = *data;
    hello->plan = session->program.hash;
    for (int i = 0; i < setting_key_count(); i++) {
        struct text text = text_over(buffer, room);
        if (!may_differ(setting_key_at(i))) {
            describe(session, i, &text);
        }
        hello->keys[i] = hash_of(text.bytes, text.length);
    }
}

static bool same_key(const struct hello *a, const struct hello *b, int *key) {
    for (int i = 0; i < setting_key_count(); i++) {
        if (!hash_equal(&a->keys[i], &b->keys[i])) {
            *key = i;
            return false;
        }
    }
    return true;
}

/* Keys before the plan, which follows from them. */
static struct difference find_difference(const struct hello *all, int ranks) {
    for (int rank = 1; rank < ranks; rank++) {
        struct difference found = {.rank = rank, .key = -1};
        if (strcmp(all[rank].host, all[0].host) != 0) {
            found.what = "host";
        } else if (strcmp(all[rank].version, all[0].version) != 0) {
            found.what = "version";
        } else if (!same_key(&all[rank], &all[0], &found.key)) {
            found.what = setting_key_at(found.key)->name;
        } else if (!hash_equal(&all[rank].data, &all[0].data)) {
            found.what = "data";
        } else if (!hash_equal(&all[rank].plan, &all[0].plan)) {
            found.what = "plan";
        }
        if (found.what != NULL) {
            return found;
        }
    }
    return (struct difference){.rank = 0};
}

/* This rank's value of what differs, for people. */
static void show_value(const struct session *session, const struct hash *data,
                       const struct difference *found, char shown[static SHOWN_BYTES]) {
    char hex[HASH_HEX_BYTES];
    struct text text = text_over(shown, SHOWN_BYTES);
    if (found->key >= 0) {
        describe(session, found->key, &text);
    } else if (strcmp(found->what, "version") == 0) {
        text_add(&text, "%s", SKEP_VERSION);
    } else {
        const struct hash *hash = strcmp(found->what, "data") == 0 ? data : &session->program.hash;
        text_add(&text, "%.16s", hash_hex(hash, hex));
    }
}

static enum status refuse_host(const struct hello *all, int rank, struct fault *fault) {
    char place[NAME_BYTES];
    snprintf(place, sizeof place, "rank %d", rank);
    return fault_set(fault, STATUS_INPUT, place, "start all ranks on one machine",
                     "runs on %s, rank 0 on %s, but tensors move through the memory of one machine",
                     all[rank].host, all[0].host);
}

static enum status name_difference(const struct session *session, const struct hash *data,
                                   const struct difference *found, struct region *region,
                                   struct fault *fault) {
    char mine[SHOWN_BYTES];
    char place[NAME_BYTES];
    char(*all)[SHOWN_BYTES] = region_alloc(region, (size_t)session_ranks(session), sizeof *all);
    memset(mine, 0, sizeof mine);
    show_value(session, data, found, mine);
    enum status status = site_exchange(session->site, mine, sizeof mine, all, fault);
    if (status != OK) {
        return status;
    }
    snprintf(place, sizeof place, "rank %d", found->rank);
    return fault_set(fault, STATUS_INPUT, place,
                     "give every rank the same program, run file, overrides and data",
                     "%s is %s, rank 0 has %s", found->what, all[found->rank], all[0]);
}

static enum status judge(const struct session *session, const struct hello *all,
                         struct region *region, struct fault *fault) {
    struct difference found = find_difference(all, session_ranks(session));
    if (found.rank == 0) {
        return OK;
    }
    if (strcmp(found.what, "host") == 0) {
        return refuse_host(all, found.rank, fault);
    }
    const struct hello *own = &all[site_launch_info(session->site)->rank];
    return name_difference(session, &own->data, &found, region, fault);
}

enum status ranks_check_equal(struct session *session, const struct hash *data,
                              struct fault *fault) {
    int ranks = session_ranks(session);
    if (ranks == 1) {
        return OK;
    }
    struct region scratch = {0};
    struct hello *mine = region_alloc(&scratch, 1, sizeof *mine);
    struct hello *all = region_alloc(&scratch, (size_t)ranks, sizeof *all);
    fill(session, data, &scratch, mine);
    enum status status = site_exchange(session->site, mine, sizeof *mine, all, fault);
    if (status == OK) {
        status = judge(session, all, &scratch, fault);
    }
    region_finish(&scratch);
    return status;
}
