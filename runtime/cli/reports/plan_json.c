#include "runtime/cli/reports/plan_json.h"

#include "arena/formats/formats.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/session/disk_budget.h"
#include "runtime/session/remedies.h"

#include <stdio.h>
#include <unistd.h>

/* Names hold no quotes but may come from a file: always escaped. */
static void put_text(const char *key, const char *value) {
    char buffer[4 * NAME_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    text_add_json(&text, value);
    printf("\"%s\": %s", key, buffer);
}

static void put_number(const char *key, uint64_t value) {
    printf(", \"%s\": %llu", key, (unsigned long long)value);
}

static void put_line(const char *before, const char *name, uint64_t bytes) {
    printf("%s{", before);
    put_text("name", name);
    put_number("bytes", bytes);
    printf("}");
}

static void put_declared(const struct target *target, enum space space) {
    printf(", \"declared\": [");
    for (int i = 0; i < target->spaces[space].declared_count; i++) {
        const struct target_declared *line = &target->spaces[space].declared[i];
        put_line(i > 0 ? ", " : "", line->name, line->bytes);
    }
    printf("]");
}

static void begin_disk(const char *name, bool known, uint64_t capacity_bytes) {
    printf("{");
    put_text("name", name);
    put_number("capacity_bytes", known ? capacity_bytes : 0);
    printf(", \"capacity_known\": %s, \"declared\": [", known ? "true" : "false");
}

static void end_disk(uint64_t peak_bytes) {
    printf("]");
    put_number("peak_bytes", peak_bytes);
    put_number("bound_bytes", peak_bytes);
    printf("}");
}

/* An export on a file system of its own is a space of its own. */
static void put_disk(const struct disk_budget *disk) {
    begin_disk("disk", disk->capacity_known, disk->capacity_bytes);
    if (!disk->export_apart) {
        put_line("", "export", disk->export_bytes);
    }
    put_line(disk->export_apart ? "" : ", ", "snapshots",
             disk->snapshot_bytes * disk->snapshot_count);
    if (disk->results_bytes > 0) {
        put_line(", ", "results", disk->results_bytes);
        put_line(", ", "ledger", disk->ledger_bytes);
    }
    end_disk(disk->peak_bytes);
    if (disk->export_apart) {
        printf(", ");
        begin_disk("export_disk", disk->capacity_known, disk->export_capacity_bytes);
        put_line("", "export", disk->export_bytes);
        end_disk(disk->export_bytes);
    }
}

static void put_spaces(const struct session *session) {
    const struct plan *plan = &session->program.plan;
    struct disk_budget disk = disk_budget_of(session);
    printf("\"spaces\": [");
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (plan->peak_bytes[space] == 0) {
            continue;
        }
        printf("{");
        put_text("name", space_name((enum space)space));
        put_number("capacity_bytes", session->target->spaces[space].capacity_bytes);
        put_declared(session->target, (enum space)space);
        put_number("peak_bytes", plan->peak_bytes[space]);
        put_number("bound_bytes", plan->bound_bytes[space]);
        printf("}, ");
    }
    put_disk(&disk);
    printf("]");
}

static void put_extents(const struct session *session) {
    printf(",\n\"extents\": [");
    for (int i = 0; i < session->program.schedule.extent_count; i++) {
        const struct extent *extent = &session->program.schedule.extents[i];
        printf("%s\n{", i > 0 ? "," : "");
        put_text("name", extent->name);
        printf(", ");
        put_text("role", extent_role_name(extent->role));
        printf(", ");
        put_text("space", space_name(extent->space));
        put_number("offset", session->program.plan.offsets[i]);
        put_number("bytes", extent->bytes);
        put_number("align", extent->align);
        put_number("first", extent->first);
        put_number("last", extent->last);
        printf("}");
    }
    printf("]");
}

static void put_blame(struct session *session) {
    const struct plan *plan = &session->program.plan;
    struct tenant_list list = report_tenant_list(plan, SPACE_DEVICE, &session->region);
    printf(",\n\"blame\": {\"step\": %u, \"tenants\": [", plan->peak_step[SPACE_DEVICE]);
    for (int i = 0; i < list.count; i++) {
        put_line(i > 0 ? ",\n" : "\n", list.tenants[i].name, list.tenants[i].bytes);
    }
    printf("]}");
}

static enum status put_remedies(const struct session *session, struct fault *fault) {
    struct remedy remedies[REMEDIES_MAX];
    int count;
    enum status status = remedies_find(session, PURPOSE_TRAIN, remedies, &count, fault);
    if (status != OK) {
        return status;
    }
    printf(",\n\"remedies\": [");
    for (int i = 0; i < count; i++) {
        printf("%s{\"change\": {", i > 0 ? ", " : "");
        for (int k = 0; k < remedies[i].change_count; k++) {
            printf("%s", k > 0 ? ", " : "");
            put_text(remedies[i].changes[k].key, remedies[i].changes[k].value);
        }
        printf("}");
        put_number("peak_bytes", remedies[i].peak_bytes);
        printf("}");
    }
    printf("]");
    return OK;
}

enum status plan_print_json(struct session *session, const struct site_report *site, bool fits,
                            struct fault *fault) {
    char hash[HASH_HEX_BYTES];
    enum status status = OK;
    printf("{\"format\": 1, \"hash\": \"%s\", \"fits\": %s, ",
           hash_hex(&session->program.hash, hash), fits ? "true" : "false");
    put_text("model", session->run.model);
    printf(", ");
    put_text("target", session->target->name);
    printf(", \"ranks\": %d, \"program_steps\": %d,\n", session->ranks > 1 ? session->ranks : 1,
           session->program.schedule.instruction_count);
    put_spaces(session);
    put_extents(session);
    if (site != NULL) {
        plan_site_print_json(site);
    }
    if (!fits) {
        put_blame(session);
        status = put_remedies(session, fault);
    }
    printf("}\n");
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
