#include "runtime/swarm_setup/tracker_delegation.h"

#include "base/clock.h"

enum { DAY_S = 24 * 60 * 60 };

enum status tracker_delegation_sign(struct tracker_setup *setup,
                                    const struct key_pairs *operator_keys, const struct hash *swarm,
                                    const struct public_keys *tracker, uint64_t expires_s,
                                    struct fault *fault) {
    struct known_delegation *known = &setup->delegation;
    const uint64_t newest = known->delegation.serial;
    *known = (struct known_delegation){
        .swarm = *swarm,
        .delegation = {.serial = operator_next_serial(newest, (uint64_t)clock_unix_s()),
                       .expires_s = expires_s,
                       .tracker = *tracker}};
    delegation_sign(operator_keys, swarm, &known->delegation);
    return delegation_file_write(setup->delegation_path, known, fault);
}

static enum status set_other_key_fault(const struct tracker_setup *setup, struct fault *fault) {
    char remedy[sizeof fault->remedy], key[KEYS_TEXT_BYTES];
    struct text text = text_over(remedy, sizeof remedy);
    text_add(&text,
             "restore that identity, or run `skep track RUN.yaml --delegate %s` where the "
             "operator's key is",
             public_keys_write(&setup->keys.public_keys, key));
    return fault_set(fault, STATUS_INPUT, setup->identity_path, remedy,
                     "the operator has delegated the swarm to a tracker with another key");
}

enum status tracker_delegation_load(struct tracker_setup *setup, struct fault *fault) {
    const struct known_delegation *known = &setup->delegation;
    TRY(delegation_file_read(setup->delegation_path, setup->manifest.join.operator_keys.sign,
                             &setup->delegation, fault));
    if (!hash_equal(&known->swarm, &setup->manifest.hash)) {
        return fault_set(fault, STATUS_INPUT, setup->delegation_path,
                         "sign a new one with `skep track RUN.yaml --delegate KEY`",
                         "the delegation is for a different swarm than %s", setup->manifest.name);
    }
    if (!public_keys_equal(&known->delegation.tracker, &setup->keys.public_keys)) {
        return set_other_key_fault(setup, fault);
    }
    return delegation_is_expired(&known->delegation, (uint64_t)clock_unix_s())
               ? fault_set(fault, STATUS_INPUT, setup->delegation_path,
                           "sign a new one with `skep track RUN.yaml --delegate KEY`",
                           "the operator's delegation to this tracker has expired")
               : OK;
}

enum status tracker_setup_read_operator_key(const struct tracker_setup *setup,
                                            struct operator_key *key, struct fault *fault) {
    const char *path = setup->operator_key_path;
    TRY(operator_key_read(path, key, fault));
    if (!public_keys_equal(&key->keys.public_keys, &setup->manifest.join.operator_keys)) {
        return fault_set(fault, STATUS_INPUT, path, "pass the operator's key with --operator-key",
                         "is not the operator's key in the manifest of %s", setup->manifest.name);
    }
    return key->has_secrets
               ? OK
               : fault_set(fault, STATUS_INPUT, path,
                           "pass the identity file of the operator with --operator-key",
                           "contains only the operator's public key, which cannot sign");
}

/* Reads the newest delegation, for its serial. If it is missing or damaged, the serial of the
 * next one is the time. */
static void read_newest_delegation(struct tracker_setup *setup) {
    struct fault fault;
    if (delegation_file_read(setup->delegation_path, setup->manifest.join.operator_keys.sign,
                             &setup->delegation, &fault) != OK) {
        setup->delegation = (struct known_delegation){.delegation = {.serial = 0}};
    }
}

enum status tracker_delegation_renew(const struct tracker_setup_args *args, const char *key,
                                     int64_t days, struct region *region,
                                     struct tracker_setup *setup, struct fault *fault) {
    struct operator_key operator_key;
    struct public_keys tracker;
    const char *error = public_keys_read(key, &tracker);
    const uint64_t now_s = (uint64_t)clock_unix_s();
    if (error != NULL) {
        return fault_set(fault, STATUS_USAGE, "--delegate",
                         "copy the tracker's key as `skep keys --identity FILE` prints it",
                         "the key %s", error);
    }
    TRY(tracker_setup_open_manifest(args, region, setup, fault));
    read_newest_delegation(setup);
    enum status status = tracker_setup_read_operator_key(setup, &operator_key, fault);
    if (status == OK) {
        status = tracker_delegation_sign(setup, &operator_key.keys, &setup->manifest.hash, &tracker,
                                         days == 0 ? 0 : now_s + (uint64_t)days * DAY_S, fault);
    }
    keys_wipe(&operator_key.keys);
    return status;
}
