#include "runtime/diagnose/plan_site.h"

#include "base/text.h"
#include "runtime/shard/shard.h"

#include <string.h>

static void count_padding(const struct session *session, struct region *region,
                          struct site_report *report) {
    const struct unit_table *units = session->program.schedule.units;
    int shards = session->sharding_settings.sharding.shard;
    struct unit_part *parts = region_alloc(region, (size_t)units->param_count, sizeof *parts);
    report->padding_of_shard =
        region_alloc(region, (size_t)shards, sizeof *report->padding_of_shard);
    for (int unit = 0; unit < units->unit_count; unit++) {
        for (int shard = 0; shard < shards; shard++) {
            struct unit_range range = unit_shard_range(&units->units[unit], shards, shard);
            int64_t padding = range.end - range.begin;
            int count = unit_list_parts(units, unit, range, parts);
            for (int i = 0; i < count; i++) {
                padding -= parts[i].count;
            }
            report->padding_of_shard[shard] += padding;
        }
    }
}

static enum status plan_other_stages(const struct session *session, struct site_report *report,
                                     struct fault *fault) {
    const struct sharding *sharding = &session->sharding_settings.sharding;
    bool late = sharding->reduce_at == REDUCE_AT_STEP && sharding->shard > 1;
    int highest = late ? 1 : ZERO_STAGE_COUNT - 1; /* strategy_check_reduction */
    struct what_if trial;
    enum status status = OK;
    what_if_init(&trial, session, PURPOSE_TRAIN);
    for (int zero = 0; zero <= highest && status == OK; zero++) {
        struct what_if_outcome outcome = report->own;
        if (zero != (int)session
                        ->settings
                        /* the run's own stage needs no new plan: its outcome is report->own */
                        .zero_stage) {
            trial.session.settings.zero_stage = zero;
            status = what_if_plan(&trial, &outcome, fault);
        }
        if (status == OK) {
            report->stages[report->stage_count++] = (struct stage_row){zero, outcome};
        }
    }
    what_if_finish(&trial);
    return status;
}

/* Among equally fast stages, selects the highest, which needs the least memory. */
static int find_fastest_stage(const struct site_report *report) {
    int fastest = -1;
    for (int i = 0; i < report->stage_count; i++) {
        const struct what_if_outcome *outcome = &report->stages[i].outcome;
        bool faster =
            fastest < 0 || outcome->step.seconds <= report->stages[fastest].outcome.step.seconds;
        fastest = outcome->fits && faster ? i : fastest;
    }
    return fastest;
}

static struct text next_note_text(struct site_report *report) {
    ASSERT(report->note_count < SITE_NOTES_MAX);
    return text_over(report->notes[report->note_count++], SITE_NOTE_BYTES);
}

static int find_largest_unit(const struct unit_table *units) {
    int largest = 0;
    for (int unit = 1; unit < units->unit_count; unit++) {
        largest = units->units[unit].elements > units->units[largest].elements ? unit : largest;
    }
    return largest;
}

static void warn_of_large_unit(struct site_report *report) {
    const struct unit_table *units = report->session->program.schedule.units;
    const struct unit *largest = &units->units[find_largest_unit(units)];
    int shards = report->session->sharding_settings.sharding.shard;
    int64_t elements = 0;
    for (int unit = 0; unit < units->unit_count; unit++) {
        elements += units->units[unit].elements;
    }
    double share = (double)largest->elements / (double)elements;
    if (units->unit_count == 1) {
        struct text note = next_note_text(report);
        text_add(&note,
                 "unit %s is the whole model: sharding the parameters saves nothing, because all "
                 "are gathered at once; strategy.units=block gathers one block at a time",
                 largest->name);
    } else if (share * shards > shards - 1) {
        struct text note = next_note_text(report);
        text_add(
            &note,
            "unit %s has %.1f %% of all parameters, more than the %.1f %% that %d shards save: "
            "gathering it can use more memory than ZeRO 3 saves compared with ZeRO 2",
            largest->name, 100 * share, 100 - 100.0 / shards, shards);
    }
}

static void warn_of_stage_order(struct site_report *report) {
    for (int i = 1; i < report->stage_count; i++) {
        const struct stage_row *row = &report->stages[i];
        uint64_t peak = row->outcome.peak_bytes[SPACE_DEVICE];
        uint64_t before = row[-1].outcome.peak_bytes[SPACE_DEVICE];
        char more[24];
        if (peak > before) {
            struct text note = next_note_text(report);
            text_add(&note, "ZeRO %d needs %s more memory than ZeRO %d for this run", row->zero,
                     text_format_bytes(peak - before, more), row[-1].zero);
        }
    }
}

enum status plan_site_read(const struct session *session, struct region *region,
                           struct site_report *report, struct fault *fault) {
    memset(report, 0, sizeof *report);
    report->session = session;
    report->own = what_if_outcome_of(session);
    count_padding(session, region, report);
    enum status status = plan_other_stages(session, report, fault);
    report->fastest = find_fastest_stage(report);
    if (status == OK && session->sharding_settings.sharding.shard > 1) {
        warn_of_large_unit(report);
        warn_of_stage_order(report);
    }
    return status;
}
