#include "runtime/swarm/tracker/admission.h"

#include "base/hex.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/swarm/tracker/tracker_loop_state.h"
#include "runtime/swarm/wire/wire_service.h"
#include "transport/identity/address.h"
#include "transport/identity/numeric_address.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    /* A member may be evicted when it was silent for this many times silence_ms. */
    UNRESPONSIVE_SILENCES = 6,
    KEY_PREFIX_BYTES = 6, /* bytes of the key that are shown in hex as name of a nameless member */
    STRANGER_LOG_MS = 60 * 1000, /* time between two log lines about strangers */
};

uint32_t classify_process(const void *context, const uint8_t curve[static KEY_BYTES]) {
    const struct tracker_loop *loop = context;
    if (member_table_find_by_channel_key(loop->members, curve) != MEMBER_NONE) {
        return PROCESS_MEMBER;
    }
    const bool is_tracker = memcmp(curve, loop->options.keys->public_keys.curve, KEY_BYTES) == 0;
    return is_tracker || allow_list_has_channel_key(&loop->watch->list, curve) ? PROCESS_LISTED
                                                                               : PROCESS_STRANGER;
}

/* Disconnects idle guests. There is no limit per IP address, because many members may share one. */
void admission_disconnect_idle(struct tracker_loop *loop, int64_t now_ms) {
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        struct tracker_guest *guest = &loop->guests->rows[i];
        if (guest->is_used && now_ms - guest->last_active_ms >= (int64_t)loop->options.idle_ms &&
            member_table_find_by_channel_key(loop->members, guest->curve) == MEMBER_NONE) {
            guest_record_activity(guest, now_ms);
            messenger_disconnect_peer(loop->messenger, guest->curve);
        }
    }
}

/* Notifies the state machine, which handles a removed member like one that disconnected. */
static void report_disconnect(struct tracker_loop *loop, struct identity id) {
    const struct event event = {.kind = EVENT_CLOSED, .peer = id};
    machine_driver_step(loop, &event);
}

void guest_on_connect(struct tracker_loop *loop, const struct messenger_event *event) {
    struct tracker_guest *guest = guest_find_or_add(loop->guests, event->curve, tracker_now_ms());
    if (guest != NULL) {
        guest_set_ip(guest, event->address);
    }
}

void guest_on_disconnect(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]) {
    struct tracker_guest *guest = guest_find(loop->guests, curve);
    if (guest != NULL) {
        guest_remove(guest);
    }
    const int row = member_table_find_by_channel_key(loop->members, curve);
    if (row != MEMBER_NONE) {
        log_line(LOG_INFO, "%s disconnected", loop->members->rows[row].name);
        report_disconnect(loop, member_identity(&loop->members->rows[row]));
    }
}

static void remove_member(struct tracker_loop *loop, int row) {
    const struct identity id = member_identity(&loop->members->rows[row]);
    member_table_remove(loop->members, row);
    member_table_mark_changed(loop->members);
    messenger_reclassify_guests(loop->messenger);
    report_disconnect(loop, id);
}

static bool has_seat(const struct tracker_loop *loop, const struct admitted_member *member) {
    const struct entry *open = &loop->driver->newest_entry;
    for (uint32_t seat = 0; open->kind == ENTRY_OPEN && seat < open->seat_count; seat++) {
        if (memcmp(open->seats[seat].id.bytes, member->keys.sign, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_unresponsive(const struct tracker_loop *loop, const struct admitted_member *member) {
    const int64_t silent_ms = tracker_now_ms() - member->last_received_ms;
    return silent_ms >= UNRESPONSIVE_SILENCES * (int64_t)loop->timing.silence_ms;
}

/* If the swarm is full, removes unresponsive members that have no seat in the open round, until one
 * more can join. Returns whether one can. */
static bool evict_unresponsive(struct tracker_loop *loop) {
    struct member_table *members = loop->members;
    for (uint32_t row = 0; members->count >= loop->options.members_max && row < members->count;
         row++) {
        const struct admitted_member *member = &members->rows[row];
        if (has_seat(loop, member) || !is_unresponsive(loop, member)) {
            continue;
        }
        if (guest_find(loop->guests, member->keys.curve) != NULL) {
            log_line(LOG_INFO, "%s does not respond: its slot is free again", member->name);
            messenger_disconnect_peer(loop->messenger, member->keys.curve);
        }
        remove_member(loop, (int)row);
    }
    return members->count < loop->options.members_max;
}

/* Whether a member with these keys is a guest of an open swarm. */
static bool is_guest_member(const struct tracker_loop *loop, const struct public_keys *keys) {
    const struct roster_epoch *epoch = &loop->watch->epoch;
    return epoch->is_open == 1 && !roster_epoch_has_key(epoch, keys->sign);
}

/* Frees the slot of a guest for a voter, because guests take all slots that voters leave free.
 * Prefers a guest without a seat in the open round. */
static bool evict_guest(struct tracker_loop *loop, const struct public_keys *newcomer) {
    const struct member_table *members = loop->members;
    int found = MEMBER_NONE;
    for (uint32_t row = 0; row < members->count && !is_guest_member(loop, newcomer); row++) {
        const struct admitted_member *member = &members->rows[row];
        if (is_guest_member(loop, &member->keys) &&
            (found == MEMBER_NONE || !has_seat(loop, member))) {
            found = (int)row;
        }
    }
    if (found == MEMBER_NONE) {
        return false;
    }
    const struct public_keys evicted = members->rows[found].keys;
    log_line(LOG_INFO, "the guest %s is disconnected: a voter needs its slot",
             members->rows[found].name);
    remove_member(loop, found);
    messenger_disconnect_peer(loop->messenger, evicted.curve);
    return true;
}

void guest_reject(struct tracker_loop *loop, struct tracker_guest *guest, const char *reason) {
    uint8_t payload[WIRE_DOCUMENT_OFFSET + WIRE_REJECT_REASON_BYTES];
    const size_t length = strnlen(reason, WIRE_REJECT_REASON_BYTES - 1);
    memcpy(payload + WIRE_DOCUMENT_OFFSET, reason, length);
    const size_t count = wire_write_document(WIRE_REJECTED, length, payload);
    guest_set_rejected(guest,
                       tracker_loop_send_payload(loop, guest, WIRE_REJECTED, 0, payload, count));
}

bool stranger_log_record(struct stranger_log *log, const struct public_keys *keys, int64_t now_ms) {
    const struct hash key = hash_of(keys, sizeof *keys);
    for (uint32_t i = 0; i < log->known_count; i++) {
        if (hash_equal(&log->known[i], &key)) {
            return false;
        }
    }
    const bool is_remembered = log->known_count < STRANGERS_KNOWN_MAX;
    if (is_remembered) {
        log->known[log->known_count++] = key;
        return true;
    }
    const bool is_due = now_ms >= log->next_ms;
    log->next_ms = is_due ? now_ms + STRANGER_LOG_MS : log->next_ms;
    log->skipped += !is_due;
    return is_due;
}

void admission_log_strangers(struct tracker_loop *loop, int64_t now_ms) {
    struct stranger_log *log = &loop->stranger_log;
    if (log->skipped > 0 && now_ms >= log->next_ms) {
        log_line(LOG_INFO,
                 "%u more connection%s with keys that are not on the allow-list tried to join or "
                 "query within a minute; `skep status` lists their keys",
                 log->skipped, log->skipped == 1 ? "" : "s");
        log->skipped = 0;
        log->next_ms = now_ms + STRANGER_LOG_MS;
    }
}

void guest_reject_stranger(struct tracker_loop *loop, struct tracker_guest *guest,
                           const struct public_keys *keys, const char *name) {
    char key[KEYS_TEXT_BYTES];
    const char *path = loop->options.allow_list_path;
    const char *flag = name[0] != '\0' ? " --name " : "";
    public_keys_write(keys, key);
    if (!guest->was_rejected && stranger_log_record(&loop->stranger_log, keys, tracker_now_ms())) {
        log_line(
            LOG_INFO,
            "%s (%s) tried to %s, but its key is not on the allow-list; to add it: skep roster "
            "add %s%s%s --roster %s",
            name[0] != '\0' ? name : "a process without a name", guest->ip,
            guest->has_introduced ? "join" : "query", key, flag, name, path);
    }
    /* a reason that does not show the path of the allow-list */
    guest_reject(loop, guest, WIRE_NOT_LISTED);
}

/* Whether the host of an address is the IP address that a guest connects from. */
static bool is_seen_address(const char *ip, const char *address) {
    union numeric_address advertised;
    struct in_addr v4;
    struct in6_addr v6;
    if (numeric_address_parse(address, &advertised) == 0) {
        return false;
    }
    if (advertised.any.sa_family == AF_INET) {
        return inet_pton(AF_INET, ip, &v4) == 1 &&
               memcmp(&v4, &advertised.v4.sin_addr, sizeof v4) == 0;
    }
    return inet_pton(AF_INET6, ip, &v6) == 1 &&
           memcmp(&v6, &advertised.v6.sin6_addr, sizeof v6) == 0;
}

void guest_complete_address(const struct tracker_guest *guest, const char *advertised,
                            char address[static MESSAGE_ADDRESS_BYTES]) {
    static const char HOSTLESS[] = "tcp://:";
    struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
    if (strncmp(advertised, HOSTLESS, sizeof HOSTLESS - 1) != 0) {
        text_add(&text, "%s", advertised);
    } else if (guest->ip[0] != '\0') {
        bool is_v6 = strchr(guest->ip, ':') != NULL && guest->ip[0] != '[';
        text_add(&text, "tcp://%s%s%s:%s", is_v6 ? "[" : "", guest->ip, is_v6 ? "]" : "",
                 advertised + sizeof HOSTLESS - 1);
    }
    if (text.truncated || (text.length > 0 && !is_seen_address(guest->ip, address))) {
        address[0] = '\0';
    }
}

/* Sets the name shown for a member: the name on the allow-list, else the name in its
 * introduction, else the first digits of its identity. */
static void set_display_name(const struct tracker_loop *loop,
                             const struct wire_introduction *introduction,
                             struct admitted_member *member) {
    const struct allow_list_row *row = allow_list_find(&loop->watch->list, &introduction->keys);
    const char *name = row != NULL && row->name[0] != '\0' ? row->name : introduction->name;
    char digits[2 * KEY_PREFIX_BYTES + 1];
    struct text text = text_over(digits, sizeof digits);
    if (name[0] == '\0') {
        hex_add(&text, introduction->keys.sign, KEY_PREFIX_BYTES);
        name = digits;
    }
    member_set_name(member, name);
}

static void reject_replaced_start(struct tracker_loop *loop, struct tracker_guest *guest,
                                  const struct admitted_member *member) {
    guest_withdraw_introduction(guest);
    log_line(LOG_INFO,
             "an older process of %s reconnected after a newer one had joined; asking the older "
             "one to exit",
             member->name);
    (void)tracker_loop_send_payload(loop, guest, WIRE_REPLACED, 0, NULL, 0);
}

static void log_admitted(const struct tracker_guest *guest, const struct admitted_member *member) {
    const char *advertised = guest->introduction.address;
    if (member->address[0] == '\0' && advertised[0] != '\0') {
        log_line(LOG_WARNING,
                 "%s is admitted, but no member will connect to it: it advertises %s and connects "
                 "from %s",
                 member->name, advertised, guest->ip);
        return;
    }
    log_line(LOG_INFO, "%s is admitted%s%s", member->name,
             member->address[0] != '\0' ? "; its advertised address is " : "", member->address);
}

static void admit_guest(struct tracker_loop *loop, const struct tracker_guest *guest) {
    const struct wire_introduction *introduction = &guest->introduction;
    char address[MESSAGE_ADDRESS_BYTES] = "";
    const uint32_t count = loop->members->count;
    struct admitted_member *member = member_table_add(loop->members, &introduction->keys);
    const bool is_new = loop->members->count > count;
    guest_complete_address(guest, introduction->address, address);
    set_display_name(loop, introduction, member);
    if (member_record_start(member, introduction->start_id)) {
        log_line(LOG_INFO, "%s has restarted", member->name);
    }
    member_record_received(member, tracker_now_ms());
    const bool has_moved = strcmp(member->address, address) != 0;
    if (has_moved) {
        member_set_address(member, address);
    }
    if (is_new || has_moved) {
        log_admitted(guest, member);
        member_table_mark_changed(loop->members);
        messenger_reclassify_guests(loop->messenger);
    }
}

/* Admits a guest on its newest introduction, or sends it the reason for the rejection. Two
 * processes with the same identity would end each other's connections in turn, so only the one that
 * started last is admitted, and the other is asked to exit. */
static void review_introduction(struct tracker_loop *loop, struct tracker_guest *guest) {
    const struct wire_introduction *introduction = &guest->introduction;
    const struct member_table *members = loop->members;
    struct identity id;
    memcpy(id.bytes, introduction->keys.sign, KEY_BYTES);
    const int row = member_table_find_by_channel_key(members, guest->curve);
    const int same = member_table_find_by_identity(members, &id);
    if (!allow_list_watch_permits(loop->watch, &introduction->keys)) {
        guest_reject_stranger(loop, guest, &introduction->keys, introduction->name);
    } else if (row != same) {
        guest_reject(
            loop, guest,
            "a member with the same signing key but a different connection key has already joined");
    } else if (row != MEMBER_NONE &&
               member_was_replaced(&members->rows[row], introduction->start_id)) {
        reject_replaced_start(loop, guest, &members->rows[row]);
    } else if (row == MEMBER_NONE && !evict_unresponsive(loop) &&
               !evict_guest(loop, &introduction->keys)) {
        guest_reject(loop, guest, "the swarm is full: it already has swarm.members_max members");
    } else if (row == MEMBER_NONE && is_guest_member(loop, &introduction->keys) &&
               !serving_permit_guest(&loop->serving_buckets, tracker_now_ms())) {
        guest_reject(loop, guest,
                     "too many new guests have joined: the swarm admits 32 an hour; keep this "
                     "process running, or ask the operator to add its key to the allow-list");
    } else {
        guest_set_rejected(guest, false);
        admit_guest(loop, guest);
    }
}

void guest_on_introduction(struct tracker_loop *loop, struct tracker_guest *guest,
                           const uint8_t *payload, size_t count) {
    struct wire_introduction introduction;
    if (wire_read_introduction(payload, count, &introduction) != NULL ||
        memcmp(introduction.keys.curve, guest->curve, KEY_BYTES) != 0 ||
        !wire_introduction_is_signed(&introduction)) {
        guest_add_strike(guest);
        return;
    }
    if (introduction.version != SWARM_PROTOCOL_VERSION) {
        guest_reject(loop, guest, "its protocol version differs from the tracker's");
    } else if (!hash_equal(&introduction.manifest, &loop->options.manifest_hash)) {
        guest_reject(loop, guest, "its manifest differs from the tracker's: fetch it again");
    } else {
        guest_store_introduction(guest, &introduction, tracker_now_ms());
        review_introduction(loop, guest);
    }
}

void admission_review_all(struct tracker_loop *loop) {
    for (uint32_t row = loop->members->count; row-- > 0;) {
        const struct admitted_member *member = &loop->members->rows[row];
        if (!allow_list_watch_permits(loop->watch, &member->keys)) {
            log_line(LOG_INFO, "%s is no longer on the allow-list", member->name);
            remove_member(loop, (int)row);
        }
    }
    for (uint32_t i = 0; i < loop->guests->capacity; i++) {
        struct tracker_guest *guest = &loop->guests->rows[i];
        if (guest->is_used && guest->has_introduced) {
            review_introduction(loop, guest);
        }
    }
}
