/* tracker_host_admit: who is let in: introductions against the roster's file, what everybody is
 * told of those who were, and whether they can be reached. */
#include "runtime/swarm/tracker/tracker_loop_state.h"

#include "base/log.h"
#include "base/text.h"
#include "transport/identity/host_number.h"

#include <string.h>

static const char ANNOUNCED[] = "announced";

enum { NAMELESS_DIGITS = 12 };

struct tracker_guest *guest_find(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]) {
    struct tracker_guest *free = NULL;
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        struct tracker_guest *peer = &loop->peers[i];
        if (peer->is_used && memcmp(peer->curve, curve, KEY_BYTES) == 0) {
            return peer;
        }
        free = free == NULL && !peer->is_used ? peer : free;
    }
    if (free != NULL) {
        memset(free, 0, sizeof *free);
        free->is_used = true;
        memcpy(free->curve, curve, KEY_BYTES);
        free->heard_ms = tracker_now_ms();
        free->stream.current = -1;
    }
    return free;
}

uint32_t guest_class_of(const void *context, const uint8_t curve[static KEY_BYTES]) {
    const struct tracker_loop *loop = context;
    if (address_book_find_curve(&loop->known, curve) != BOOK_NONE) {
        return GUEST_MEMBER;
    }
    const bool is_own = memcmp(curve, loop->options.keys->public_keys.curve, KEY_BYTES) == 0;
    return is_own || allow_list_has_curve(&loop->roster, curve) ? GUEST_LISTED : GUEST_STRANGER;
}

/* Who is no member and says nothing has no use for its place. A swarm's own addresses are no bound:
 * many members may well stand behind one. */
static void end_idle(struct tracker_loop *loop, int64_t now_ms) {
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        struct tracker_guest *peer = &loop->peers[i];
        if (peer->is_used && now_ms - peer->heard_ms >= (int64_t)loop->options.idle_ms &&
            address_book_find_curve(&loop->known, peer->curve) == BOOK_NONE) {
            peer->heard_ms = now_ms;
            messenger_disconnect(loop->messenger, peer->curve);
        }
    }
}

void guest_opened(struct tracker_loop *loop, const struct messenger_event *event) {
    struct tracker_guest *peer = guest_find(loop, event->curve);
    if (peer != NULL) {
        memcpy(peer->seen_ip, event->address, sizeof peer->seen_ip);
    }
}

void guest_closed(struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        if (loop->peers[i].is_used && memcmp(loop->peers[i].curve, curve, KEY_BYTES) == 0) {
            loop->peers[i].is_used = false;
        }
    }
    int row = address_book_find_curve(&loop->known, curve);
    if (row != BOOK_NONE) {
        struct event event = {.kind = EVENT_CLOSED};
        memcpy(event.peer.bytes, loop->known.rows[row].keys.sign, KEY_BYTES);
        log_line(LOG_INFO, "%s is gone", loop->known.rows[row].name);
        tracker_loop_step(loop, &event);
    }
}

static bool is_connected(const struct tracker_loop *loop, const uint8_t curve[static KEY_BYTES]) {
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        if (loop->peers[i].is_used && memcmp(loop->peers[i].curve, curve, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

/* Anything that everybody is told has changed. */
static void change_known(struct tracker_loop *loop) {
    loop->known.version++;
    loop->known_is_durable = false;
    messenger_reclassify(loop->messenger);
}

static void forget_row(struct tracker_loop *loop, int row) {
    connect_probe_end(&loop->members[row].reach);
    address_book_remove(&loop->known, row);
    memmove(&loop->members[row], &loop->members[row + 1],
            (loop->known.count - (uint32_t)row) * sizeof loop->members[0]);
    memset(&loop->members[loop->known.count], 0, sizeof loop->members[0]);
    loop->members[loop->known.count].reach.fd = -1;
    change_known(loop);
}

static bool has_seat(const struct tracker_loop *loop, const struct book_entry *member) {
    const struct entry *open = &loop->open;
    for (uint32_t seat = 0; open->kind == ENTRY_OPEN && seat < open->seat_count; seat++) {
        if (memcmp(open->seats[seat].id.bytes, member->keys.sign, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

/* The machine hears what it hears of one that goes by itself. */
static void send_off(struct tracker_loop *loop, int row) {
    struct event event = {.kind = EVENT_CLOSED};
    memcpy(event.peer.bytes, loop->known.rows[row].keys.sign, KEY_BYTES);
    forget_row(loop, row);
    tracker_loop_step(loop, &event);
}

/* Whether nothing was heard of a member for so long that it hangs, or will not come back soon. */
static bool is_hung(const struct tracker_loop *loop, uint32_t row) {
    const int64_t silent_ms = tracker_now_ms() - loop->members[row].heard_ms;
    return silent_ms >= UNRESPONSIVE_SILENCES * (int64_t)loop->timing.silence_ms;
}

/* Room for one more: one without a part in the round of which nothing is heard gives its place up.
 */
static bool make_room(struct tracker_loop *loop) {
    for (uint32_t row = 0;
         loop->known.count >= loop->options.members_max && row < loop->known.count; row++) {
        const struct book_entry member = loop->known.rows[row];
        if (has_seat(loop, &member) || !is_hung(loop, row)) {
            continue;
        }
        if (is_connected(loop, member.keys.curve)) {
            log_line(LOG_INFO, "%s hangs, and gives its place up", member.name);
            messenger_disconnect(loop->messenger, member.keys.curve);
        }
        send_off(loop, (int)row);
    }
    return loop->known.count < loop->options.members_max;
}

void guest_reject(struct tracker_loop *loop, struct tracker_guest *peer, const char *reason) {
    peer->was_refused = tracker_loop_send(loop, peer, WIRE_REFUSED, 0, reason,
                                          strnlen(reason, WIRE_REASON_BYTES - 1));
}

void guest_reject_stranger(struct tracker_loop *loop, struct tracker_guest *peer,
                           const struct public_keys *keys, const char *name) {
    char reason[WIRE_REASON_BYTES];
    char key[KEYS_TEXT_BYTES];
    struct text text = text_over(reason, sizeof reason);
    public_keys_write(keys, key);
    text_add(&text, "its key is not on the roster: `skep roster add %s%s%s --roster %s`", key,
             name[0] != '\0' ? " --name " : "", name, loop->options.roster_path);
    if (!peer->was_refused) {
        log_line(LOG_INFO, "%s (%s) wants to %s: skep roster add %s%s%s --roster %s",
                 name[0] != '\0' ? name : "somebody", peer->seen_ip,
                 peer->has_introduced ? "join" : "look", key, name[0] != '\0' ? " --name " : "",
                 name, loop->options.roster_path);
    }
    guest_reject(loop, peer, reason);
}

/* The address that others can use: where it left its host out, the one it came from. */
static void complete_address(const struct tracker_guest *peer,
                             char address[MESSAGE_ADDRESS_BYTES]) {
    static const char HOSTLESS[] = "tcp://:";
    const char *said = peer->introduction.address;
    struct text text = text_over(address, MESSAGE_ADDRESS_BYTES);
    if (strncmp(said, HOSTLESS, sizeof HOSTLESS - 1) != 0) {
        text_add(&text, "%s", said);
    } else if (peer->seen_ip[0] != '\0') {
        bool is_v6 = strchr(peer->seen_ip, ':') != NULL && peer->seen_ip[0] != '[';
        text_add(&text, "tcp://%s%s%s:%s", is_v6 ? "[" : "", peer->seen_ip, is_v6 ? "]" : "",
                 said + sizeof HOSTLESS - 1);
    }
    union numeric_address number;
    if (text.cut || (text.length > 0 && numeric_address_parse(address, &number) == 0)) {
        address[0] = '\0';
    }
}

/* What people call it: its name on the roster, else its own, else the head of its identity. */
static void name_member(const struct tracker_loop *loop, const struct wire_introduction *who,
                        struct book_entry *member) {
    const struct allow_list_row *row = allow_list_find(&loop->roster, &who->keys);
    const char *name = row != NULL && row->name[0] != '\0' ? row->name : who->name;
    struct hash id;
    char digits[HASH_HEX_BYTES];
    struct text text = text_over(member->name, sizeof member->name);
    memcpy(id.bytes, who->keys.sign, KEY_BYTES);
    if (name[0] != '\0') {
        text_add(&text, "%s", name);
    } else {
        text_add(&text, "%.*s", NAMELESS_DIGITS, hash_hex(&id, digits));
    }
}

/* Whether a later start of the same identity has come since. */
static bool was_replaced(const struct admitted_member *seen, uint64_t start) {
    bool is_older = false;
    for (uint32_t i = 1; i < seen->start_count; i++) {
        is_older |= seen->starts[i] == start;
    }
    return is_older && seen->starts[0] != start;
}

/* Two processes with one identity end each other's connections: the one that started last is the
 * member, and the other one is told to end. */
static void note_start(struct admitted_member *seen, const char *name, uint64_t start) {
    if (seen->start_count > 0 && seen->starts[0] == start) {
        return;
    }
    if (seen->start_count > 0) {
        log_line(LOG_INFO, "%s has started anew", name);
    }
    memmove(&seen->starts[1], &seen->starts[0], sizeof seen->starts - sizeof seen->starts[0]);
    seen->starts[0] = start;
    seen->start_count += seen->start_count < HOST_STARTS_MAX;
}

static void tell_replaced(struct tracker_loop *loop, struct tracker_guest *peer,
                          const struct book_entry *member) {
    peer->has_introduced = false;
    log_line(LOG_INFO, "an earlier process of %s came back, and is told to end", member->name);
    (void)tracker_loop_send(loop, peer, WIRE_REPLACED, 0, NULL, 0);
}

static void admit(struct tracker_loop *loop, const struct tracker_guest *peer) {
    const struct wire_introduction *who = &peer->introduction;
    char address[MESSAGE_ADDRESS_BYTES] = "";
    uint32_t count = loop->known.count;
    struct book_entry *member = address_book_add(&loop->known, &who->keys);
    complete_address(peer, address);
    bool is_new = loop->known.count > count;
    bool has_moved = strcmp(member->address, address) != 0;
    name_member(loop, who, member);
    struct admitted_member *seen = &loop->members[member - loop->known.rows];
    note_start(seen, member->name, who->start);
    seen->heard_ms = tracker_now_ms();
    if (has_moved) {
        memcpy(member->address, address, sizeof address);
        member->is_reached = 0;
        connect_probe_end(&seen->reach);
        seen->reach_ms = 0;
    }
    if (is_new || has_moved) {
        log_line(LOG_INFO, "%s is let in%s%s", member->name,
                 address[0] != '\0' ? ", and says it listens at " : "", address);
        change_known(loop);
    }
}

/* Lets a process in that has introduced itself, or tells it why not. */
static void judge(struct tracker_loop *loop, struct tracker_guest *peer) {
    const struct wire_introduction *who = &peer->introduction;
    struct identity id;
    memcpy(id.bytes, who->keys.sign, KEY_BYTES);
    int row = address_book_find_curve(&loop->known, peer->curve);
    int same = address_book_find_identity(&loop->known, &id);
    if (!allow_list_permits(&loop->roster, &who->keys)) {
        guest_reject_stranger(loop, peer, &who->keys, who->name);
    } else if (row != same) {
        guest_reject(loop, peer, "another process of this identity has another channel key");
    } else if (row != BOOK_NONE && was_replaced(&loop->members[row], who->start)) {
        tell_replaced(loop, peer, &loop->known.rows[row]);
    } else if (row == BOOK_NONE && !make_room(loop)) {
        guest_reject(loop, peer, "the swarm has as many members as its members_max lets in");
    } else {
        peer->was_refused = false;
        admit(loop, peer);
    }
}

void guest_introduced(struct tracker_loop *loop, struct tracker_guest *peer, const uint8_t *payload,
                      size_t count) {
    struct wire_introduction said;
    const char *wrong = wire_read_introduction(payload, count, &said);
    if (wrong != NULL || memcmp(said.keys.curve, peer->curve, KEY_BYTES) != 0 ||
        !wire_introduction_verified(&said)) {
        peer->strikes++;
        return;
    }
    if (said.version != SWARM_PROTOCOL) {
        guest_reject(loop, peer, "it speaks another version of the protocol than the tracker");
    } else if (!hash_equal(&said.manifest, &loop->options.manifest_hash)) {
        guest_reject(loop, peer, "it goes by another manifest than the tracker: fetch it again");
    } else {
        peer->introduction = said;
        peer->heard_ms = tracker_now_ms();
        peer->has_introduced = true;
        peer->announced = 0;
        judge(loop, peer);
    }
}

void admission_review_all(struct tracker_loop *loop) {
    for (uint32_t row = loop->known.count; row-- > 0;) {
        struct book_entry member = loop->known.rows[row];
        if (allow_list_permits(&loop->roster, &member.keys)) {
            continue;
        }
        log_line(LOG_INFO, "%s is no longer on the roster", member.name);
        send_off(loop, (int)row);
    }
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        if (loop->peers[i].is_used && loop->peers[i].has_introduced) {
            judge(loop, &loop->peers[i]);
        }
    }
}

static void read_roster(struct tracker_loop *loop) {
    struct fault fault;
    const char *path = loop->options.roster_path;
    const bool was_lost = loop->allow_list_is_missing;
    loop->allow_list_is_missing = allow_list_is_missing(path, &loop->roster);
    if (loop->allow_list_is_missing && !was_lost) {
        log_line(LOG_WARNING, "roster %s: is not there; it stays as it was until one is", path);
    }
    if (loop->allow_list_is_missing || !allow_list_is_stale(path, &loop->roster)) {
        return;
    }
    if (allow_list_read(path, &loop->roster, &fault) != OK) {
        log_line(LOG_WARNING, "%s: %s; the roster stays as it was", fault.place, fault.reason);
        return;
    }
    log_line(LOG_INFO, "roster %s: %u keys%s", path, loop->roster.count,
             loop->roster.open ? ", open to everybody" : "");
    messenger_reclassify(loop->messenger);
    admission_review_all(loop);
}

static void set_reached(struct tracker_loop *loop, uint32_t row, uint32_t is_reached) {
    struct book_entry *member = &loop->known.rows[row];
    if (member->is_reached != is_reached) {
        member->is_reached = is_reached;
        log_line(LOG_INFO, "%s %s at %s", member->name,
                 is_reached ? "is reached" : "cannot be reached", member->address);
        change_known(loop);
    }
}

static void reach_member(struct tracker_loop *loop, uint32_t row, int64_t now_ms) {
    struct admitted_member *seen = &loop->members[row];
    const struct book_entry *member = &loop->known.rows[row];
    if (seen->reach.fd >= 0) {
        enum connect_probe_state state = connect_probe_poll(&seen->reach);
        if (state == CONNECT_PROBE_PENDING && now_ms - seen->reach_ms >= PROBE_TIMEOUT_MS) {
            connect_probe_end(&seen->reach);
            state = CONNECT_PROBE_FAILED;
        }
        if (state != CONNECT_PROBE_PENDING) {
            set_reached(loop, row, state == CONNECT_PROBE_OK);
        }
        return;
    }
    bool is_due = seen->reach_ms == 0 || now_ms - seen->reach_ms >= PROBE_RETRY_MS;
    if (member->address[0] != '\0' && !member->is_reached && is_due &&
        is_connected(loop, member->keys.curve)) {
        seen->reach_ms = now_ms;
        if (!connect_probe_start(member->address, &seen->reach)) {
            log_line(LOG_WARNING, "%s: no socket to try %s with", member->name, member->address);
        }
    }
}

static void keep_known(struct tracker_loop *loop) {
    struct fault fault;
    const struct store_promise promise = {ANNOUNCED, loop->scratch,
                                          address_book_write(&loop->known, loop->scratch)};
    const struct store_write write = {
        .incarnation = loop->durable.incarnation, .promises = &promise, .promise_count = 1};
    crash_point(loop, CRASH_BEFORE, PLACE_WRITE_KNOWN);
    enum write_outcome written = ledger_store_write(&loop->durable.store, &write, &fault);
    loop->known_is_durable = written == WRITE_OK;
    if (written == WRITE_FENCED) {
        loop->is_fenced = true;
        loop->fault = fault;
    }
    crash_point(loop, CRASH_AFTER, PLACE_WRITE_KNOWN);
}

static void announce(struct tracker_loop *loop) {
    struct wire_address_book roster;
    size_t count = 0;
    for (uint32_t i = 0; i < loop->peers_max; i++) {
        struct tracker_guest *peer = &loop->peers[i];
        if (!peer->is_used || !peer->has_introduced || peer->announced == loop->known.version ||
            address_book_find_curve(&loop->known, peer->curve) == BOOK_NONE) {
            continue;
        }
        if (count == 0) {
            address_book_announce(&loop->known, &loop->timing, &roster);
            count = wire_write_address_book(&roster, loop->scratch);
        }
        crash_point(loop, CRASH_BEFORE, PLACE_SEND_ROSTER);
        if (tracker_loop_send(loop, peer, WIRE_ADDRESS_BOOK, 0, loop->scratch, count)) {
            peer->announced = loop->known.version;
        }
        crash_point(loop, CRASH_AFTER, PLACE_SEND_ROSTER);
    }
}

void admission_run_due(struct tracker_loop *loop, int64_t now_ms) {
    if (now_ms >= loop->roster_ms) {
        loop->roster_ms = now_ms + ALLOW_LIST_POLL_MS;
        read_roster(loop);
    }
    end_idle(loop, now_ms);
    for (uint32_t row = 0; row < loop->known.count; row++) {
        reach_member(loop, row, now_ms);
    }
    if (!loop->known_is_durable) {
        keep_known(loop);
    }
    if (loop->known_is_durable) {
        announce(loop);
    }
}

enum status address_book_restore(struct tracker_loop *loop, struct fault *fault) {
    size_t count = 0;
    enum status status = ledger_store_recall(&loop->durable.store, ANNOUNCED, loop->scratch,
                                             ADDRESS_BOOK_BYTES_MAX, &count, fault);
    if (status != OK || count == 0) {
        return status;
    }
    const char *wrong = address_book_read(loop->scratch, count, &loop->known);
    if (wrong != NULL) {
        return fault_set(fault, STATUS_INPUT, loop->options.store_path,
                         "put a copy of the store back", "what is kept as \"%s\" %s", ANNOUNCED,
                         wrong);
    }
    for (uint32_t row = 0; row < loop->known.count; row++) {
        loop->members[row].heard_ms = tracker_now_ms(); /* it has its time to come back */
    }
    return OK;
}
