#include "runtime/swarm_setup/tracker_delegation.h"

#include "base/clock.h"

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
