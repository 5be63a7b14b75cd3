/* plan_site_json: the part of a plan that is about ranks, for programs. */
#include "runtime/cli/reports/plan_site_report.h"

#include "base/text.h"

#include <stdio.h>

static void put_string(const char *value) {
    char buffer[6 * SITE_NOTE_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    text_add_json(&text, value);
    ASSERT(!text.cut);
    fputs(buffer, stdout);
}

static void put_units(const struct site_report *report) {
    const struct session *session = report->session;
    const struct sharding *sharding = &session->spread.sharding;
    const struct unit_table *units = session->program.schedule.units;
    printf(",\n\"units\": [");
    for (int i = 0; i < units->unit_count; i++) {
        const struct unit *unit = &units->units[i];
        printf("%s\n{\"name\": ", i > 0 ? "," : "");
        put_string(unit->name);
        printf(", \"elements\": %lld, \"padding\": %lld, \"shard_elements\": %lld, \"zero\": %d, "
               "\"keep_gathered\": %s, \"frozen\": %s}",
               (long long)unit->elements, (long long)unit->padding_elements,
               (long long)unit_shard_elements(unit, sharding->shard), sharding->units[i].zero,
               sharding->units[i].keep_gathered ? "true" : "false",
               unit->frozen ? "true" : "false");
    }
    printf("],\n\"padding_of_shard\": [");
    for (int shard = 0; shard < sharding->shard; shard++) {
        printf("%s%lld", shard > 0 ? ", " : "", (long long)report->padding_of_shard[shard]);
    }
    printf("]");
}

static void put_volumes(const struct site_report *report) {
    const struct step_volumes *volumes = &report->session->program.schedule.volumes;
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {{"gather_forward", volumes->gather_forward},
                {"gather_backward", volumes->gather_backward},
                {"reduce", volumes->reduce},
                {"reduce_whole", volumes->reduce_whole},
                {"replicate", volumes->replicate},
                {"gather_params", volumes->gather_params},
                {"tallies", report->own.tally_bytes},
                {"total", report->own.received_bytes}};
    printf(",\n\"volumes\": {");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        printf("%s\"%s\": %llu", i > 0 ? ", " : "", rows[i].name,
               (unsigned long long)rows[i].bytes);
    }
    printf("},\n\"estimate\": {\"step_seconds\": %.9g, \"communication_seconds\": %.9g, "
           "\"hidden_seconds\": %.9g}",
           report->own.step.seconds, report->own.step.collective_seconds,
           report->own.step.hidden_seconds);
}

static void put_stages(const struct site_report *report) {
    printf(",\n\"stages\": [");
    for (int i = 0; i < report->stage_count; i++) {
        const struct stage_row *row = &report->stages[i];
        const char *separator = "";
        printf("%s\n{\"zero\": %d, \"peak_bytes\": {", i > 0 ? "," : "", row->zero);
        for (int space = 0; space < SPACE_COUNT; space++) {
            if (row->outcome.peak_bytes[space] > 0) {
                printf("%s\"%s\": %llu", separator, space_name((enum space)space),
                       (unsigned long long)row->outcome.peak_bytes[space]);
                separator = ", ";
            }
        }
        printf("}, \"fits\": %s, \"received_bytes\": %llu, \"step_seconds\": %.9g}",
               row->outcome.fits ? "true" : "false",
               (unsigned long long)row->outcome.received_bytes, row->outcome.step.seconds);
    }
    printf("],\n\"fastest_zero\": ");
    if (report->fastest >= 0) {
        printf("%d", report->stages[report->fastest].zero);
    } else {
        printf("null");
    }
    printf(",\n\"notes\": [");
    for (int i = 0; i < report->note_count; i++) {
        printf("%s", i > 0 ? ", " : "");
        put_string(report->notes[i]);
    }
    printf("]");
}

void plan_site_print_json(const struct site_report *report) {
    const struct sharding *sharding = &report->session->spread.sharding;
    printf(",\n\"mesh\": {\"replicate\": %d, \"shard\": %d}", sharding->replicate, sharding->shard);
    put_units(report);
    put_volumes(report);
    put_stages(report);
}
