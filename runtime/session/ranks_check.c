#include "runtime/session/ranks_check.h"

#include "build_config.h"
#include "runtime/settings/setting_keys.h"

#include <stdio.h>
#include <unistd.h>

enum { VERSION_BYTES = 32, MACHINE_NAME_BYTES = 64, SHOWN_BYTES = 200 }; /* sizes of text buffers */

/* The values of one rank that must be equal on all ranks. */
struct rank_report {
    char machine[MACHINE_NAME_BYTES]; /* name of the machine */
    char version[VERSION_BYTES];      /* version of the program */
    struct hash data, plan;           /* hashes of the training data and of the plan */
    struct hash keys[RUN_KEYS_MAX];   /* hash of the value of each setting */
};

/* The first rank that differs from rank 0, and the item that differs. */
struct rank_difference {
    int rank;              /* 0: no rank differs */
    int key;               /* index of the setting that differs; -1: the item is no setting */
    const char *item_name; /* text that names the item for the fault */
};

static bool key_may_differ(const struct setting_key *key) {
    return strcmp(key->name, "target") == 0 || strcmp(key->name, "metrics") == 0 ||
           strncmp(key->name, "limits.", strlen("limits.")) == 0;
}

static void describe_setting(const struct session *session, int index, struct text *text) {
    settings_describe_key(&session->settings, setting_key_at(index), text);
}

static void make_rank_report(const struct session *session, const struct hash *data,
                             struct region *region, struct rank_report *report) {
    size_t bytes = settings_describe_bytes_max(&session->settings);
    char *buffer = region_alloc(region, bytes, 1);
    (void)gethostname(report->machine, sizeof report->machine - 1);
    snprintf(report->version, sizeof report->version, "%s", SKEP_VERSION);
    report->data = *data;
    report->plan = session->program.hash;
    for (int i = 0; i < setting_key_count(); i++) {
        struct text text = text_over(buffer, bytes);
        if (!key_may_differ(setting_key_at(i))) {
            describe_setting(session, i, &text);
        }
        report->keys[i] = hash_of(text.bytes, text.length);
    }
}

static bool has_same_settings(const struct rank_report *a, const struct rank_report *b, int *key) {
    for (int i = 0; i < setting_key_count(); i++) {
        if (!hash_equal(&a->keys[i], &b->keys[i])) {
            *key = i;
            return false;
        }
    }
    return true;
}

/* Returns the first difference between a rank and rank 0. Settings are compared before the plan,
 * because the plan depends on them. */
static struct rank_difference find_difference(const struct rank_report *all, int ranks) {
    for (int rank = 1; rank < ranks; rank++) {
        struct rank_difference found = {.rank = rank, .key = -1};
        if (strcmp(all[rank].machine, all[0].machine) != 0) {
            found.item_name = "host";
        } else if (strcmp(all[rank].version, all[0].version) != 0) {
            found.item_name = "version";
        } else if (!has_same_settings(&all[rank], &all[0], &found.key)) {
            found.item_name = setting_key_at(found.key)->name;
        } else if (!hash_equal(&all[rank].data, &all[0].data)) {
            found.item_name = "data";
        } else if (!hash_equal(&all[rank].plan, &all[0].plan)) {
            found.item_name = "plan";
        }
        if (found.item_name != NULL) {
            return found;
        }
    }
    return (struct rank_difference){.rank = 0};
}

/* Writes this rank's value of the differing item as text for the fault. */
static void format_value(const struct session *session, const struct hash *data,
                         const struct rank_difference *found, char shown[static SHOWN_BYTES]) {
    char hex[HASH_HEX_BYTES];
    struct text text = text_over(shown, SHOWN_BYTES);
    if (found->key >= 0) {
        describe_setting(session, found->key, &text);
    } else if (strcmp(found->item_name, "version") == 0) {
        text_add(&text, "%s", SKEP_VERSION);
    } else {
        const struct hash *hash =
            strcmp(found->item_name, "data") == 0 ? data : &session->program.hash;
        text_add(&text, "%.16s", hash_hex(hash, hex));
    }
}

static enum status reject_other_machine(const struct rank_report *all, int rank,
                                        struct fault *fault) {
    char subject[NAME_BYTES];
    snprintf(subject, sizeof subject, "rank %d", rank);
    return fault_set(
        fault, STATUS_INPUT, subject, "start all ranks on the same machine",
        "runs on the machine %s and rank 0 on %s, but all ranks must be on one machine",
        all[rank].machine, all[0].machine);
}

static enum status report_difference(const struct session *session, const struct hash *data,
                                     const struct rank_difference *found, struct region *region,
                                     struct fault *fault) {
    char mine[SHOWN_BYTES];
    char subject[NAME_BYTES];
    char(*all)[SHOWN_BYTES] =
        region_alloc(region, (size_t)session_rank_count(session), sizeof *all);
    memset(mine, 0, sizeof mine);
    format_value(session, data, found, mine);
    TRY(site_exchange(session->site, mine, sizeof mine, all, fault));
    snprintf(subject, sizeof subject, "rank %d", found->rank);
    return fault_set(fault, STATUS_INPUT, subject,
                     "give every rank the same program, run file, overrides and data",
                     "%s is %s, but rank 0 has %s", found->item_name, all[found->rank], all[0]);
}

static enum status compare_all_reports(const struct session *session, const struct rank_report *all,
                                       struct region *region, struct fault *fault) {
    struct rank_difference found = find_difference(all, session_rank_count(session));
    if (found.rank == 0) {
        return OK;
    }
    if (strcmp(found.item_name, "host") == 0) {
        return reject_other_machine(all, found.rank, fault);
    }
    const struct rank_report *own = &all[site_launch_info(session->site)->rank];
    return report_difference(session, &own->data, &found, region, fault);
}

enum status ranks_check_equal(struct session *session, const struct hash *data,
                              struct fault *fault) {
    int ranks = session_rank_count(session);
    if (ranks == 1) {
        return OK;
    }
    struct region scratch = {0};
    struct rank_report *mine = region_alloc(&scratch, 1, sizeof *mine);
    struct rank_report *all = region_alloc(&scratch, (size_t)ranks, sizeof *all);
    make_rank_report(session, data, &scratch, mine);
    enum status status = site_exchange(session->site, mine, sizeof *mine, all, fault);
    if (status == OK) {
        status = compare_all_reports(session, all, &scratch, fault);
    }
    region_finish(&scratch);
    return status;
}
