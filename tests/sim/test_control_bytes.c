/* test_control_bytes: in a swarm of 64 members with 969 slices, one of which is cut off right after
 * the first TABLE of a round, no member receives more than 64 KiB of TABLE or sends more than 1 MB
 * of REPORT in a round. Each message is written and read as on the wire, and all repetitions
 * count. */
#include "tests/sim/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TABLE_BYTES_MAX = 64 * 1024,
    REPORT_BYTES_MAX = 1000 * 1000,
    CUT_ROUND = 2,
    COMMITS = 3,
    LIMIT_MS = 30 * 60 * 1000,
    CUT_NODE = TRACKERS + 5,
    CUT_MS = 60 * 1000,
};

struct count {
    uint32_t round;
    uint64_t tables[NODES], reports[NODES]; /* bytes of the round */
    uint64_t tables_max, reports_max;       /* of one member in one round */
    uint64_t tables_all, reports_all;
    uint32_t versions_max;
    bool is_cut; /* The member gets the table that it is cut off after. */
};

static uint64_t pass_wire(struct world *world, const struct message *message) {
    struct parcel *parcel = parcel_copy(world, message);
    const uint64_t bytes = parcel_bytes(world, message);
    if (!parcel_pass_wire(world, parcel)) {
        world_fail(world, "a message of kind %d is not read back", message->kind);
    }
    parcel_free(parcel);
    return bytes;
}

static void cut_off(struct world *world, uint32_t node) {
    for (uint32_t n = 0; n < NODES; n++) {
        world->cut_until[n][node] = world->now + CUT_MS;
        world->cut_until[node][n] = world->now + CUT_MS;
    }
}

static void begin_round(struct count *count, uint32_t round) {
    if (round != count->round) {
        count->round = round;
        memset(count->tables, 0, sizeof(count->tables));
        memset(count->reports, 0, sizeof(count->reports));
    }
}

static void count_bytes(uint64_t *of_member, uint64_t bytes, uint64_t *max, uint64_t *all) {
    *of_member += bytes;
    *all += bytes;
    *max = *of_member > *max ? *of_member : *max;
}

static void count_table(struct world *world, struct count *count, const struct action *action) {
    const struct message *message = &action->message;
    const uint32_t to = action->to.bytes[0];
    const uint32_t version = message->table->version;
    count_bytes(&count->tables[to], pass_wire(world, message), &count->tables_max,
                &count->tables_all);
    count->versions_max = version > count->versions_max ? version : count->versions_max;
    count->is_cut |= message->round == CUT_ROUND && to == CUT_NODE;
}

static void observe(struct world *world, uint32_t node, const struct action *action) {
    struct count *count = world->observed;
    begin_round(count, world->stores[0].record.head.round);
    if (action->kind == ACTION_SEND && action->message.kind == MESSAGE_TABLE) {
        count_table(world, count, action);
    } else if (action->kind == ACTION_SEND && action->message.kind == MESSAGE_REPORT) {
        count_bytes(&count->reports[node], pass_wire(world, &action->message), &count->reports_max,
                    &count->reports_all);
    }
}

int main(void) {
    struct world *world = world_new();
    struct count *count = calloc(1, sizeof(*count));
    const struct steady_swarm swarm = {.members = SIM_MEMBERS,
                                       .slices = SIM_SLICES,
                                       .delay_ms = 20,
                                       .samples = 8,
                                       .sample_ms = 50};
    world_begin_steady(world, 1, &swarm);
    world->settings.members_min = SIM_MEMBERS;
    world->observe = observe;
    world->observed = count;
    for (uint32_t n = 0; n < TRACKERS + SIM_MEMBERS; n++) {
        if (n != 1) {
            world_start(world, n);
        }
    }
    while (!count->is_cut && world->now < LIMIT_MS && world->failure[0] == 0) {
        world_run_until(world, world->now + 1, COMMITS);
    }
    world_run_until(world, world->now + 2 * world->delay, COMMITS); /* until it has arrived */
    cut_off(world, CUT_NODE);
    world->settings.members_min = 1;
    world_run_until(world, world->now + LIMIT_MS, COMMITS);
    world->observe = NULL;
    const uint32_t commits = world->commits;
    const uint32_t salvages = world->salvages;
    const uint32_t ms = (uint32_t)world->now;
    const int is_right = world_end(world);
    printf("%d members, %d slices, member %d cut off in round %d: %u commits, %u slices with "
           "another owner, %u versions of a table, %u ms\n"
           "TABLE: at most %llu bytes a member and round, limit %d; all %llu\n"
           "REPORT: at most %llu bytes a member and round, limit %d; all %llu\n",
           SIM_MEMBERS, SIM_SLICES, CUT_NODE - TRACKERS, CUT_ROUND, commits, salvages,
           count->versions_max, ms, (unsigned long long)count->tables_max, TABLE_BYTES_MAX,
           (unsigned long long)count->tables_all, (unsigned long long)count->reports_max,
           REPORT_BYTES_MAX, (unsigned long long)count->reports_all);
    if (!is_right) {
        printf("%s\n", world->failure);
    }
    const bool is_good = is_right && count->is_cut && commits == COMMITS && salvages > 0 &&
                         count->tables_max <= TABLE_BYTES_MAX &&
                         count->reports_max <= REPORT_BYTES_MAX;
    free(count);
    world_delete(world);
    return is_good ? 0 : 1;
}
