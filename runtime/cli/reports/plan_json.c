/* plan_json: writes a plan as a JSON document (skep plan --json) and as a drawing. */
#include "runtime/cli/reports/reports.h"

#include "arena/formats/formats.h"
#include "base/file.h"
#include "runtime/session/disk_budget.h"
#include "runtime/session/remedies.h"

#include <stdio.h>
#include <unistd.h>

static void add_named_bytes(struct json_writer *json, const char *name, uint64_t bytes) {
    json_begin_object(json, NULL);
    json_add_text(json, "name", name);
    json_add_u64(json, "bytes", bytes);
    json_end(json);
}

static void begin_disk_space(struct json_writer *json, const char *name, bool known,
                             uint64_t capacity_bytes) {
    json_begin_object(json, NULL);
    json_add_text(json, "name", name);
    json_add_u64(json, "capacity_bytes", known ? capacity_bytes : 0);
    json_add_bool(json, "capacity_known", known);
    json_begin_array(json, "declared");
}

static void end_disk_space(struct json_writer *json, uint64_t peak_bytes) {
    json_end(json);
    json_add_u64(json, "peak_bytes", peak_bytes);
    json_add_u64(json, "bound_bytes", peak_bytes);
    json_end(json);
}

/* Adds the disk space that the run needs. If the export is on a different file system, the export's
 * space is added as a separate object. */
static void add_disk(struct json_writer *json, const struct disk_budget *disk) {
    begin_disk_space(json, "disk", disk->capacity_known, disk->capacity_bytes);
    if (!disk->has_separate_export_disk) {
        add_named_bytes(json, "export", disk->export_bytes);
    }
    add_named_bytes(json, "snapshots", disk->snapshot_bytes * disk->snapshot_count);
    if (disk->results_bytes > 0) {
        add_named_bytes(json, "results", disk->results_bytes);
        add_named_bytes(json, "ledger", disk->ledger_bytes);
        add_named_bytes(json, "states", disk->states_bytes);
    }
    end_disk_space(json, disk->peak_bytes);
    if (disk->has_separate_export_disk) {
        begin_disk_space(json, "export_disk", disk->capacity_known, disk->export_capacity_bytes);
        add_named_bytes(json, "export", disk->export_bytes);
        end_disk_space(json, disk->export_bytes);
    }
}

static void add_space(struct json_writer *json, const struct session *session, enum space space) {
    const struct target_space *of = &session->target->spaces[space];
    json_begin_object(json, NULL);
    json_add_text(json, "name", space_name(space));
    json_add_u64(json, "capacity_bytes", of->capacity_bytes);
    json_begin_array(json, "declared");
    for (int i = 0; i < of->declared_use_count; i++) {
        const struct target_declared_use *use = &of->declared[i];
        json_begin_object(json, NULL);
        json_add_text(json, "name", use->name);
        json_add_u64(json, "bytes", use->bytes);
        json_add_text(json, "source", use->source);
        json_end(json);
    }
    json_end(json);
    json_add_u64(json, "peak_bytes", session->program.plan.peak_bytes[space]);
    json_add_u64(json, "bound_bytes", session->program.plan.bound_bytes[space]);
    json_end(json);
}

static void add_spaces(struct json_writer *json, const struct session *session) {
    struct disk_budget disk = disk_budget_of(session);
    json_begin_array(json_newline(json, 0), "spaces");
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (session->program.plan.peak_bytes[space] > 0) {
            add_space(json, session, (enum space)space);
        }
    }
    add_disk(json, &disk);
    json_end(json);
}

static void add_extents(struct json_writer *json, const struct session *session) {
    json_begin_array(json_newline(json, 0), "extents");
    for (int i = 0; i < session->program.schedule.extent_count; i++) {
        const struct extent *extent = &session->program.schedule.extents[i];
        json_begin_object(json_newline(json, 0), NULL);
        json_add_text(json, "name", extent->name);
        json_add_text(json, "role", extent_role_name(extent->role));
        json_add_text(json, "space", space_name(extent->space));
        json_add_u64(json, "offset", session->program.plan.offsets[i]);
        json_add_u64(json, "bytes", extent->bytes);
        json_add_u64(json, "align", extent->align);
        json_add_u64(json, "first", extent->first);
        json_add_u64(json, "last", extent->last);
        json_end(json);
    }
    json_end(json);
}

static void add_unit(struct json_writer *json, const struct sharding *sharding,
                     const struct unit_table *units, int index) {
    const struct unit *unit = &units->units[index];
    json_begin_object(json_newline(json, 0), NULL);
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
    const struct sharding *sharding = &session->sharding_settings.sharding;
    const struct unit_table *units = session->program.schedule.units;
    json_begin_array(json_newline(json, 0), "units");
    for (int i = 0; i < units->unit_count; i++) {
        add_unit(json, sharding, units, i);
    }
    json_end(json);
    json_begin_array(json_newline(json, 0), "padding_of_shard");
    for (int shard = 0; shard < sharding->shard; shard++) {
        json_add_i64(json, NULL, report->padding_of_shard[shard]);
    }
    json_end(json);
}

static void add_volumes(struct json_writer *json, const struct site_report *report) {
    const struct step_volumes *volumes = &report->session->program.schedule.volumes;
    json_begin_object(json_newline(json, 0), "volumes");
    json_add_u64(json, "gather_forward", volumes->gather_forward);
    json_add_u64(json, "gather_backward", volumes->gather_backward);
    json_add_u64(json, "reduce", volumes->reduce);
    json_add_u64(json, "reduce_whole", volumes->gather_reduced_gradients);
    json_add_u64(json, "replicate", volumes->between_replicas);
    json_add_u64(json, "gather_params", volumes->gather_params);
    json_add_u64(json, "tallies", report->own.tally_bytes);
    json_add_u64(json, "total", report->own.received_bytes);
    json_end(json);
    json_begin_object(json_newline(json, 0), "estimate");
    json_add_f64(json, "step_seconds", report->own.step.seconds, 9);
    json_add_f64(json, "communication_seconds", report->own.step.collective_seconds, 9);
    json_add_f64(json, "hidden_seconds", report->own.step.hidden_seconds, 9);
    json_end(json);
}

static void add_stage(struct json_writer *json, const struct stage_row *row) {
    json_begin_object(json_newline(json, 0), NULL);
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
    json_begin_array(json_newline(json, 0), "stages");
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
    json_begin_array(json_newline(json, 0), "notes");
    for (int i = 0; i < report->note_count; i++) {
        json_add_text(json, NULL, report->notes[i]);
    }
    json_end(json);
}

static void add_site(struct json_writer *json, const struct site_report *report) {
    const struct sharding *sharding = &report->session->sharding_settings.sharding;
    json_begin_object(json_newline(json, 0), "mesh");
    json_add_i64(json, "replicate", sharding->replicate);
    json_add_i64(json, "shard", sharding->shard);
    json_end(json);
    add_units(json, report);
    add_volumes(json, report);
    add_stages(json, report);
}

/* Adds the extents that are alive at the peak. This function is called when the plan does not
 * fit. */
static void add_peak_extents(struct json_writer *json, struct session *session) {
    const struct plan *plan = &session->program.plan;
    struct tenant_list list = list_tenants(plan, SPACE_DEVICE, &session->region);
    json_begin_object(json_newline(json, 0), "blame");
    json_add_u64(json, "step", plan->peak_step[SPACE_DEVICE]);
    json_begin_array(json, "tenants");
    for (int i = 0; i < list.count; i++) {
        add_named_bytes(json_newline(json, 0), list.tenants[i].name, list.tenants[i].bytes);
    }
    json_end(json);
    json_end(json);
}

void remedies_add_json(const struct remedy *remedies, int count, struct json_writer *json) {
    json_begin_array(json, "remedies");
    for (int i = 0; i < count; i++) {
        json_begin_object(json, NULL);
        json_begin_object(json, "change");
        for (int k = 0; k < remedies[i].change_count; k++) {
            json_add_text(json, remedies[i].changes[k].key, remedies[i].changes[k].value);
        }
        json_end(json);
        json_add_u64(json, "peak_bytes", remedies[i].peak_bytes);
        json_end(json);
    }
    json_end(json);
}

static enum status add_remedies(struct json_writer *json, const struct session *session, int *count,
                                struct fault *fault) {
    struct remedy remedies[REMEDIES_MAX];
    struct fault unused;
    if (program_check_fit(&session->program, &unused) != OK) {
        TRY(remedies_find(session, PURPOSE_TRAIN, remedies, count, fault));
    }
    remedies_add_json(remedies, *count, json_newline(json, 0));
    return OK;
}

/* Adds whether the run can begin with its data files, which a plan does not need. */
static void add_data_check(struct json_writer *json, const struct fault *problem) {
    json_begin_object(json, "data");
    json_add_bool(json, "ok", problem->status == OK);
    if (problem->status != OK) {
        json_add_text(json, "subject", problem->subject);
        json_add_text(json, "reason", problem->reason);
        json_add_text(json, "remedy", problem->remedy);
    }
    json_end(json);
}

/* Adds the length of the run, and for each default value the place from which it comes. */
static void add_settings(struct json_writer *json, struct session *session) {
    const struct settings *settings = &session->settings;
    struct fault problem;
    const double passes = session_count_data_passes(session, &problem);
    if (settings->epochs == 0) {
        json_add_i64(json, "steps", settings->steps);
    }
    if (passes > 0) {
        json_add_f64(json, "passes", passes, 6);
    }
    add_data_check(json, &problem);
    json_begin_array(json_newline(json, 0), "defaults");
    for (int i = 0; i < setting_key_count(); i++) {
        const char *source = settings_default_source(settings, setting_key_at(i));
        if (source != NULL) {
            json_begin_object(json, NULL);
            json_add_text(json, "key", setting_key_at(i)->name);
            json_add_text(json, "source", source);
            json_end(json);
        }
    }
    json_end(json);
}

enum status plan_print_json(struct session *session, const struct site_report *site, bool fits,
                            int *remedy_count, struct fault *fault) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out, JSON_ONE_LINE);
    enum status status = OK;
    json_add_hex(json, "hash", session->program.hash.bytes, HASH_BYTES);
    json_add_bool(json, "fits", fits);
    json_add_text(json, "model", session->settings.model);
    json_add_text(json, "target", session->target->name);
    json_add_i64(json, "ranks", session->ranks > 1 ? session->ranks : 1);
    json_add_i64(json, "program_steps", session->program.schedule.instruction_count);
    add_settings(json, session);
    rates_report_add_json(&session->settings, 0, json);
    add_spaces(json, session);
    add_extents(json, session);
    if (site != NULL) {
        add_site(json, site);
    }
    if (!fits) {
        add_peak_extents(json, session);
        status = add_remedies(json, session, remedy_count, fault);
    }
    json_stdout_end(&out);
    return status;
}

enum status plan_draw(struct session *session, const char *path, struct fault *fault) {
    const struct schedule *schedule = &session->program.schedule;
    struct drawing_mark marks[SEGMENT_COUNT];
    char title[2 * PATH_BYTES];
    struct drawing drawing = {.plan = &session->program.plan, .title = title, .marks = marks};
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        if (schedule->segments[kind].first < schedule->segments[kind].end) {
            marks[drawing.mark_count++] = (struct drawing_mark){
                segment_name((enum segment_kind)kind), schedule->segments[kind].first};
        }
    }
    snprintf(title, sizeof title, "%s on %s", session->settings.model, session->target->name);
    int fd;
    enum status status = file_open_write(path, &fd, fault);
    if (status == OK) {
        status = drawing_write(&drawing, fd, path, &session->region, fault);
        close(fd);
    }
    return status;
}
