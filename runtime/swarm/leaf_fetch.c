#include "runtime/swarm/leaf_fetch.h"

#include "base/check.h"

#include <string.h>

static const int64_t MS = 1000000;
static const int64_t SECOND_NS = 1000000000;

enum {
    NAMES_WAIT_S = 5,      /* for a piece of names */
    LEAF_FIRST_WAIT_S = 8, /* for a leaf from a source that has sent none yet */
    LEAF_LEAST_WAIT_S = 2,
    LEAF_WAIT_FACTOR = 6, /* times what its last one took */
    REST_MS = 50,   /* after a refusal or a slow leaf, doubled with each one after the other: */
    FAULTS_MAX = 7, /* who has not applied the commit yet will have soon */
    WRONG_REST_MS = 3600 * 1000, /* who sends what does not have the name is not asked again */
};

void leaf_fetch_init(struct leaf_fetch *fetch, struct replica *replica, struct leaf_way way) {
    memset(fetch, 0, sizeof(*fetch));
    fetch->replica = replica;
    fetch->way = way;
    fetch->bytes = replica_state_bytes(replica->shape.slices.parameter_count);
    fetch->leaf_count = replica_leaf_count(replica->shape.slices.parameter_count);
}

static void begin_names(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_NAMES;
    fetch->named = 0;
    fetch->has_namer = false;
}

void leaf_fetch_begin(struct leaf_fetch *fetch, const struct hash *root) {
    leaf_fetch_end(fetch);
    fetch->root = *root;
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        fetch->sources[i] = (struct leaf_source){.is_there = fetch->sources[i].is_there};
    }
    begin_names(fetch);
}

void leaf_fetch_end(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_IDLE;
    memset(fetch->asks, 0, sizeof(fetch->asks));
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        fetch->sources[i].asked = 0;
    }
}

/* The leaf of an ask is to come from another source. */
static void ask_again(struct leaf_fetch *fetch, struct leaf_ask *ask) {
    ASSERT(ask->state == ASK_OUT);
    fetch->sources[ask->source].asked--;
    ask->state = ASK_AGAIN;
}

static void rest(struct leaf_fetch *fetch, uint32_t index, int64_t rest_ms, int64_t now_ns) {
    struct leaf_source *source = &fetch->sources[index];
    source->rests_until_ns = now_ns + rest_ms * MS;
    for (uint32_t i = 0; i < LEAF_ASKS_MAX; i++) {
        if (fetch->asks[i].state == ASK_OUT && fetch->asks[i].source == index) {
            ask_again(fetch, &fetch->asks[i]);
        }
    }
    fetch->has_namer = fetch->has_namer && fetch->namer != index;
}

static void blame(struct leaf_fetch *fetch, uint32_t index, int64_t now_ns) {
    struct leaf_source *source = &fetch->sources[index];
    rest(fetch, index, REST_MS << source->faults, now_ns);
    source->faults += source->faults < FAULTS_MAX;
}

void leaf_fetch_source(struct leaf_fetch *fetch, uint32_t source, bool is_there) {
    ASSERT(source < LEAF_SOURCES_MAX);
    fetch->sources[source].is_there = is_there;
    if (!is_there) {
        rest(fetch, source, 0, 0);
    }
}

static bool is_missing(const struct leaf_fetch *fetch, uint64_t leaf) {
    return !hash_equal(&fetch->replica->leaves[leaf], &fetch->replica->voted[leaf]);
}

static void begin_leaves(struct leaf_fetch *fetch) {
    fetch->stage = LEAF_LEAVES;
    fetch->next = 0;
    fetch->missing = 0;
    for (uint64_t leaf = 0; leaf < fetch->leaf_count; leaf++) {
        fetch->missing += is_missing(fetch, leaf);
    }
}

void leaf_fetch_names(struct leaf_fetch *fetch, uint32_t source, const struct hash *root,
                      uint64_t index, const uint8_t *names, size_t count, int64_t now_ns) {
    if (fetch->stage != LEAF_NAMES || !fetch->has_namer || source != fetch->namer ||
        !hash_equal(root, &fetch->root) || index != fetch->named) {
        return;
    }
    uint64_t name_count = count / HASH_BYTES;
    if (name_count == 0 || count % HASH_BYTES != 0 ||
        name_count > fetch->leaf_count - fetch->named) {
        begin_names(fetch);
        blame(fetch, source, now_ns);
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
        rest(fetch, source, WRONG_REST_MS, now_ns);
        return;
    }
    begin_leaves(fetch);
}

static struct leaf_ask *find_ask(struct leaf_fetch *fetch, uint64_t leaf) {
    for (uint32_t i = 0; i < LEAF_ASKS_MAX; i++) {
        if (fetch->asks[i].state != ASK_FREE && fetch->asks[i].leaf == leaf) {
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
void leaf_fetch_leaf(struct leaf_fetch *fetch, uint32_t source, uint64_t index,
                     const uint8_t *bytes, size_t count, int64_t now_ns) {
    struct leaf_ask *ask = fetch->stage == LEAF_LEAVES ? find_ask(fetch, index) : NULL;
    if (ask == NULL) {
        return;
    }
    bool is_asked = ask->state == ASK_OUT && ask->source == source;
    if (count == 0 || !is_right(fetch, index, bytes, count)) {
        if (count > 0) {
            rest(fetch, source, WRONG_REST_MS, now_ns);
        } else if (is_asked) {
            blame(fetch, source, now_ns);
        }
        return;
    }
    replica_leaf_write(fetch->replica, index, bytes);
    fetch->replica->leaves[index] = fetch->replica->voted[index];
    fetch->missing--;
    if (ask->state == ASK_OUT) {
        fetch->sources[ask->source].asked--;
    }
    if (is_asked) {
        fetch->sources[source].took_ns = now_ns - ask->since_ns;
        fetch->sources[source].faults = 0;
    }
    ask->state = ASK_FREE;
}

/* NULL: none that can be asked now. */
static struct leaf_source *next_source(struct leaf_fetch *fetch, uint32_t window, int64_t now_ns,
                                       uint32_t *index) {
    for (uint32_t i = 0; i < LEAF_SOURCES_MAX; i++) {
        uint32_t at = (fetch->turn + i) % LEAF_SOURCES_MAX;
        struct leaf_source *source = &fetch->sources[at];
        if (source->is_there && source->asked < window && source->rests_until_ns <= now_ns) {
            fetch->turn = (at + 1) % LEAF_SOURCES_MAX;
            *index = at;
            return source;
        }
    }
    return NULL;
}

static void step_names(struct leaf_fetch *fetch, int64_t now_ns) {
    if (fetch->has_namer) {
        if (now_ns - fetch->namer_since_ns > NAMES_WAIT_S * SECOND_NS) {
            uint32_t slow = fetch->namer;
            begin_names(fetch);
            blame(fetch, slow, now_ns);
        }
        return;
    }
    uint32_t index = fetch->namer;
    bool goes_on = fetch->named > 0 && fetch->sources[index].is_there;
    if (!goes_on) {
        fetch->named = 0;
    }
    if (!goes_on && next_source(fetch, LEAF_WINDOW, now_ns, &index) == NULL) {
        return;
    }
    fetch->has_namer = fetch->way.ask_names(fetch->way.context, index, &fetch->root, fetch->named);
    fetch->namer = index;
    fetch->namer_since_ns = now_ns;
}

static int64_t patience_ns(const struct leaf_source *source) {
    int64_t wait_ns = LEAF_WAIT_FACTOR * source->took_ns;
    if (source->took_ns == 0) {
        return LEAF_FIRST_WAIT_S * SECOND_NS;
    }
    return wait_ns > LEAF_LEAST_WAIT_S * SECOND_NS ? wait_ns : LEAF_LEAST_WAIT_S * SECOND_NS;
}

static void end_patience(struct leaf_fetch *fetch, int64_t now_ns) {
    for (uint32_t i = 0; i < LEAF_ASKS_MAX; i++) {
        struct leaf_ask *ask = &fetch->asks[i];
        if (ask->state == ASK_OUT &&
            now_ns - ask->since_ns > patience_ns(&fetch->sources[ask->source])) {
            blame(fetch, ask->source, now_ns);
        }
    }
}

/* An ask for the next leaf that nobody was asked for; first those that did not come. */
static struct leaf_ask *next_ask(struct leaf_fetch *fetch) {
    struct leaf_ask *free = NULL;
    for (uint32_t i = 0; i < LEAF_ASKS_MAX; i++) {
        if (fetch->asks[i].state == ASK_AGAIN) {
            return &fetch->asks[i];
        }
        free = fetch->asks[i].state == ASK_FREE ? &fetch->asks[i] : free;
    }
    while (free != NULL && fetch->next < fetch->leaf_count && !is_missing(fetch, fetch->next)) {
        fetch->next++;
    }
    if (free == NULL || fetch->next == fetch->leaf_count) {
        return NULL;
    }
    free->leaf = fetch->next++;
    free->state = ASK_AGAIN;
    return free;
}

static void step_leaves(struct leaf_fetch *fetch, int64_t now_ns) {
    end_patience(fetch, now_ns);
    for (uint32_t turns = 0; turns < LEAF_ASKS_MAX; turns++) {
        uint32_t index;
        struct leaf_source *source = next_source(fetch, LEAF_WINDOW, now_ns, &index);
        struct leaf_ask *ask = source != NULL ? next_ask(fetch) : NULL;
        if (ask == NULL ||
            !fetch->way.ask_leaf(fetch->way.context, index, &fetch->root, ask->leaf)) {
            return;
        }
        ask->state = ASK_OUT;
        ask->source = index;
        ask->since_ns = now_ns;
        source->asked++;
    }
}

enum leaf_stage leaf_fetch_step(struct leaf_fetch *fetch, int64_t now_ns) {
    if (fetch->stage == LEAF_NAMES) {
        step_names(fetch, now_ns);
    }
    if (fetch->stage == LEAF_LEAVES && fetch->missing > 0) {
        step_leaves(fetch, now_ns);
    }
    if (fetch->stage == LEAF_LEAVES && fetch->missing == 0) {
        fetch->replica->root = fetch->root;
        fetch->stage = LEAF_DONE;
    }
    return fetch->stage;
}

uint64_t leaf_fetch_behind(const struct leaf_fetch *fetch) {
    return fetch->stage == LEAF_NAMES ? fetch->leaf_count
                                      : (fetch->stage == LEAF_LEAVES ? fetch->missing : 0);
}
