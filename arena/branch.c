#include "arena/branch.h"

#include <stdlib.h>
#include <string.h>

struct goal {       /* unplaced items that form one connected group of overlaps in time */
    int begin, end; /* range of sections that the goal's items span */
    /* the goal's items: range in branch->items, sorted by first section */
    int items_start, item_count;
    int parent; /* index of the choice that created the goal; -1: none */
    int next;   /* index of the next open goal; -1: none */
    /* offset of the item placed last: no item of this goal may be lower */
    uint64_t floor_offset;
    /* rank of the item placed last: items of this goal at the same offset need a higher rank */
    int floor_rank;
};

struct choice { /* a decision point: the candidates for the next item of a goal to place */
    int goal;   /* index of the goal in branch->goals */
    int candidates_start, candidate_count; /* range of the candidates in branch->items */
    int tried_count;                       /* number of candidates tried */
    int placed;                            /* the item placed by this choice; -1: none */
    /* sizes of the stacks `goals`, `items` and `undos` before the placement */
    int goal_count, items_used, undo_count;
};

struct undo { /* the lowest offset that an item had before a placement raised that offset */
    uint64_t lowest_offset; /* the earlier lowest offset of the item, in bytes */
    int item;               /* index of the item in the cluster */
};

/* The lowest offset that is still possible for an item. */
struct item_offset {
    uint64_t lowest_offset; /* lowest possible offset of the item, in bytes */
    int item;               /* index of the item in the cluster */
};

struct branch {
    const struct cluster *cluster;
    struct sections sections;
    uint64_t ceiling_bytes; /* maximum peak of the layout that is searched for */
    int *sorted_items;      /* [count] items sorted by first section */
    int *rank; /* [count] position of each item in the search sequence; lower is preferred */
    int *neighbour_starts; /* [count + 1] start of each item's list in `neighbours` */
    /* lists of all items: the indices of the items whose lives overlap with the item's life */
    int *neighbours;
    uint64_t *lowest_offset; /* [count] lowest possible offset; final once the item is placed */
    bool *is_placed;         /* [count] true once the item has an offset */
    /* [count] number of times that each item was among the items that did not fit */
    uint64_t *conflicts;
    struct item_offset *goal_items; /* [count] scratch: items of one goal */
    uint64_t *stacked_bytes; /* [sections.count] scratch: bytes stacked so far in each section */
    struct choice *choices;  /* stack of the decisions made so far */
    int choice_count;        /* number of choices on the stack */
    struct goal *goals;      /* stack of all goals, open or not */
    int goal_count;          /* number of goals on the stack */
    int *items;              /* stack of the goals' items and the choices' candidates */
    int items_used;          /* number of items on the stack */
    struct undo *undos;      /* stack of the changes to lowest_offset */
    int undo_count;          /* number of changes on the stack */
};

static bool overlap_in_time(const struct sections *sections, int a, int b) {
    return sections->first[a] < sections->end[b] && sections->first[b] < sections->end[a];
}

static void list_neighbours(struct branch *branch, struct region *region) {
    int count = branch->cluster->count, pair_count = 0;
    branch->neighbour_starts = region_alloc(region, (size_t)count + 1, sizeof(int));
    for (int i = 0; i < count; i++) {
        branch->neighbour_starts[i] = pair_count;
        for (int j = 0; j < count; j++) {
            pair_count += i != j && overlap_in_time(&branch->sections, i, j);
        }
    }
    branch->neighbour_starts[count] = pair_count;
    branch->neighbours = region_alloc(region, (size_t)pair_count, sizeof(int));
    /* One undo for each pair of neighbours suffices: only the item placed first can raise the
     * lowest offset of the other. */
    branch->undos = region_alloc(region, (size_t)pair_count / 2, sizeof(struct undo));
    pair_count = 0;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            if (i != j && overlap_in_time(&branch->sections, i, j)) {
                branch->neighbours[pair_count++] = j;
            }
        }
    }
    ASSERT(pair_count == branch->neighbour_starts[count] && pair_count % 2 == 0);
}

/* Returns the items sorted by their first section, by a counting sort. */
static int *sort_by_first_section(const struct sections *sections, int count,
                                  struct region *region) {
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
    branch->sections = sections_of_cluster(cluster, region);
    branch->sorted_items = sort_by_first_section(&branch->sections, cluster->count, region);
    branch->rank = region_alloc(region, count, sizeof(int));
    branch->lowest_offset = region_alloc(region, count, sizeof(uint64_t));
    branch->is_placed = region_alloc(region, count, sizeof(bool));
    branch->conflicts = region_alloc(region, count, sizeof(uint64_t));
    branch->goal_items = region_alloc(region, count, sizeof(struct item_offset));
    branch->stacked_bytes = region_alloc(region, (size_t)branch->sections.count, sizeof(uint64_t));
    /* An open goal has an unplaced item, which is in no other open goal, and each other goal has
     * placed one item. So there are at most `count` goals and as many choices, and goal i has at
     * most `count - i` items. `items` stores the items of all goals and `count` candidates. */
    branch->choices = region_alloc(region, count, sizeof(struct choice));
    branch->goals = region_alloc(region, count, sizeof(struct goal));
    branch->items = region_alloc(region, count * (count + 1), sizeof(int));
    list_neighbours(branch, region);
    return branch;
}

const uint64_t *branch_conflict_counts(const struct branch *branch) {
    return branch->conflicts;
}

/* Push one goal for each connected group of the items from `items_start` to the top of the item
 * stack, which are sorted by first section. `goal_template` holds the other fields of the new
 * goals, which are inserted in the list before goal_template.next. Returns the first goal of the
 * list. */
static int push_goals(struct branch *branch, int items_start, struct goal goal_template) {
    const struct sections *sections = &branch->sections;
    int head = goal_template.next;
    int *items = branch->items;
    for (int start = items_start; start < branch->items_used;) {
        struct goal goal = goal_template;
        goal.begin = sections->first[items[start]];
        goal.end = sections->end[items[start]];
        goal.items_start = start;
        while (start < branch->items_used && sections->first[items[start]] < goal.end) {
            int last = sections->end[items[start]];
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

/* Sort the items by descending lowest offset. This is a Shell sort, because a goal has few items
 * and this code must not allocate. */
static void sort_by_lowest_offset(struct item_offset *goal_items, int count) {
    static const int GAPS[] = {301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < ARRAY_COUNT(GAPS); g++) {
        int gap = GAPS[g];
        for (int i = gap; i < count; i++) {
            struct item_offset moved = goal_items[i];
            int j = i;
            for (; j >= gap && goal_items[j - gap].lowest_offset < moved.lowest_offset; j -= gap) {
                goal_items[j] = goal_items[j - gap];
            }
            goal_items[j] = moved;
        }
    }
}

/* Find the lowest possible offset of each item of the goal. Returns false when an item does not
 * fit below the ceiling. */
static bool find_lowest_offsets(struct branch *branch, const struct goal *goal,
                                uint64_t *lowest_end) {
    const struct cluster *cluster = branch->cluster;
    *lowest_end = UINT64_MAX;
    for (int i = 0; i < goal->item_count; i++) {
        int item = branch->items[goal->items_start + i];
        ASSERT(!branch->is_placed[item]);
        uint64_t lowest_offset = branch->lowest_offset[item];
        uint64_t end = lowest_offset + cluster->bytes[item];
        *lowest_end = end < *lowest_end ? end : *lowest_end;
        if (lowest_offset < goal->floor_offset) {
            lowest_offset = align_up(goal->floor_offset, cluster->align[item]);
        }
        if (lowest_offset + cluster->bytes[item] > branch->ceiling_bytes) {
            branch->conflicts[item]++;
            return false;
        }
        branch->goal_items[i] = (struct item_offset){lowest_offset, item};
    }
    return true;
}

static void count_conflicts(struct branch *branch, const struct goal *goal, int section) {
    ASSERT(section >= goal->begin && section < goal->end);
    for (int i = 0; i < goal->item_count; i++) {
        int item = branch->items[goal->items_start + i];
        branch->conflicts[item] +=
            branch->sections.first[item] <= section && section < branch->sections.end[item];
    }
}

/* Return whether the goal's items can fit: in every section, and for every offset, the items that
 * must lie at or above that offset have to fit between the offset and the ceiling. */
static bool remaining_items_fit(struct branch *branch, const struct goal *goal) {
    memset(branch->stacked_bytes + goal->begin, 0,
           (size_t)(goal->end - goal->begin) * sizeof *branch->stacked_bytes);
    for (int i = 0; i < goal->item_count; i++) {
        int item = branch->goal_items[i].item;
        uint64_t bytes = branch->cluster->bytes[item];
        uint64_t room = branch->ceiling_bytes - branch->goal_items[i].lowest_offset;
        ASSERT(room >= bytes);
        for (int s = branch->sections.first[item]; s < branch->sections.end[item]; s++) {
            branch->stacked_bytes[s] += bytes;
            if (branch->stacked_bytes[s] > room) {
                count_conflicts(branch, goal, s);
                return false;
            }
        }
    }
    return true;
}

/* Compute the limits that a candidate for the next placement must satisfy. Returns false when no
 * layout of the goal's items can fit.
 *   lowest_end      the lowest end offset that any item would have if it were placed next
 *   highest_offset  with the next item above this offset, some section could not hold the
 *                   remaining items */
static bool compute_candidate_limits(struct branch *branch, const struct goal *goal,
                                     uint64_t *lowest_end, uint64_t *highest_offset) {
    if (!find_lowest_offsets(branch, goal, lowest_end)) {
        return false;
    }
    sort_by_lowest_offset(branch->goal_items, goal->item_count);
    if (!remaining_items_fit(branch, goal)) {
        return false;
    }
    uint64_t max_bytes = 0;
    for (int s = goal->begin; s < goal->end; s++) {
        max_bytes = branch->stacked_bytes[s] > max_bytes ? branch->stacked_bytes[s] : max_bytes;
    }
    ASSERT(max_bytes > 0 && max_bytes <= branch->ceiling_bytes);
    *highest_offset = branch->ceiling_bytes - max_bytes;
    return true;
}

/* Insert `item` into the `count` candidates of the choice, which are sorted by lowest offset, then
 * by rank. */
static void insert_candidate(struct branch *branch, const struct choice *choice, int count,
                             int item) {
    int *candidates = branch->items + choice->candidates_start;
    int i = count;
    for (; i > 0; i--) {
        int other = candidates[i - 1];
        if (branch->lowest_offset[other] < branch->lowest_offset[item] ||
            (branch->lowest_offset[other] == branch->lowest_offset[item] &&
             branch->rank[other] < branch->rank[item])) {
            break;
        }
        candidates[i] = other;
    }
    candidates[i] = item;
}

/* Push a choice for an open goal. A candidate must not lie below the item placed last (at the
 * same offset its rank must be higher), nor entirely above a gap that another item fits into. */
static void push_choice(struct branch *branch, int goal_index, struct effort *effort) {
    ASSERT(goal_index >= 0 && goal_index < branch->goal_count);
    ASSERT(branch->choice_count < branch->cluster->count);
    const struct goal *goal = &branch->goals[goal_index];
    struct choice *choice = &branch->choices[branch->choice_count++];
    *choice =
        (struct choice){.goal = goal_index, .candidates_start = branch->items_used, .placed = -1};
    effort->work += BRANCH_WORK_PER_ITEM * (uint64_t)goal->item_count;
    uint64_t lowest_end, highest_offset;
    if (compute_candidate_limits(branch, goal, &lowest_end, &highest_offset)) {
        for (int i = 0; i < goal->item_count; i++) {
            int item = branch->items[goal->items_start + i];
            uint64_t lowest_offset = branch->lowest_offset[item];
            bool comes_later =
                lowest_offset > goal->floor_offset ||
                (lowest_offset == goal->floor_offset && branch->rank[item] > goal->floor_rank);
            if (comes_later && lowest_offset < lowest_end && lowest_offset <= highest_offset) {
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

/* Place the next candidate of the choice. Returns the first open goal. */
static int place_next_candidate(struct branch *branch, struct choice *choice, int choice_index) {
    const struct cluster *cluster = branch->cluster;
    const struct goal *goal = &branch->goals[choice->goal];
    ASSERT(choice->placed < 0 && choice->tried_count < choice->candidate_count);
    int item = branch->items[choice->candidates_start + choice->tried_count++];
    uint64_t end = branch->lowest_offset[item] + cluster->bytes[item];
    ASSERT(!branch->is_placed[item] && end <= branch->ceiling_bytes);
    choice->placed = item;
    branch->is_placed[item] = true;
    for (int i = branch->neighbour_starts[item]; i < branch->neighbour_starts[item + 1]; i++) {
        int other = branch->neighbours[i];
        if (!branch->is_placed[other] && branch->lowest_offset[other] < end) {
            branch->undos[branch->undo_count++] =
                (struct undo){branch->lowest_offset[other], other};
            branch->lowest_offset[other] = align_up(end, cluster->align[other]);
        }
    }
    ASSERT(branch->undo_count <= branch->neighbour_starts[cluster->count] / 2);
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
                                    .floor_offset = branch->lowest_offset[item],
                                    .floor_rank = branch->rank[item]});
}

static void undo_placement(struct branch *branch, struct choice *choice) {
    if (choice->placed < 0) {
        return;
    }
    int item = choice->placed;
    ASSERT(branch->is_placed[item]);
    ASSERT(branch->goal_count >= choice->goal_count && branch->items_used >= choice->items_used);
    while (branch->undo_count > choice->undo_count) {
        struct undo undo = branch->undos[--branch->undo_count];
        branch->lowest_offset[undo.item] = undo.lowest_offset;
    }
    branch->is_placed[item] = false;
    branch->goal_count = choice->goal_count;
    branch->items_used = choice->items_used;
    choice->placed = -1;
}

/* The goal of the topmost choice has no solution: undo all choices down to the one that created
 * it. */
static void abandon_goal(struct branch *branch) {
    int parent = branch->goals[branch->choices[branch->choice_count - 1].goal].parent;
    ASSERT(parent < branch->choice_count - 1); /* a goal is created before its first choice */
    while (branch->choice_count - 1 > parent) {
        struct choice *choice = &branch->choices[--branch->choice_count];
        undo_placement(branch, choice);
        branch->items_used = choice->candidates_start;
    }
}

static int start_search(struct branch *branch, uint64_t ceiling_bytes, const int *sequence) {
    const struct cluster *cluster = branch->cluster;
    branch->ceiling_bytes = ceiling_bytes;
    branch->choice_count = branch->goal_count = branch->undo_count = 0;
    for (int i = 0; i < cluster->count; i++) {
        ASSERT(sequence[i] >= 0 && sequence[i] < cluster->count);
        branch->rank[sequence[i]] = i;
        branch->lowest_offset[i] = align_up(cluster->base_bytes, cluster->align[i]);
        branch->is_placed[i] = false;
        branch->items[i] = branch->sorted_items[i];
    }
    branch->items_used = cluster->count;
    return push_goals(branch, 0, (struct goal){.parent = -1, .next = -1, .floor_rank = -1});
}

static void store_layout(const struct branch *branch, struct layout *layout) {
    uint64_t peak_bytes = branch->cluster->base_bytes;
    for (int i = 0; i < branch->cluster->count; i++) {
        uint64_t end = branch->lowest_offset[i] + branch->cluster->bytes[i];
        ASSERT(branch->is_placed[i]);
        layout->offset[i] = branch->lowest_offset[i];
        peak_bytes = end > peak_bytes ? end : peak_bytes;
    }
    ASSERT(peak_bytes <= branch->ceiling_bytes);
    layout->peak_bytes = peak_bytes;
    layout->heuristic = "exact search";
}

enum branch_result branch_find_layout(struct branch *branch, uint64_t ceiling_bytes,
                                      const int *sequence, struct effort *effort,
                                      struct layout *layout) {
    int open = start_search(branch, ceiling_bytes, sequence);
    while (open >= 0) {
        if (effort_is_exhausted(effort)) {
            return BRANCH_WORK_LIMIT;
        }
        push_choice(branch, open, effort);
        struct choice *top = &branch->choices[branch->choice_count - 1];
        while (top->tried_count == top->candidate_count) {
            abandon_goal(branch);
            if (branch->choice_count == 0) {
                return BRANCH_IMPOSSIBLE;
            }
            top = &branch->choices[branch->choice_count - 1];
        }
        undo_placement(branch, top);
        open = place_next_candidate(branch, top, branch->choice_count - 1);
    }
    ASSERT(branch->choice_count == branch->cluster->count); /* each choice placed one item */
    store_layout(branch, layout);
    return BRANCH_FOUND;
}
