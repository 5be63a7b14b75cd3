#include "runtime/swarm/replica/leaf_fetch.h"

#include "base/check.h"

#include <string.h>

static const int64_t MS = 1000000;
static const int64_t SECOND_NS = 1000000000;

enum {
    PATIENCE_S = 1,        /* until the host says what few bytes take */
    LEAF_FIRST_FACTOR = 8, /* times that, for the first leaf of all */
    LEAF_LEAST_FACTOR = 2,
    LEAF_WAIT_FACTOR = 6, /* times what a source's last one took, or the slowest one's */
    SLOW_REST_MS = 2000,  /* after a slow answer, times the number of faults */
    REFUSED_REST_MS = 50, /* the same: it is on its way to that root, or is at the next one */
    FAULTS_MAX = 8,
    WRONG_REST_MS = 3600000, /* who sends what does not have the name is not asked again */
    CARRIED_MAX = 8,         /* leaves brought forward by one step: some ten milliseconds */
};

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t places_bytes(const struct replica_shape *shape) {
    return aligned(replica_leaf_count(shape->slices.parameter_count) * sizeof(uint32_t));
}

size_t leaf_fetch_bytes(const struct replica_shape *shape) {
    return places_bytes(shape) + leaf_replay_bytes(shape->slices.count);
}

void leaf_fetch_init(struct leaf_fetch *fetch, void *memory, struct replica *replica,
                     struct leaf_fetch_callbacks way) {
    struct fault fault;
    size_t bytes = places_bytes(&replica->shape);
    memset(fetch, 0, sizeof(*fetch));
    enum status status = pool_init(&fetch->pool, 1, &fault);
    ASSERT(status == OK); /* it starts no thread */
    fetch->compute = (struct compute){.table = replica->compute->table, .pool = &fetch->pool};
    fetch->replica = replica;
    fetch->way = way;
    fetch->bytes = replica_state_bytes(replica->shape.slices.parameter_count);
    fetch->leaf_count = replica_leaf_count(replica->shape.slices.parameter_count);
    fetch->places = memory;
    memset(fetch->places, 0, bytes);
    leaf_replay_bind(&fetch->forward, (char *)memory + bytes, replica,
                     (struct replay_callbacks){way.context, way.ask_result});
    leaf_fetch_set_timeout(fetch, PATIENCE_S * SECOND_NS);
}

void leaf_fetch_set_timeout(struct leaf_fetch *fetch, int64_t patience_ns) {
    fetch->patience_ns = patience_ns;
    fetch->forward.patience_ns = patience_ns;
}

static void begin_names(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_HASHES;
    fetch->named = 0;
    fetch->has_namer = false;
}

/* Where the leaves stand has changed. */
static void count_leaves(struct leaf_fetch *fetch) {
    fetch->next = 0;
    fetch->missing = 0;
    fetch->behind = 0;
    for (uint64_t leaf = 0; leaf < fetch->leaf_count; leaf++) {
        fetch->missing += fetch->places[leaf] == 0;
        fetch->behind += fetch->places[leaf] != fetch->place;
    }
}

/* Leaves below a place cannot be brought forward any more: they come anew. */
static void lose_below(struct leaf_fetch *fetch, uint32_t place) {
    for (uint64_t leaf = 0; leaf < fetch->leaf_count && place > 0; leaf++) {
        fetch->places[leaf] = fetch->places[leaf] < place ? 0 : fetch->places[leaf];
    }
    fetch->carried = 0;
    count_leaves(fetch);
}

void leaf_fetch_begin(struct leaf_fetch *fetch, const struct hash *root) {
    leaf_fetch_end(fetch);
    fetch->root = *root;
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        fetch->sources[i] = (struct leaf_source){.is_there = fetch->sources[i].is_there};
    }
    leaf_replay_reset(&fetch->forward);
    fetch->place = 1;
    fetch->received = 0;
    memset(fetch->places, 0, fetch->leaf_count * sizeof(*fetch->places));
    lose_below(fetch, 0);
    begin_names(fetch);
}

void leaf_fetch_follow(struct leaf_fetch *fetch, const struct entry *commit, uint64_t sources) {
    leaf_fetch_end(fetch);
    fetch->root = commit->root;
    uint32_t lost = leaf_replay_add(&fetch->forward, commit, sources, fetch->place, fetch->places);
    fetch->place++;
    lose_below(fetch, lost);
    begin_names(fetch);
}

void leaf_fetch_end(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_IDLE;
    leaf_replay_stop(&fetch->forward);
    memset(fetch->asks, 0, sizeof(fetch->asks));
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        fetch->sources[i].asked = 0;
    }
}

/* The leaf of an ask is to come from another source. */
static void ask_again(struct leaf_fetch *fetch, struct leaf_request *ask) {
    ASSERT(ask->state == REQUEST_SENT);
    fetch->sources[ask->source].asked--;
    ask->state = REQUEST_RETRY;
}

static void rest(struct leaf_fetch *fetch, uint32_t index, int64_t rest_ms, int64_t now_ns) {
    struct leaf_source *source = &fetch->sources[index];
    source->rests_until_ns = now_ns + rest_ms * MS;
    for (uint32_t i = 0; i < LEAF_REQUESTS_MAX; i++) {
        if (fetch->asks[i].state == REQUEST_SENT && fetch->asks[i].source == index) {
            ask_again(fetch, &fetch->asks[i]);
        }
    }
    fetch->has_namer = fetch->has_namer && fetch->namer != index;
}

static void shun(struct leaf_fetch *fetch, uint32_t index, int64_t now_ns) {
    fetch->sources[index].shunned_until_ns = now_ns + WRONG_REST_MS * MS;
    rest(fetch, index, 0, now_ns);
}

static void blame(struct leaf_fetch *fetch, uint32_t index, int64_t rest_ms, int64_t now_ns) {
    struct leaf_source *source = &fetch->sources[index];
    source->faults += source->faults < FAULTS_MAX;
    rest(fetch, index, rest_ms * (int64_t)source->faults, now_ns);
}

void leaf_fetch_set_source(struct leaf_fetch *fetch, uint32_t source, bool is_there) {
    ASSERT(source < LEAF_SOURCES_MAX);
    fetch->sources[source].is_there = is_there;
    leaf_replay_set_source(&fetch->forward, source, is_there);
    if (!is_there) {
        rest(fetch, source, 0, 0);
    }
}

/* Whether a leaf has the name that it has at the root; all names are there. */
static bool is_named(const struct leaf_fetch *fetch, uint64_t leaf) {
    return hash_equal(&fetch->replica->leaves[leaf], &fetch->replica->voted[leaf]);
}

/* What stands at the root already shows by its name, and what seems to and does not. */
static void begin_leaves(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_LEAVES;
    fetch->replica->voted_round = 0;
    for (uint64_t leaf = 0; leaf < fetch->leaf_count; leaf++) {
        if (is_named(fetch, leaf)) {
            fetch->places[leaf] = fetch->place;
        } else if (fetch->places[leaf] == fetch->place) {
            fetch->places[leaf] = 0;
        }
    }
    count_leaves(fetch);
}

void leaf_fetch_on_hashes(struct leaf_fetch *fetch, uint32_t source, const struct hash *root,
                          uint64_t index, const uint8_t *names, size_t count, int64_t now_ns) {
    uint64_t name_count = count / HASH_BYTES;
    bool is_asked = fetch->has_namer && source == fetch->namer && index == fetch->named;
    bool is_late = index == 0 && fetch->named == 0 && name_count == fetch->leaf_count;
    if (fetch->stage != LEAF_HASHES || (!is_asked && !is_late) || !hash_equal(root, &fetch->root)) {
        return;
    }
    if (count == 0) {
        blame(fetch, source, REFUSED_REST_MS, now_ns);
        return;
    }
    if (count % HASH_BYTES != 0 || name_count > fetch->leaf_count - fetch->named) {
        begin_names(fetch);
        shun(fetch, source, now_ns);
        return;
    }
    memcpy(&fetch->replica->voted[fetch->named], names, count);
    fetch->named += name_count;
    fetch->has_namer = false;
    if (fetch->named < fetch->leaf_count) {
        return; /* the next step asks the same source on */
    }
    struct hash got = merkle_root_of(fetch->bytes, fetch->replica->voted);
    if (!hash_equal(&got, &fetch->root)) {
        begin_names(fetch);
        shun(fetch, source, now_ns);
        return;
    }
    begin_leaves(fetch);
}

static struct leaf_request *find_ask(struct leaf_fetch *fetch, uint64_t leaf) {
    for (uint32_t i = 0; i < LEAF_REQUESTS_MAX; i++) {
        if (fetch->asks[i].state != REQUEST_FREE && fetch->asks[i].leaf == leaf) {
            return &fetch->asks[i];
        }
    }
    return NULL;
}

static bool is_right(const struct leaf_fetch *fetch, uint64_t index, const uint8_t *bytes,
                     size_t count) {
    if (count != merkle_leaf_bytes(fetch->bytes, index)) {
        return false;
    }
    struct hash name = merkle_leaf(bytes, count);
    return hash_equal(&name, &fetch->replica->voted[index]);
}

/* Also one that comes late, when another source was asked already: its name is right. */
void leaf_fetch_on_leaf(struct leaf_fetch *fetch, uint32_t source, uint64_t index,
                        const uint8_t *bytes, size_t count, int64_t now_ns) {
    struct leaf_request *ask = fetch->stage == LEAF_LEAVES ? find_ask(fetch, index) : NULL;
    if (ask == NULL) {
        return;
    }
    bool is_asked = ask->state == REQUEST_SENT && ask->source == source;
    if (count == 0 || !is_right(fetch, index, bytes, count)) {
        if (count > 0) {
            shun(fetch, source, now_ns);
        } else if (is_asked) {
            blame(fetch, source, REFUSED_REST_MS, now_ns);
        }
        return;
    }
    replica_leaf_write(fetch->replica, index, bytes);
    fetch->replica->leaves[index] = fetch->replica->voted[index];
    fetch->missing -= fetch->places[index] == 0;
    fetch->behind--;
    fetch->places[index] = fetch->place;
    fetch->received += count;
    if (ask->state == REQUEST_SENT) {
        fetch->sources[ask->source].asked--;
    }
    if (is_asked) {
        fetch->sources[source].took_ns = now_ns - ask->since_ns;
        fetch->sources[source].faults = 0;
    }
    ask->state = REQUEST_FREE;
}

/* NULL: none that can be asked now. */
static struct leaf_source *next_source(struct leaf_fetch *fetch, uint32_t window, int64_t now_ns,
                                       uint32_t *index) {
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        uint32_t at = (fetch->turn + i) % LEAF_SOURCES_MAX;
        struct leaf_source *source = &fetch->sources[at];
        bool is_resting = source->rests_until_ns > now_ns || source->shunned_until_ns > now_ns;
        if (source->is_there && source->asked < window && !is_resting) {
            fetch->turn = (at + 1) % LEAF_SOURCES_MAX;
            *index = at;
            return source;
        }
    }
    return NULL;
}

static void step_names(struct leaf_fetch *fetch, int64_t now_ns) {
    if (fetch->has_namer) {
        if (now_ns - fetch->namer_since_ns > fetch->patience_ns) {
            uint32_t slow = fetch->namer;
            begin_names(fetch);
            blame(fetch, slow, SLOW_REST_MS, now_ns);
        }
        return;
    }
    uint32_t index = fetch->namer;
    bool goes_on = fetch->named > 0 && fetch->sources[index].is_there;
    if (!goes_on) {
        fetch->named = 0;
    }
    if (!goes_on && next_source(fetch, LEAF_REQUESTS_PER_SOURCE, now_ns, &index) == NULL) {
        return;
    }
    fetch->has_namer = fetch->way.ask_names(fetch->way.context, index, &fetch->root, fetch->named);
    fetch->namer = index;
    fetch->namer_since_ns = now_ns;
}

/* What the slowest source that has sent a leaf took; 0: none has. */
static int64_t slowest_ns(const struct leaf_fetch *fetch) {
    int64_t most_ns = 0;
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        int64_t took_ns = fetch->sources[i].took_ns;
        most_ns = took_ns > most_ns ? took_ns : most_ns;
    }
    return most_ns;
}

static int64_t patience_ns(const struct leaf_fetch *fetch, uint32_t index) {
    int64_t took_ns = fetch->sources[index].took_ns;
    took_ns = took_ns > 0 ? took_ns : slowest_ns(fetch);
    int64_t least_ns = LEAF_LEAST_FACTOR * fetch->patience_ns;
    if (took_ns == 0) {
        return LEAF_FIRST_FACTOR * fetch->patience_ns;
    }
    return LEAF_WAIT_FACTOR * took_ns > least_ns ? LEAF_WAIT_FACTOR * took_ns : least_ns;
}

static void end_patience(struct leaf_fetch *fetch, int64_t now_ns) {
    for (uint32_t i = 0; i < LEAF_REQUESTS_MAX; i++) {
        struct leaf_request *ask = &fetch->asks[i];
        if (ask->state == REQUEST_SENT &&
            now_ns - ask->since_ns > patience_ns(fetch, ask->source)) {
            blame(fetch, ask->source, SLOW_REST_MS, now_ns);
        }
    }
}

/* An ask for the next leaf that nobody was asked for; first those that did not come. */
static struct leaf_request *next_ask(struct leaf_fetch *fetch) {
    struct leaf_request *free = NULL;
    for (uint32_t i = 0; i < LEAF_REQUESTS_MAX; i++) {
        if (fetch->asks[i].state == REQUEST_RETRY) {
            return &fetch->asks[i];
        }
        free = fetch->asks[i].state == REQUEST_FREE ? &fetch->asks[i] : free;
    }
    while (free != NULL && fetch->next < fetch->leaf_count &&
           (fetch->places[fetch->next] > 0 || find_ask(fetch, fetch->next) != NULL)) {
        fetch->next++;
    }
    if (free == NULL || fetch->next == fetch->leaf_count) {
        return NULL;
    }
    free->leaf = fetch->next++;
    free->state = REQUEST_RETRY;
    return free;
}

static void step_leaves(struct leaf_fetch *fetch, int64_t now_ns) {
    end_patience(fetch, now_ns);
    for (uint32_t turns = 0; turns < LEAF_REQUESTS_MAX; turns++) {
        uint32_t index;
        struct leaf_source *source = next_source(fetch, LEAF_REQUESTS_PER_SOURCE, now_ns, &index);
        struct leaf_request *ask = source != NULL ? next_ask(fetch) : NULL;
        if (ask == NULL ||
            !fetch->way.ask_leaf(fetch->way.context, index, &fetch->root, ask->leaf)) {
            return;
        }
        ask->state = REQUEST_SENT;
        ask->source = index;
        ask->since_ns = now_ns;
        source->asked++;
    }
}

/* A leaf that one more step was taken on is right, unless it was not what its name said. */
static void carry(struct leaf_fetch *fetch, uint64_t leaf, uint32_t round) {
    replica_replay_leaf(&fetch->compute, fetch->replica, leaf, round);
    fetch->places[leaf]++;
    if (fetch->stage == LEAF_LEAVES && fetch->places[leaf] == fetch->place &&
        !is_named(fetch, leaf)) {
        fetch->places[leaf] = 0;
    }
}

static void step_forward(struct leaf_fetch *fetch, int64_t now_ns) {
    uint32_t lost = leaf_replay_request(&fetch->forward, now_ns);
    if (lost > 0) {
        lose_below(fetch, lost);
    }
    const struct replay_step *step = leaf_replay_ready(&fetch->forward);
    for (uint32_t count = 0; step != NULL && count < CARRIED_MAX; count++) {
        while (fetch->carried < fetch->leaf_count && fetch->places[fetch->carried] != step->from) {
            fetch->carried++;
        }
        if (fetch->carried == fetch->leaf_count) {
            leaf_replay_step_done(&fetch->forward);
            lose_below(fetch, 0);
            return;
        }
        carry(fetch, fetch->carried, step->round);
    }
}

enum leaf_stage leaf_fetch_step(struct leaf_fetch *fetch, int64_t now_ns) {
    if (fetch->stage == LEAF_HASHES || fetch->stage == LEAF_LEAVES) {
        step_forward(fetch, now_ns);
    }
    if (fetch->stage == LEAF_HASHES) {
        step_names(fetch, now_ns);
    }
    if (fetch->stage == LEAF_LEAVES && fetch->missing > 0) {
        step_leaves(fetch, now_ns);
    }
    if (fetch->stage == LEAF_LEAVES && fetch->behind == 0) {
        leaf_replay_reset(&fetch->forward);
        fetch->replica->root = fetch->root;
        fetch->stage = LEAF_DONE;
    }
    return fetch->stage;
}

bool leaf_fetch_is_busy(const struct leaf_fetch *fetch) {
    bool goes_on = fetch->stage == LEAF_HASHES || fetch->stage == LEAF_LEAVES;
    return goes_on && leaf_replay_ready(&fetch->forward) != NULL;
}

bool leaf_fetch_result(struct leaf_fetch *fetch, uint32_t source,
                       const struct replay_request *result, int64_t now_ns) {
    bool goes_on = fetch->stage == LEAF_HASHES || fetch->stage == LEAF_LEAVES;
    if (!goes_on || !leaf_replay_on_result(&fetch->forward, source, result, now_ns)) {
        return false;
    }
    fetch->received += slices_range(&fetch->replica->shape.slices, result->slice).bytes;
    return true;
}

uint64_t leaf_fetch_outdated(const struct leaf_fetch *fetch) {
    return fetch->stage == LEAF_HASHES ? fetch->leaf_count
                                       : (fetch->stage == LEAF_LEAVES ? fetch->behind : 0);
}
