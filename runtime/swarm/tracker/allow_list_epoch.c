/* allow_list_epoch: the operator's signature of the allow-list. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "transport/identity/operator_key.h"

#include <stdlib.h>
#include <string.h>

static int compare_keys(const void *a, const void *b) {
    return memcmp(a, b, KEY_BYTES);
}

static void set_epoch_members(const struct allow_list *list, struct roster_epoch *epoch) {
    memset(epoch, 0, sizeof *epoch);
    epoch->is_open = list->is_open;
    for (uint32_t i = 0; i < list->count && i < ROSTER_KEYS_MAX; i++) {
        memcpy(epoch->members[epoch->count++], list->rows[i].keys.sign, KEY_BYTES);
    }
    qsort(epoch->members, epoch->count, sizeof epoch->members[0], compare_keys);
}

bool allow_list_matches_epoch(const struct allow_list *list, const struct roster_epoch *epoch) {
    static struct roster_epoch wanted;
    set_epoch_members(list, &wanted);
    return epoch->serial != 0 && wanted.is_open == epoch->is_open && wanted.count == epoch->count &&
           memcmp(wanted.members, epoch->members, wanted.count * sizeof wanted.members[0]) == 0;
}

enum status allow_list_sign(const char *path, const struct allow_list *list,
                            const struct hash *swarm, const struct key_pairs *operator_keys,
                            struct fault *fault) {
    static struct known_roster known;
    struct fault unread;
    char file[ROSTER_PATH_BYTES];
    roster_file_path(path, file);
    uint64_t newest = 0;
    if (roster_file_read(file, operator_keys->public_keys.sign, &known, &unread) == OK) {
        newest = known.epoch.serial;
    }
    set_epoch_members(list, &known.epoch);
    known.swarm = *swarm;
    known.epoch.serial = operator_next_serial(newest, (uint64_t)clock_unix_s());
    const char *error = roster_epoch_error(&known.epoch);
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, path,
                         "list at least three members, or remove `open: true`", "%s", error);
    }
    roster_epoch_sign(operator_keys, swarm, &known.epoch);
    return roster_file_write(file, &known, fault);
}

enum status allow_list_sign_file(const char *path, const struct hash *swarm,
                                 const struct key_pairs *operator_keys, struct fault *fault) {
    struct region scratch = {0};
    struct allow_list *list = region_alloc(&scratch, 1, sizeof *list);
    enum status status = allow_list_read_complete(path, list, fault);
    if (status == OK) {
        status = allow_list_sign(path, list, swarm, operator_keys, fault);
    }
    region_finish(&scratch);
    return status;
}

/* Signs a changed list, if the operator's secret key is on this machine. Returns whether the list
 * was signed. */
static bool sign_changed_list(struct allow_list_watch *watch) {
    const struct allow_list_authority *authority = watch->authority;
    struct operator_key key;
    struct fault fault;
    if (operator_key_read(authority->operator_key_path, &key, &fault) != OK) {
        return false;
    }
    bool is_signed =
        key.has_secrets && public_keys_equal(&key.keys.public_keys, &authority->operator_keys);
    if (is_signed) {
        is_signed =
            allow_list_sign(watch->path, &watch->list, &authority->swarm, &key.keys, &fault) == OK;
        if (!is_signed) {
            log_line(LOG_WARNING, "%s: %s; %s", fault.subject, fault.reason, fault.remedy);
        }
    }
    keys_wipe(&key.keys);
    return is_signed;
}

/* Reads the operator's signed list. A file with an older serial is ignored, because serials never
 * fall. */
static void read_signed_list(struct allow_list_watch *watch) {
    static struct known_roster known;
    char file[ROSTER_PATH_BYTES];
    struct fault fault;
    roster_file_path(watch->path, file);
    watch->signed_stamp = file_stamp_of(file);
    if (watch->signed_stamp.inode == 0) {
        return;
    }
    if (roster_file_read(file, watch->authority->operator_keys.sign, &known, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; this roster epoch is ignored", fault.subject, fault.reason);
    } else if (hash_equal(&known.swarm, &watch->authority->swarm) &&
               known.epoch.serial > watch->epoch.serial) {
        watch->epoch = known.epoch;
    }
}

void allow_list_watch_update_epoch(struct allow_list_watch *watch) {
    if (watch->authority == NULL) {
        return;
    }
    read_signed_list(watch);
    if (allow_list_matches_epoch(&watch->list, &watch->epoch)) {
        return;
    }
    if (sign_changed_list(watch)) {
        read_signed_list(watch);
    } else if (watch->epoch.serial != 0) {
        log_line(LOG_WARNING,
                 "allow-list %s: the operator has not signed its newest version; until `skep "
                 "roster sign` does, only members that the newest roster epoch lists may join",
                 watch->path);
    }
}

void allow_list_watch_use_epoch(struct allow_list_watch *watch, const struct roster_epoch *epoch) {
    if (epoch->serial > watch->epoch.serial) {
        watch->epoch = *epoch;
    }
}

enum status allow_list_watch_check_epoch(const struct allow_list_watch *watch,
                                         struct fault *fault) {
    if (watch->authority == NULL || watch->epoch.serial != 0) {
        return OK;
    }
    return fault_set(
        fault, STATUS_INPUT, watch->path,
        "start the tracker once with --operator-key FILE, which signs it",
        "the operator has not signed the allow-list, and the ledger has no roster epoch either");
}

bool allow_list_watch_permits(const struct allow_list_watch *watch,
                              const struct public_keys *keys) {
    return allow_list_permits(&watch->list, keys) &&
           (watch->epoch.serial == 0 || watch->epoch.is_open == 1 ||
            roster_epoch_has_key(&watch->epoch, keys->sign));
}
