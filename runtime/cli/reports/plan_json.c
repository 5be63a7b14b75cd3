#include "runtime/cli/reports/plan_json.h"

#include "arena/formats/formats.h"
#include "base/file.h"
#include "runtime/cli/reports/json_stdout.h"
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

static void begin_disk(struct json_writer *json, const char *name, bool known,
                       uint64_t capacity_bytes) {
    json_begin_object(json, NULL);
    json_add_text(json, "name", name);
    json_add_u64(json, "capacity_bytes", known ? capacity_bytes : 0);
    json_add_bool(json, "capacity_known", known);
    json_begin_array(json, "declared");
}

static void end_disk(struct json_writer *json, uint64_t peak_bytes) {
    json_end(json);
    json_add_u64(json, "peak_bytes", peak_bytes);
    json_add_u64(json, "bound_bytes", peak_bytes);
    json_end(json);
}

/* An export on another file system is listed as a space of its own. */
static void add_disk(struct json_writer *json, const struct disk_budget *disk) {
    begin_disk(json, "disk", disk->capacity_known, disk->capacity_bytes);
    if (!disk->export_apart) {
        add_named_bytes(json, "export", disk->export_bytes);
    }
    add_named_bytes(json, "snapshots", disk->snapshot_bytes * disk->snapshot_count);
    if (disk->results_bytes > 0) {
        add_named_bytes(json, "results", disk->results_bytes);
        add_named_bytes(json, "ledger", disk->ledger_bytes);
    }
    end_disk(json, disk->peak_bytes);
    if (disk->export_apart) {
        begin_disk(json, "export_disk", disk->capacity_known, disk->export_capacity_bytes);
        add_named_bytes(json, "export", disk->export_bytes);
        end_disk(json, disk->export_bytes);
    }
}

static void add_space(struct json_writer *json, const struct session *session, enum space space) {
    const struct target_space *of = &session->target->spaces[space];
    json_begin_object(json, NULL);
    json_add_text(json, "name", space_name(space));
    json_add_u64(json, "capacity_bytes", of->capacity_bytes);
    json_begin_array(json, "declared");
    for (int i = 0; i < of->declared_count; i++) {
        add_named_bytes(json, of->declared[i].name, of->declared[i].bytes);
    }
    json_end(json);
    json_add_u64(json, "peak_bytes", session->program.plan.peak_bytes[space]);
    json_add_u64(json, "bound_bytes", session->program.plan.bound_bytes[space]);
    json_end(json);
}

static void add_spaces(struct json_writer *json, const struct session *session) {
    struct disk_budget disk = disk_budget_of(session);
    json_newline(json, 0);
    json_begin_array(json, "spaces");
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (session->program.plan.peak_bytes[space] > 0) {
            add_space(json, session, (enum space)space);
        }
    }
    add_disk(json, &disk);
    json_end(json);
}

static void add_extents(struct json_writer *json, const struct session *session) {
    json_newline(json, 0);
    json_begin_array(json, "extents");
    for (int i = 0; i < session->program.schedule.extent_count; i++) {
        const struct extent *extent = &session->program.schedule.extents[i];
        json_newline(json, 0);
        json_begin_object(json, NULL);
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

/* The extents that are alive at the peak, when the plan does not fit. */
static void add_blame(struct json_writer *json, struct session *session) {
    const struct plan *plan = &session->program.plan;
    struct tenant_list list = report_tenant_list(plan, SPACE_DEVICE, &session->region);
    json_newline(json, 0);
    json_begin_object(json, "blame");
    json_add_u64(json, "step", plan->peak_step[SPACE_DEVICE]);
    json_begin_array(json, "tenants");
    for (int i = 0; i < list.count; i++) {
        json_newline(json, 0);
        add_named_bytes(json, list.tenants[i].name, list.tenants[i].bytes);
    }
    json_end(json);
    json_end(json);
}

static enum status add_remedies(struct json_writer *json, const struct session *session,
                                struct fault *fault) {
    struct remedy remedies[REMEDIES_MAX];
    int count;
    TRY(remedies_find(session, PURPOSE_TRAIN, remedies, &count, fault));
    json_newline(json, 0);
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
    return OK;
}

enum status plan_print_json(struct session *session, const struct site_report *site, bool fits,
                            struct fault *fault) {
    struct json_stdout out;
    struct json_writer *json = json_stdout_begin(&out);
    enum status status = OK;
    json_add_i64(json, "format", 1);
    json_add_hex(json, "hash", session->program.hash.bytes, HASH_BYTES);
    json_add_bool(json, "fits", fits);
    json_add_text(json, "model", session->run.model);
    json_add_text(json, "target", session->target->name);
    json_add_i64(json, "ranks", session->ranks > 1 ? session->ranks : 1);
    json_add_i64(json, "program_steps", session->program.schedule.instruction_count);
    add_spaces(json, session);
    add_extents(json, session);
    if (site != NULL) {
        plan_site_add_json(json, site);
    }
    if (!fits) {
        add_blame(json, session);
        status = add_remedies(json, session, fault);
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
    snprintf(title, sizeof title, "%s on %s", session->run.model, session->target->name);
    int fd;
    enum status status = file_open_write(path, &fd, fault);
    if (status == OK) {
        status = drawing_write(&drawing, fd, path, &session->region, fault);
        close(fd);
    }
    return status;
}
