#include "arena/branch.h"

#include <stdlib.h>
#include <string.h>

/* Items that are still to be placed and that overlap in time, directly or through each other. */
struct goal {
    int begin, end;              /* its sections */
    int items_start, item_count; /* in branch->items, by first section */
    int parent;                  /* the choice that made it, -1: none */
    int next;                    /* the next open goal, -1: none */
    uint64_t floor_offset;       /* offset of the item placed last: no later item may be lower */
    int floor_rank; /* and its rank: at the same offset, later items have a higher rank */
};

/* Which item of a goal comes next. */
struct choice {
    int goal;
    int candidates_start, candidate_count, tried;
    int placed; /* item, -1: none */
    /* Sizes of the stacks before the placement, to undo it. */
    int goal_count, items_used, undo_count;
};

/* A lowest offset that a placement raised. */
struct undo {
    uint64_t low;
    int item;
};

/* The lowest offset that an item can still get. */
struct lowest {
    uint64_t low;
    int item;
};

struct branch {
    const struct cluster *cluster;
    struct sections sections;
    uint64_t ceiling_bytes;
    int *by_first;         /* (count) items by first section */
    int *rank;             /* (count) position in the order of preference */
    int *neighbour_start;  /* (count + 1) in neighbours */
    int *neighbours;       /* items that are alive together with each item */
    uint64_t *low;         /* (count) lowest offset on top of what is placed */
    bool *is_placed;       /* (count) its offset is its low */
    uint64_t *conflicts;   /* (count) how often an item was among those that did not fit */
    struct lowest *lowest; /* (count) scratch */
    uint64_t *stacked;     /* (sections) scratch: bytes of the items looked at */
    struct choice *choices;
    int choice_count;
    struct goal *goals;
    int goal_count;
    int *items; /* the goals' items and the choices' candidates */
    int items_used;
    struct undo *undos;
    int undo_count;
};

static bool overlap_in_time(const struct sections *sections, int a, int b) {
    return sections->first[a] < sections->last[b] && sections->first[b] < sections->last[a];
}

static void list_neighbours(struct branch *branch, struct region *region) {
    int count = branch->cluster->count, pair_count = 0;
    branch->neighbour_start = region_alloc(region, (size_t)count + 1, sizeof(int));
    for (int i = 0; i < count; i++) {
        branch->neighbour_start[i] = pair_count;
        for (int j = 0; j < count; j++) {
            pair_count += i != j && overlap_in_time(&branch->sections, i, j);
        }
    }
    branch->neighbour_start[count] = pair_count;
    branch->neighbours = region_alloc(region, (size_t)pair_count, sizeof(int));
    /* Each pair is raised at most once on the way to a layout: by the one placed first. */
    branch->undos = region_alloc(region, (size_t)pair_count / 2, sizeof(struct undo));
    pair_count = 0;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            if (i != j && overlap_in_time(&branch->sections, i, j)) {
                branch->neighbours[pair_count++] = j;
            }
        }
    }
    ASSERT(pair_count == branch->neighbour_start[count] && pair_count % 2 == 0);
}

/* A bucket for each section, in order. */
static int *items_by_first(const struct sections *sections, int count, struct region *region) {
    int *start = region_alloc(region, (size_t)sections->count + 1, sizeof *start);
    int *sorted = region_alloc(region, (size_t)count, sizeof *sorted);
    for (int i = 0; i < count; i++) {
        start[sections->first[i] + 1]++;
    }
    for (int s = 0; s < sections->count; s++) {
        start[s + 1] += start[s];
    }
    for (int i = 0; i < count; i++) {
        sorted[start[sections->first[i]]++] = i;
    }
    ASSERT(sections->count == 0 || start[sections->count - 1] == count);
    return sorted;
}

struct branch *branch_init(const struct cluster *cluster, struct region *region) {
    ASSERT(cluster->count <= BRANCH_ITEMS_MAX);
    size_t count = (size_t)cluster->count;
    struct branch *branch = region_alloc(region, 1, sizeof *branch);
    branch->cluster = cluster;
    branch->sections = sections_of(cluster, region);
    branch->by_first = items_by_first(&branch->sections, cluster->count, region);
    branch->rank = region_alloc(region, count, sizeof(int));
    branch->low = region_alloc(region, count, sizeof(uint64_t));
    branch->is_placed = region_alloc(region, count, sizeof(bool));
    branch->conflicts = region_alloc(region, count, sizeof(uint64_t));
    branch->lowest = region_alloc(region, count, sizeof(struct lowest));
    branch->stacked = region_alloc(region, (size_t)branch->sections.count, sizeof(uint64_t));
    /* Every goal but the open ones has one item placed; open goals share no item; so there are at
     * most `count` of them, with `count` items in the first, one less in the next, and so on. */
    branch->choices = region_alloc(region, count, sizeof(struct choice));
    branch->goals = region_alloc(region, count, sizeof(struct goal));
    branch->items = region_alloc(region, count * (count + 1), sizeof(int));
    list_neighbours(branch, region);
    return branch;
}

const uint64_t *branch_conflicts(const struct branch *branch) {
    return branch->conflicts;
}

/* Push one goal for each group of items on top of the stack that overlap in time. These items are
 * in order of their first section. The new goals go before `like.next` in the list. Returns the
 * head of the list. */
static int push_goals(struct branch *branch, int items_start, struct goal like) {
    const struct sections *sections = &branch->sections;
    int head = like.next;
    int *items = branch->items;
    for (int start = items_start; start < branch->items_used;) {
        struct goal goal = like;
        goal.begin = sections->first[items[start]];
        goal.end = sections->last[items[start]];
        goal.items_start = start;
        while (start < branch->items_used && sections->first[items[start]] < goal.end) {
            int last = sections->last[items[start]];
            goal.end = last > goal.end ? last : goal.end;
            start++;
        }
        ASSERT(goal.begin < goal.end && branch->goal_count < branch->cluster->count);
        goal.item_count = start - goal.items_start;
        goal.next = head;
        head = branch->goal_count;
        branch->goals[branch->goal_count++] = goal;
    }
    ASSERT(head < branch->goal_count);
    return head;
}

/* Sort by falling offset. Shell sort, because a goal has few items and nothing may be allocated
 * here. */
static void sort_lowest(struct lowest *lowest, int count) {
    static const int GAPS[] = {301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < ARRAY_COUNT(GAPS); g++) {
        int gap = GAPS[g];
        for (int i = gap; i < count; i++) {
            struct lowest moved = lowest[i];
            int j = i;
            for (; j >= gap && lowest[j - gap].low < moved.low; j -= gap) {
                lowest[j] = lowest[j - gap];
            }
            lowest[j] = moved;
        }
    }
}

/* Find the lowest offset that each item of the goal can still get. Returns false when one does not
 * fit. */
static bool find_lowest(struct branch *branch, const struct goal *goal, uint64_t *lowest_end) {
    const struct cluster *cluster = branch->cluster;
    *lowest_end = UINT64_MAX;
    for (int i = 0; i < goal->item_count; i++) {
        int item = branch->items[goal->items_start + i];
        ASSERT(!branch->is_placed[item]);
        uint64_t low = branch->low[item];
        uint64_t end = low + cluster->bytes[item];
        *lowest_end = end < *lowest_end ? end : *lowest_end;
        if (low < goal->floor_offset) {
            low = align_up(goal->floor_offset, cluster->align[item]);
        }
        if (low + cluster->bytes[item] > branch->ceiling_bytes) {
            branch->conflicts[item]++;
            return false;
        }
        branch->lowest[i] = (struct lowest){low, item};
    }
    return true;
}

static void count_conflicts(struct branch *branch, const struct goal *goal, int section) {
    ASSERT(section >= goal->begin && section < goal->end);
    for (int i = 0; i < goal->item_count; i++) {
        int item = branch->items[goal->items_start + i];
        branch->conflicts[item] +=
            branch->sections.first[item] <= section && section < branch->sections.last[item];
    }
}

/* All items that start at or above an offset must fit between it and the ceiling. Check this in
 * every section for every offset. */
static bool have_room(struct branch *branch, const struct goal *goal) {
    memset(branch->stacked + goal->begin, 0,
           (size_t)(goal->end - goal->begin) * sizeof *branch->stacked);
    for (int i = 0; i < goal->item_count; i++) {
        int item = branch->lowest[i].item;
        uint64_t bytes = branch->cluster->bytes[item];
        uint64_t room = branch->ceiling_bytes - branch->lowest[i].low;
        ASSERT(room >= bytes);
        for (int s = branch->sections.first[item]; s < branch->sections.last[item]; s++) {
            branch->stacked[s] += bytes;
            if (branch->stacked[s] > room) {
                count_conflicts(branch, goal, s);
                return false;
            }
        }
    }
    return true;
}

/* Returns false when no layout can be completed.
 *   lowest_end      the lowest end that any item would have if it were placed next
 *   highest_offset  above it, some section could not hold the remaining items */
static bool measure_goal(struct branch *branch, const struct goal *goal, uint64_t *lowest_end,
                         uint64_t *highest_offset) {
    if (!find_lowest(branch, goal, lowest_end)) {
        return false;
    }
    sort_lowest(branch->lowest, goal->item_count);
    if (!have_room(branch, goal)) {
        return false;
    }
    uint64_t max_bytes = 0;
    for (int s = goal->begin; s < goal->end; s++) {
        max_bytes = branch->stacked[s] > max_bytes ? branch->stacked[s] : max_bytes;
    }
    ASSERT(max_bytes > 0 && max_bytes <= branch->ceiling_bytes);
    *highest_offset = branch->ceiling_bytes - max_bytes;
    return true;
}

/* Sort by lowest offset, equal ones by rank. Insertion sort, because there are few. */
static void insert_candidate(struct branch *branch, const struct choice *choice, int count,
                             int item) {
    int *candidates = branch->items + choice->candidates_start;
    int i = count;
    for (; i > 0; i--) {
        int other = candidates[i - 1];
        if (branch->low[other] < branch->low[item] ||
            (branch->low[other] == branch->low[item] && branch->rank[other] < branch->rank[item])) {
            break;
        }
        candidates[i] = other;
    }
    candidates[i] = item;
}

/* Push a choice for an open goal. A candidate does not lie below the item placed last (at the same
 * offset its rank is higher), nor entirely above a hole that another item fits into. */
static void open_choice(struct branch *branch, int goal_index, struct effort *effort) {
    ASSERT(goal_index >= 0 && goal_index < branch->goal_count);
    ASSERT(branch->choice_count < branch->cluster->count);
    const struct goal *goal = &branch->goals[goal_index];
    struct choice *choice = &branch->choices[branch->choice_count++];
    *choice =
        (struct choice){.goal = goal_index, .candidates_start = branch->items_used, .placed = -1};
    effort->work += BRANCH_WORK_PER_ITEM * (uint64_t)goal->item_count;
    uint64_t lowest_end, highest_offset;
    if (measure_goal(branch, goal, &lowest_end, &highest_offset)) {
        for (int i = 0; i < goal->item_count; i++) {
            int item = branch->items[goal->items_start + i];
            uint64_t low = branch->low[item];
            bool comes_later = low > goal->floor_offset ||
                               (low == goal->floor_offset && branch->rank[item] > goal->floor_rank);
            if (comes_later && low < lowest_end && low <= highest_offset) {
                insert_candidate(branch, choice, choice->candidate_count++, item);
            }
        }
    }
    ASSERT(choice->candidate_count <= goal->item_count);
    branch->items_used += choice->candidate_count;
    choice->goal_count = branch->goal_count;
    choice->items_used = branch->items_used;
    choice->undo_count = branch->undo_count;
}

/* Place the next candidate. Returns the head of the open goals. */
static int place_next(struct branch *branch, struct choice *choice, int choice_index) {
    const struct cluster *cluster = branch->cluster;
    const struct goal *goal = &branch->goals[choice->goal];
    ASSERT(choice->placed < 0 && choice->tried < choice->candidate_count);
    int item = branch->items[choice->candidates_start + choice->tried++];
    uint64_t end = branch->low[item] + cluster->bytes[item];
    ASSERT(!branch->is_placed[item] && end <= branch->ceiling_bytes);
    choice->placed = item;
    branch->is_placed[item] = true;
    for (int i = branch->neighbour_start[item]; i < branch->neighbour_start[item + 1]; i++) {
        int other = branch->neighbours[i];
        if (!branch->is_placed[other] && branch->low[other] < end) {
            branch->undos[branch->undo_count++] = (struct undo){branch->low[other], other};
            branch->low[other] = align_up(end, cluster->align[other]);
        }
    }
    ASSERT(branch->undo_count <= branch->neighbour_start[cluster->count] / 2);
    int items_start = branch->items_used;
    for (int i = 0; i < goal->item_count; i++) {
        int other = branch->items[goal->items_start + i];
        if (other != item) {
            branch->items[branch->items_used++] = other;
        }
    }
    return push_goals(branch, items_start,
                      (struct goal){.parent = choice_index,
                                    .next = goal->next,
                                    .floor_offset = branch->low[item],
                                    .floor_rank = branch->rank[item]});
}

static void unplace(struct branch *branch, struct choice *choice) {
    if (choice->placed < 0) {
        return;
    }
    int item = choice->placed;
    ASSERT(branch->is_placed[item]);
    ASSERT(branch->goal_count >= choice->goal_count && branch->items_used >= choice->items_used);
    while (branch->undo_count > choice->undo_count) {
        struct undo undo = branch->undos[--branch->undo_count];
        branch->low[undo.item] = undo.low;
    }
    branch->is_placed[item] = false;
    branch->goal_count = choice->goal_count;
    branch->items_used = choice->items_used;
    choice->placed = -1;
}

/* The goal of the topmost choice has no solution: undo all choices down to the one that made the
 * goal. */
static void fail_goal(struct branch *branch) {
    int parent = branch->goals[branch->choices[branch->choice_count - 1].goal].parent;
    ASSERT(parent < branch->choice_count - 1); /* a goal is made before a choice is opened for it */
    while (branch->choice_count - 1 > parent) {
        struct choice *choice = &branch->choices[--branch->choice_count];
        unplace(branch, choice);
        branch->items_used = choice->candidates_start;
    }
}

static int begin(struct branch *branch, uint64_t ceiling_bytes, const int *sequence) {
    const struct cluster *cluster = branch->cluster;
    branch->ceiling_bytes = ceiling_bytes;
    branch->choice_count = branch->goal_count = branch->undo_count = 0;
    for (int i = 0; i < cluster->count; i++) {
        ASSERT(sequence[i] >= 0 && sequence[i] < cluster->count);
        branch->rank[sequence[i]] = i;
        branch->low[i] = align_up(cluster->base_bytes, cluster->align[i]);
        branch->is_placed[i] = false;
        branch->items[i] = branch->by_first[i];
    }
    branch->items_used = cluster->count;
    return push_goals(branch, 0, (struct goal){.parent = -1, .next = -1, .floor_rank = -1});
}

static void keep_layout(const struct branch *branch, struct layout *layout) {
    uint64_t peak_bytes = branch->cluster->base_bytes;
    for (int i = 0; i < branch->cluster->count; i++) {
        uint64_t end = branch->low[i] + branch->cluster->bytes[i];
        ASSERT(branch->is_placed[i]);
        layout->offset[i] = branch->low[i];
        peak_bytes = end > peak_bytes ? end : peak_bytes;
    }
    ASSERT(peak_bytes <= branch->ceiling_bytes);
    layout->peak_bytes = peak_bytes;
    layout->heuristic = "exact search";
}

enum branch_result branch_fit(struct branch *branch, uint64_t ceiling_bytes, const int *sequence,
                              struct effort *effort, struct layout *layout) {
    int open = begin(branch, ceiling_bytes, sequence);
    while (open >= 0) {
        if (effort_spent(effort)) {
            return BRANCH_SPENT;
        }
        open_choice(branch, open, effort);
        struct choice *top = &branch->choices[branch->choice_count - 1];
        while (top->tried == top->candidate_count) {
            fail_goal(branch);
            if (branch->choice_count == 0) {
                return BRANCH_NONE;
            }
            top = &branch->choices[branch->choice_count - 1];
        }
        unplace(branch, top);
        open = place_next(branch, top, branch->choice_count - 1);
    }
    ASSERT(branch->choice_count == branch->cluster->count); /* each placed one item */
    keep_layout(branch, layout);
    return BRANCH_FOUND;
}
