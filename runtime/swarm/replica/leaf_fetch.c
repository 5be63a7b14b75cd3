#include "runtime/swarm/replica/leaf_fetch.h"

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "runtime/swarm/replica/replica_state.h"

#include <string.h>

enum {
    SHORT_ANSWER_TIMEOUT_S = 1,    /* initial timeout of a short answer */
    FIRST_LEAF_TIMEOUT_FACTOR = 8, /* timeout of a source's first leaf, in units of timeout_ns */
    LEAF_TIMEOUT_MIN_FACTOR = 2,   /* shortest timeout of a leaf, in units of timeout_ns */
    LEAF_TIMEOUT_FACTOR = 6,       /* timeout of a leaf, in units of the latest leaf's duration */
    /* backoff after a timeout, for each consecutive fault of the source */
    SLOW_BACKOFF_MS = 2000,
    /* backoff after the answer that a source does not have the root, for each consecutive fault */
    MISSING_BACKOFF_MS = 50,
    FAULTS_MAX = 8,            /* consecutive faults after which a backoff grows no longer */
    BAN_DURATION_MS = 3600000, /* ban after data that does not match its hash */
    OWN_LEAVES_MAX = 8,        /* maximum number of leaves read from a file by one call */
    /* maximum number of leaves replayed by one call, which takes about 10 ms */
    REPLAYED_LEAVES_MAX = 8,
};

static size_t versions_bytes(const struct replica_shape *shape) {
    return carve_padded_bytes(replica_leaf_count(&shape->slices) * sizeof(uint32_t));
}

size_t leaf_fetch_memory_bytes(const struct replica_shape *shape) {
    return versions_bytes(shape) + leaf_replay_memory_bytes(shape->slices.count);
}

void leaf_fetch_init(struct leaf_fetch *fetch, void *memory, struct replica *replica,
                     struct leaf_fetch_callbacks callbacks) {
    struct fault fault;
    size_t bytes = versions_bytes(&replica->shape);
    memset(fetch, 0, sizeof(*fetch));
    enum status status = pool_init(&fetch->pool, 1, &fault);
    ASSERT(status == OK); /* cannot fail, because a pool of one thread starts no thread */
    fetch->compute = (struct compute){.table = replica->compute->table, .pool = &fetch->pool};
    fetch->replica = replica;
    fetch->callbacks = callbacks;
    fetch->bytes = replica_state_bytes(&replica->shape.slices);
    fetch->leaf_count = replica_leaf_count(&replica->shape.slices);
    fetch->versions = memory;
    memset(fetch->versions, 0, bytes);
    leaf_replay_init(&fetch->replay, (char *)memory + bytes, replica,
                     (struct replay_callbacks){callbacks.context, callbacks.request_result});
    leaf_fetch_set_timeout(fetch, SHORT_ANSWER_TIMEOUT_S * NS_PER_SECOND);
}

void leaf_fetch_set_timeout(struct leaf_fetch *fetch, int64_t timeout_ns) {
    fetch->timeout_ns = timeout_ns;
    fetch->replay.timeout_ns = timeout_ns;
}

void leaf_fetch_set_file(struct leaf_fetch *fetch, const struct leaf_file *file) {
    ASSERT(!file->is_used);
    fetch->file = *file;
}

static void begin_hash_stage(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_STAGE_HASHES;
    fetch->hash_count = 0;
    fetch->has_hash_request = false;
}

/* Recounts the outdated leaves after the versions have changed. */
static void recount_outdated_leaves(struct leaf_fetch *fetch) {
    fetch->next_leaf = 0;
    fetch->missing_count = 0;
    fetch->outdated_count = 0;
    for (uint64_t leaf = 0; leaf < fetch->leaf_count; leaf++) {
        fetch->missing_count += fetch->versions[leaf] == 0;
        fetch->outdated_count += fetch->versions[leaf] != fetch->target_version;
    }
}

/* Marks leaves below `target_version` as missing, because they can no longer be replayed. */
static void drop_versions_below(struct leaf_fetch *fetch, uint32_t target_version) {
    for (uint64_t leaf = 0; leaf < fetch->leaf_count && target_version > 0; leaf++) {
        fetch->versions[leaf] = fetch->versions[leaf] < target_version ? 0 : fetch->versions[leaf];
    }
    fetch->replayed_leaves = 0;
    recount_outdated_leaves(fetch);
}

void leaf_fetch_begin(struct leaf_fetch *fetch, const struct hash *root) {
    leaf_fetch_end(fetch);
    fetch->root = *root;
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        fetch->sources[i] = (struct leaf_source){.is_connected = fetch->sources[i].is_connected};
    }
    leaf_replay_drop_steps(&fetch->replay);
    fetch->target_version = 1;
    fetch->received_bytes = 0;
    memset(fetch->versions, 0, fetch->leaf_count * sizeof(*fetch->versions));
    drop_versions_below(fetch, 0);
    begin_hash_stage(fetch);
    fetch->file.is_used = fetch->file.read_hashes != NULL;
    fetch->file.next_leaf = 0;
}

void leaf_fetch_follow_commit(struct leaf_fetch *fetch, const struct entry *commit,
                              uint64_t sources) {
    leaf_fetch_end(fetch);
    fetch->root = commit->root;
    uint32_t first_valid = leaf_replay_add_step(&fetch->replay, commit, sources,
                                                fetch->target_version, fetch->versions);
    fetch->target_version++;
    drop_versions_below(fetch, first_valid);
    begin_hash_stage(fetch);
    fetch->file.is_used = false; /* the file has only the state before the commit */
}

void leaf_fetch_end(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_STAGE_IDLE;
    leaf_replay_cancel_requests(&fetch->replay);
    memset(fetch->requests, 0, sizeof(fetch->requests));
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        fetch->sources[i].pending = 0;
    }
}

/* Marks the request to be sent again, to another source. */
static void retry_request(struct leaf_fetch *fetch, struct leaf_request *request) {
    ASSERT(request->state == REQUEST_SENT);
    fetch->sources[request->source].pending--;
    request->state = REQUEST_RETRY;
}

static void back_off_source(struct leaf_fetch *fetch, uint32_t index, int64_t backoff_ms,
                            int64_t now_ns) {
    struct leaf_source *source = &fetch->sources[index];
    source->backoff_until_ns = now_ns + backoff_ms * NS_PER_MS;
    for (uint32_t i = 0; i < LEAF_REQUESTS_MAX; i++) {
        if (fetch->requests[i].state == REQUEST_SENT && fetch->requests[i].source == index) {
            retry_request(fetch, &fetch->requests[i]);
        }
    }
    fetch->has_hash_request = fetch->has_hash_request && fetch->hash_source != index;
}

static void ban_source(struct leaf_fetch *fetch, uint32_t index, int64_t now_ns) {
    fetch->sources[index].banned_until_ns = now_ns + BAN_DURATION_MS * NS_PER_MS;
    back_off_source(fetch, index, 0, now_ns);
}

/* Counts a fault of the source, and backs off in proportion to its consecutive faults. */
static void penalise_source(struct leaf_fetch *fetch, uint32_t index, int64_t backoff_ms,
                            int64_t now_ns) {
    struct leaf_source *source = &fetch->sources[index];
    source->faults += source->faults < FAULTS_MAX;
    back_off_source(fetch, index, backoff_ms * (int64_t)source->faults, now_ns);
}

void leaf_fetch_set_source_connected(struct leaf_fetch *fetch, uint32_t source, bool is_connected) {
    ASSERT(source < LEAF_SOURCES_MAX);
    fetch->sources[source].is_connected = is_connected;
    leaf_replay_set_source_connected(&fetch->replay, source, is_connected);
    if (!is_connected) {
        back_off_source(fetch, source, 0, 0);
    }
}

/* Whether a leaf matches the target root. Valid once all hashes are present. */
static bool leaf_matches_target(const struct leaf_fetch *fetch, uint64_t leaf) {
    return hash_equal(&fetch->replica->leaves[leaf], &fetch->replica->voted_leaves[leaf]);
}

/* Sets the version of each leaf: target_version if the leaf matches its hash. A leaf that was
 * replayed to the target version but does not match its hash is set to missing. */
static void begin_leaf_stage(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_STAGE_LEAVES;
    replica_drop_voted_root(fetch->replica);
    for (uint64_t leaf = 0; leaf < fetch->leaf_count; leaf++) {
        if (leaf_matches_target(fetch, leaf)) {
            fetch->versions[leaf] = fetch->target_version;
        } else if (fetch->versions[leaf] == fetch->target_version) {
            fetch->versions[leaf] = 0;
        }
    }
    recount_outdated_leaves(fetch);
}

void leaf_fetch_on_hashes(struct leaf_fetch *fetch, uint32_t source, const struct hash *root,
                          uint64_t index, const uint8_t *hashes, size_t count, int64_t now_ns) {
    uint64_t count_of_hashes = count / HASH_BYTES;
    bool is_answer =
        fetch->has_hash_request && source == fetch->hash_source && index == fetch->hash_count;
    bool is_late_answer =
        index == 0 && fetch->hash_count == 0 && count_of_hashes == fetch->leaf_count;
    if (fetch->stage != LEAF_STAGE_HASHES || (!is_answer && !is_late_answer) ||
        !hash_equal(root, &fetch->root)) {
        return;
    }
    if (count == 0) {
        penalise_source(fetch, source, MISSING_BACKOFF_MS, now_ns);
        return;
    }
    if (count % HASH_BYTES != 0 || count_of_hashes > fetch->leaf_count - fetch->hash_count) {
        begin_hash_stage(fetch);
        ban_source(fetch, source, now_ns);
        return;
    }
    memcpy(&fetch->replica->voted_leaves[fetch->hash_count], hashes, count);
    fetch->hash_count += count_of_hashes;
    fetch->has_hash_request = false;
    if (fetch->hash_count < fetch->leaf_count) {
        return; /* the next step requests the remaining hashes from this source */
    }
    struct hash got = merkle_root_from_leaves(fetch->bytes, fetch->replica->voted_leaves);
    if (!hash_equal(&got, &fetch->root)) {
        begin_hash_stage(fetch);
        ban_source(fetch, source, now_ns);
        return;
    }
    begin_leaf_stage(fetch);
}

static struct leaf_request *find_request(struct leaf_fetch *fetch, uint64_t leaf) {
    for (uint32_t i = 0; i < LEAF_REQUESTS_MAX; i++) {
        if (fetch->requests[i].state != REQUEST_FREE && fetch->requests[i].leaf == leaf) {
            return &fetch->requests[i];
        }
    }
    return NULL;
}

static bool leaf_is_valid(const struct leaf_fetch *fetch, uint64_t index, const uint8_t *bytes,
                          size_t count) {
    if (count != merkle_leaf_bytes(fetch->bytes, index)) {
        return false;
    }
    struct hash hash = merkle_leaf_hash(bytes, count);
    return hash_equal(&hash, &fetch->replica->voted_leaves[index]);
}

static void accept_leaf(struct leaf_fetch *fetch, uint64_t index, const uint8_t *bytes) {
    replica_write_leaf(fetch->replica, index, bytes);
    replica_set_leaf_hash(fetch->replica, index, &fetch->replica->voted_leaves[index]);
    fetch->missing_count -= fetch->versions[index] == 0;
    fetch->outdated_count--;
    fetch->versions[index] = fetch->target_version;
}

/* A valid leaf that arrives after its timeout is used too, even if it has been requested from
 * another source since. */
void leaf_fetch_on_leaf(struct leaf_fetch *fetch, uint32_t source, uint64_t index,
                        const uint8_t *bytes, size_t count, int64_t now_ns) {
    struct leaf_request *request =
        fetch->stage == LEAF_STAGE_LEAVES ? find_request(fetch, index) : NULL;
    if (request == NULL) {
        return;
    }
    bool is_answer = request->state == REQUEST_SENT && request->source == source;
    if (count == 0 || !leaf_is_valid(fetch, index, bytes, count)) {
        if (count > 0) {
            ban_source(fetch, source, now_ns);
        } else if (is_answer) {
            penalise_source(fetch, source, MISSING_BACKOFF_MS, now_ns);
        }
        return;
    }
    accept_leaf(fetch, index, bytes);
    fetch->received_bytes += count;
    if (request->state == REQUEST_SENT) {
        fetch->sources[request->source].pending--;
    }
    if (is_answer) {
        fetch->sources[source].response_ns = now_ns - request->sent_ns;
        fetch->sources[source].faults = 0;
    }
    request->state = REQUEST_FREE;
}

/* Picks the next source in rotation. NULL: no source accepts a request now. */
static struct leaf_source *pick_source(struct leaf_fetch *fetch, uint32_t window, int64_t now_ns,
                                       uint32_t *index) {
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        uint32_t at = (fetch->next_source + i) % LEAF_SOURCES_MAX;
        struct leaf_source *source = &fetch->sources[at];
        bool is_resting = source->backoff_until_ns > now_ns || source->banned_until_ns > now_ns;
        if (source->is_connected && source->pending < window && !is_resting) {
            fetch->next_source = (at + 1) % LEAF_SOURCES_MAX;
            *index = at;
            return source;
        }
    }
    return NULL;
}

static void request_or_await_hashes(struct leaf_fetch *fetch, int64_t now_ns) {
    if (fetch->has_hash_request) {
        if (now_ns - fetch->hash_request_ns > fetch->timeout_ns) {
            uint32_t slow = fetch->hash_source;
            begin_hash_stage(fetch);
            penalise_source(fetch, slow, SLOW_BACKOFF_MS, now_ns);
        }
        return;
    }
    uint32_t index = fetch->hash_source;
    bool continues = fetch->hash_count > 0 && fetch->sources[index].is_connected;
    if (!continues) {
        fetch->hash_count = 0;
    }
    if (!continues && pick_source(fetch, LEAF_REQUESTS_PER_SOURCE, now_ns, &index) == NULL) {
        return;
    }
    fetch->has_hash_request = fetch->callbacks.request_hashes(fetch->callbacks.context, index,
                                                              &fetch->root, fetch->hash_count);
    fetch->hash_source = index;
    fetch->hash_request_ns = now_ns;
}

/* Returns the duration of the slowest source's latest leaf; 0: none has arrived. */
static int64_t slowest_leaf_ns(const struct leaf_fetch *fetch) {
    int64_t max_ns = 0;
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        int64_t response_ns = fetch->sources[i].response_ns;
        max_ns = response_ns > max_ns ? response_ns : max_ns;
    }
    return max_ns;
}

static int64_t leaf_timeout_ns(const struct leaf_fetch *fetch, uint32_t index) {
    int64_t response_ns = fetch->sources[index].response_ns;
    response_ns = response_ns > 0 ? response_ns : slowest_leaf_ns(fetch);
    int64_t min_ns = LEAF_TIMEOUT_MIN_FACTOR * fetch->timeout_ns;
    if (response_ns == 0) {
        return FIRST_LEAF_TIMEOUT_FACTOR * fetch->timeout_ns;
    }
    return LEAF_TIMEOUT_FACTOR * response_ns > min_ns ? LEAF_TIMEOUT_FACTOR * response_ns : min_ns;
}

static void time_out_requests(struct leaf_fetch *fetch, int64_t now_ns) {
    for (uint32_t i = 0; i < LEAF_REQUESTS_MAX; i++) {
        struct leaf_request *request = &fetch->requests[i];
        if (request->state == REQUEST_SENT &&
            now_ns - request->sent_ns > leaf_timeout_ns(fetch, request->source)) {
            penalise_source(fetch, request->source, SLOW_BACKOFF_MS, now_ns);
        }
    }
}

/* Returns the next request to send; retries have priority. NULL: none. */
static struct leaf_request *next_request(struct leaf_fetch *fetch) {
    struct leaf_request *free = NULL;
    for (uint32_t i = 0; i < LEAF_REQUESTS_MAX; i++) {
        if (fetch->requests[i].state == REQUEST_RETRY) {
            return &fetch->requests[i];
        }
        free = fetch->requests[i].state == REQUEST_FREE ? &fetch->requests[i] : free;
    }
    while (
        free != NULL && fetch->next_leaf < fetch->leaf_count &&
        (fetch->versions[fetch->next_leaf] > 0 || find_request(fetch, fetch->next_leaf) != NULL)) {
        fetch->next_leaf++;
    }
    if (free == NULL || fetch->next_leaf == fetch->leaf_count) {
        return NULL;
    }
    free->leaf = fetch->next_leaf++;
    free->state = REQUEST_RETRY;
    return free;
}

static void request_leaves(struct leaf_fetch *fetch, int64_t now_ns) {
    time_out_requests(fetch, now_ns);
    for (uint32_t sent = 0; sent < LEAF_REQUESTS_MAX; sent++) {
        uint32_t index;
        struct leaf_source *source = pick_source(fetch, LEAF_REQUESTS_PER_SOURCE, now_ns, &index);
        struct leaf_request *request = source != NULL ? next_request(fetch) : NULL;
        if (request == NULL || !fetch->callbacks.request_leaf(fetch->callbacks.context, index,
                                                              &fetch->root, request->leaf)) {
            return;
        }
        request->state = REQUEST_SENT;
        request->source = index;
        request->sent_ns = now_ns;
        source->pending++;
    }
}

/* Replays one round on a leaf. A leaf that is then at the target version but does not match its
 * hash was already damaged, so it is marked as missing. */
static void replay_leaf(struct leaf_fetch *fetch, uint64_t leaf, const struct replay_step *step) {
    replica_replay_leaf(&fetch->compute, fetch->replica, leaf, step->round, step->members);
    fetch->versions[leaf]++;
    if (fetch->stage == LEAF_STAGE_LEAVES && fetch->versions[leaf] == fetch->target_version &&
        !leaf_matches_target(fetch, leaf)) {
        fetch->versions[leaf] = 0;
    }
}

static void replay_some_leaves(struct leaf_fetch *fetch, int64_t now_ns) {
    uint32_t first_valid = leaf_replay_send_requests(&fetch->replay, now_ns);
    if (first_valid > 0) {
        drop_versions_below(fetch, first_valid);
    }
    const struct replay_step *step = leaf_replay_ready_step(&fetch->replay);
    for (uint32_t count = 0; step != NULL && count < REPLAYED_LEAVES_MAX; count++) {
        while (fetch->replayed_leaves < fetch->leaf_count &&
               fetch->versions[fetch->replayed_leaves] != step->from_version) {
            fetch->replayed_leaves++;
        }
        if (fetch->replayed_leaves == fetch->leaf_count) {
            leaf_replay_remove_step(&fetch->replay);
            drop_versions_below(fetch, 0);
            return;
        }
        replay_leaf(fetch, fetch->replayed_leaves, step);
    }
}

/* Reads the leaf hashes from this member's own file. Returns false if there is no file with this
 * root. */
static bool begin_reading_own_leaves(struct leaf_fetch *fetch) {
    struct hash *hashes = fetch->replica->voted_leaves;
    if (!fetch->file.read_hashes(fetch->file.context, &fetch->root, hashes)) {
        return false;
    }
    const struct hash root = merkle_root_from_leaves(fetch->bytes, hashes);
    if (!hash_equal(&root, &fetch->root)) {
        return false;
    }
    begin_leaf_stage(fetch);
    return true;
}

/* Reads some leaves from this member's own file. If one is damaged, all missing leaves are
 * requested from other members instead. */
static void read_some_own_leaves(struct leaf_fetch *fetch) {
    uint8_t *bytes = (uint8_t *)replica_scratch(fetch->replica, 0);
    for (uint32_t count = 0; count < OWN_LEAVES_MAX && fetch->missing_count > 0; count++) {
        while (fetch->file.next_leaf < fetch->leaf_count &&
               fetch->versions[fetch->file.next_leaf] > 0) {
            fetch->file.next_leaf++;
        }
        ASSERT(fetch->file.next_leaf < fetch->leaf_count);
        const size_t length =
            fetch->file.read_leaf(fetch->file.context, &fetch->root, fetch->file.next_leaf, bytes);
        if (!leaf_is_valid(fetch, fetch->file.next_leaf, bytes, length)) {
            fetch->file.is_used = false;
            return;
        }
        accept_leaf(fetch, fetch->file.next_leaf, bytes);
    }
}

enum leaf_stage leaf_fetch_step(struct leaf_fetch *fetch, int64_t now_ns) {
    if (fetch->stage == LEAF_STAGE_HASHES || fetch->stage == LEAF_STAGE_LEAVES) {
        replay_some_leaves(fetch, now_ns);
    }
    if (fetch->stage == LEAF_STAGE_HASHES && fetch->file.is_used) {
        fetch->file.is_used = begin_reading_own_leaves(fetch);
    }
    if (fetch->stage == LEAF_STAGE_HASHES) {
        request_or_await_hashes(fetch, now_ns);
    }
    if (fetch->stage == LEAF_STAGE_LEAVES && fetch->file.is_used) {
        read_some_own_leaves(fetch);
    }
    if (fetch->stage == LEAF_STAGE_LEAVES && fetch->missing_count > 0 && !fetch->file.is_used) {
        request_leaves(fetch, now_ns);
    }
    if (fetch->stage == LEAF_STAGE_LEAVES && fetch->outdated_count == 0) {
        leaf_replay_drop_steps(&fetch->replay);
        replica_set_root(fetch->replica, &fetch->root);
        fetch->stage = LEAF_STAGE_DONE;
    }
    return fetch->stage;
}

bool leaf_fetch_has_local_work(const struct leaf_fetch *fetch) {
    bool is_active = fetch->stage == LEAF_STAGE_HASHES || fetch->stage == LEAF_STAGE_LEAVES;
    return is_active && (fetch->file.is_used || leaf_replay_ready_step(&fetch->replay) != NULL);
}

/* Returns whether the caller must copy the bytes of this slice result into the replica. */
bool leaf_fetch_accept_slice_result(struct leaf_fetch *fetch, uint32_t source,
                                    const struct replay_request *result, int64_t now_ns) {
    bool is_active = fetch->stage == LEAF_STAGE_HASHES || fetch->stage == LEAF_STAGE_LEAVES;
    if (!is_active || !leaf_replay_accept_result(&fetch->replay, source, result, now_ns)) {
        return false;
    }
    fetch->received_bytes += slices_range(&fetch->replica->shape.slices, result->slice).bytes;
    return true;
}

/* Returns how many leaves must still be fetched or replayed. */
uint64_t leaf_fetch_outdated_count(const struct leaf_fetch *fetch) {
    return fetch->stage == LEAF_STAGE_HASHES
               ? fetch->leaf_count
               : (fetch->stage == LEAF_STAGE_LEAVES ? fetch->outdated_count : 0);
}
