/* inspect_shards: which rank has what of every unit, for people. */
#include "runtime/cli/reports/inspect_report.h"

#include "base/text.h"

#include <stdio.h>

enum { RANKS_SHOWN = 16 }; /* more have to be asked for */

static bool is_whole(const struct inspect_report *report, const struct unit_part *part) {
    const struct unit_table *units = report->units;
    return part->count == units->params[units->index_of_param[part->param]].elements;
}

static int64_t held(const struct unit_part *parts, int count) {
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        sum += parts[i].count;
    }
    return sum;
}

static void print_parts(const struct inspect_report *report, int count) {
    for (int i = 0; i < count; i++) {
        const struct unit_part *part = &report->parts[i];
        const char *name = report->blueprint->params[part->param].name;
        if (is_whole(report, part)) {
            printf("    %s\n", name);
        } else {
            printf("    %s [%lld, %lld)\n", name, (long long)part->first,
                   (long long)(part->first + part->count));
        }
    }
}

static void print_rank(const struct inspect_report *report, int unit, int64_t rank) {
    struct unit_range range = unit_shard(&report->units->units[unit], report->shards, rank);
    int count = unit_parts(report->units, unit, range, report->parts);
    int whole = 0;
    char bounds[48];
    char cut[24];
    for (int i = 0; i < count; i++) {
        whole += is_whole(report, &report->parts[i]);
    }
    snprintf(bounds, sizeof bounds, "%lld..%lld", (long long)range.begin, (long long)range.end);
    snprintf(cut, sizeof cut, "%d in part", count - whole);
    printf("  rank %-5lld %-28s %3d whole, %-11s %12lld padding\n", (long long)rank, bounds, whole,
           cut, (long long)(range.end - range.begin - held(report->parts, count)));
    if (report->full) {
        print_parts(report, count);
    }
}

static void print_unit(const struct inspect_report *report, int first, int end) {
    const struct unit *unit = &report->units->units[first];
    int64_t slot = unit_shard_elements(unit, report->shards);
    bool all = report->full || report->shards <= RANKS_SHOWN;
    char name[48];
    char count[32];
    char bytes[24];
    printf("%-16s %s elements a rank, %s in f32, %lld padding in all\n",
           inspect_units_name(report, first, end, name), text_grouped((uint64_t)slot, count),
           text_bytes((uint64_t)slot * sizeof(float), bytes), (long long)unit->padding_elements);
    for (int64_t rank = 0; rank < (all ? report->shards : 0); rank++) {
        print_rank(report, first, rank);
    }
}

static void print_sum(const struct inspect_report *report) {
    int64_t slots = 0;
    int64_t padding = 0;
    char count[32];
    char bytes[24];
    for (int unit = 0; unit < report->units->unit_count; unit++) {
        slots += unit_shard_elements(&report->units->units[unit], report->shards);
        padding += report->units->units[unit].padding_elements;
    }
    printf("every rank       %s elements, %s in f32; padding of all ranks %lld (%.4f %%)\n",
           text_grouped((uint64_t)slots, count), text_bytes((uint64_t)slots * sizeof(float), bytes),
           (long long)padding, 100 * (double)padding / (double)(slots * report->shards));
}

void inspect_print_shards(const struct inspect_report *report) {
    printf("\nshards           elements of every flat unit, by rank of %lld\n",
           (long long)report->shards);
    for (int first = 0; first < report->units->unit_count;) {
        int end = report->full ? first + 1 : inspect_alike_end(report, first);
        print_unit(report, first, end);
        first = end;
    }
    print_sum(report);
    if (!report->full) {
        printf("%s\n", report->shards > RANKS_SHOWN ? "-v shows every rank and what it holds"
                                                    : "-v shows what each rank holds");
    }
}
