/* plan_site_json: the part of a plan that is about ranks, as members of its JSON document. */
#include "runtime/cli/reports/plan_site_report.h"

static void add_unit(struct json_writer *json, const struct sharding *sharding,
                     const struct unit_table *units, int index) {
    const struct unit *unit = &units->units[index];
    json_newline(json, 0);
    json_begin_object(json, NULL);
    json_add_text(json, "name", unit->name);
    json_add_i64(json, "elements", unit->elements);
    json_add_i64(json, "padding", unit->padding_elements);
    json_add_i64(json, "shard_elements", unit_shard_elements(unit, sharding->shard));
    json_add_i64(json, "zero", sharding->units[index].zero);
    json_add_bool(json, "keep_gathered", sharding->units[index].keep_gathered);
    json_add_bool(json, "frozen", unit->frozen);
    json_end(json);
}

static void add_units(struct json_writer *json, const struct site_report *report) {
    const struct session *session = report->session;
    const struct sharding *sharding = &session->spread.sharding;
    const struct unit_table *units = session->program.schedule.units;
    json_newline(json, 0);
    json_begin_array(json, "units");
    for (int i = 0; i < units->unit_count; i++) {
        add_unit(json, sharding, units, i);
    }
    json_end(json);
    json_newline(json, 0);
    json_begin_array(json, "padding_of_shard");
    for (int shard = 0; shard < sharding->shard; shard++) {
        json_add_i64(json, NULL, report->padding_of_shard[shard]);
    }
    json_end(json);
}

static void add_volumes(struct json_writer *json, const struct site_report *report) {
    const struct step_volumes *volumes = &report->session->program.schedule.volumes;
    json_newline(json, 0);
    json_begin_object(json, "volumes");
    json_add_u64(json, "gather_forward", volumes->gather_forward);
    json_add_u64(json, "gather_backward", volumes->gather_backward);
    json_add_u64(json, "reduce", volumes->reduce);
    json_add_u64(json, "reduce_whole", volumes->reduce_whole);
    json_add_u64(json, "replicate", volumes->replicate);
    json_add_u64(json, "gather_params", volumes->gather_params);
    json_add_u64(json, "tallies", report->own.tally_bytes);
    json_add_u64(json, "total", report->own.received_bytes);
    json_end(json);
    json_newline(json, 0);
    json_begin_object(json, "estimate");
    json_add_f64(json, "step_seconds", report->own.step.seconds, 9);
    json_add_f64(json, "communication_seconds", report->own.step.collective_seconds, 9);
    json_add_f64(json, "hidden_seconds", report->own.step.hidden_seconds, 9);
    json_end(json);
}

static void add_stage(struct json_writer *json, const struct stage_row *row) {
    json_newline(json, 0);
    json_begin_object(json, NULL);
    json_add_i64(json, "zero", row->zero);
    json_begin_object(json, "peak_bytes");
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (row->outcome.peak_bytes[space] > 0) {
            json_add_u64(json, space_name((enum space)space), row->outcome.peak_bytes[space]);
        }
    }
    json_end(json);
    json_add_bool(json, "fits", row->outcome.fits);
    json_add_u64(json, "received_bytes", row->outcome.received_bytes);
    json_add_f64(json, "step_seconds", row->outcome.step.seconds, 9);
    json_end(json);
}

static void add_stages(struct json_writer *json, const struct site_report *report) {
    json_newline(json, 0);
    json_begin_array(json, "stages");
    for (int i = 0; i < report->stage_count; i++) {
        add_stage(json, &report->stages[i]);
    }
    json_end(json);
    json_newline(json, 0);
    if (report->fastest >= 0) {
        json_add_i64(json, "fastest_zero", report->stages[report->fastest].zero);
    } else {
        json_add_null(json, "fastest_zero");
    }
    json_newline(json, 0);
    json_begin_array(json, "notes");
    for (int i = 0; i < report->note_count; i++) {
        json_add_text(json, NULL, report->notes[i]);
    }
    json_end(json);
}

void plan_site_add_json(struct json_writer *json, const struct site_report *report) {
    const struct sharding *sharding = &report->session->spread.sharding;
    json_newline(json, 0);
    json_begin_object(json, "mesh");
    json_add_i64(json, "replicate", sharding->replicate);
    json_add_i64(json, "shard", sharding->shard);
    json_end(json);
    add_units(json, report);
    add_volumes(json, report);
    add_stages(json, report);
}
