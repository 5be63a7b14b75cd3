#include "runtime/swarm/wire/attendance.h"

#include "base/log.h"
#include "runtime/swarm/packer/packer.h"

#include <string.h>

enum {
    LOG_INTERVAL_MIN_MS = 10 * 1000, /* shortest time between two log lines about attendance */
    /* longest time between two log lines about attendance while members stay missing */
    LOG_INTERVAL_MAX_MS = 10 * 60 * 1000,
    LOG_LINE_BYTES = 320, /* size of the longest log line about attendance, with its NUL */
};

static void pack_attendance(struct packer *pack, void *object) {
    struct attendance *attendance = object;
    pack_u32(pack, "present", &attendance->present);
    pack_u32(pack, "needed", &attendance->needed);
    pack_text(pack, "name", attendance->name, sizeof attendance->name);
    pack_u32(pack, "absence", &attendance->absence);
    pack_u32(pack, "others", &attendance->others);
    pack_u64(pack, "absent_ms", &attendance->absent_ms);
    pack_u32(pack, "are_electors", &attendance->are_electors);
    if (attendance->needed > SWARM_MEMBERS_MAX || attendance->others > SWARM_MEMBERS_MAX ||
        (attendance->needed > 0 && attendance->needed <= attendance->present) ||
        attendance->absence >= ABSENCES || attendance->are_electors > 1 ||
        attendance->absent_ms > INT64_MAX / 2) {
        packer_fail(pack, "has a number above the limit of its field");
    }
}

size_t attendance_write(const struct attendance *attendance,
                        uint8_t payload[static ATTENDANCE_BYTES_MAX]) {
    return packer_write(
        (struct packed_object){pack_attendance, (struct attendance *)(uintptr_t)attendance},
        payload, ATTENDANCE_BYTES_MAX);
}

const char *attendance_read(const uint8_t *payload, size_t count, struct attendance *attendance) {
    memset(attendance, 0, sizeof *attendance);
    return packer_read((struct packed_object){pack_attendance, attendance}, payload, count);
}

void attendance_init(struct attendance *attendance) {
    memset(attendance, 0, sizeof *attendance);
}

void attendance_add_absence(struct attendance *attendance, const char *name,
                            enum attendance_absence absence, uint64_t absent_ms) {
    const bool is_first = attendance->name[0] == '\0';
    attendance->others += !is_first;
    if (is_first || absent_ms < attendance->absent_ms) {
        struct text text = text_over(attendance->name, sizeof attendance->name);
        text_add(&text, "%s", name);
        attendance->absence = absence;
        attendance->absent_ms = absent_ms;
    }
}

void attendance_set_counts(struct attendance *attendance, uint32_t present, uint32_t needed) {
    if (present >= needed) {
        memset(attendance, 0, sizeof *attendance);
        return;
    }
    attendance->present = present;
    attendance->needed = needed;
}

/* Sets the needed electors to more than half of them. Exactly half is enough only with the first
 * elector, which may be the one that is missing. */
void attendance_set_electors(struct attendance *attendance, uint32_t present, uint32_t electors) {
    const uint32_t majority = electors / 2 + 1;
    attendance_set_counts(attendance, present, majority > present ? majority : present + 1);
    attendance->are_electors = 1;
}

void attendance_describe_need(const struct attendance *attendance, struct text *text) {
    ASSERT(attendance->needed > attendance->present);
    const uint32_t missing = attendance->needed - attendance->present;
    text_add(text, "%u more %s%s: %u of at least %u %s", missing,
             attendance->are_electors == 1 ? "elector" : "member", missing == 1 ? "" : "s",
             attendance->present, attendance->needed,
             attendance->are_electors == 1 ? "can vote here"
             : attendance->name[0] == '\0' ? "have joined"
                                           : "are here");
}

/* Writes how the last absent member was lost. */
static void describe_last_absence(const struct attendance *attendance, int64_t elapsed_ms,
                                  struct text *text) {
    if (attendance->absence == ABSENCE_REMOVED) {
        text_add(text, "; %s is not on the allow-list", attendance->name);
    } else {
        text_add(text, "; %s %s ", attendance->name,
                 attendance->absence == ABSENCE_LEFT ? "left" : "disconnected");
        activity_add_time(text, (double)attendance->absent_ms * 1e-3 + (double)elapsed_ms * 1e-3);
        text_add(text, " ago");
    }
    if (attendance->others > 0) {
        text_add(text, ", and %u other%s %s absent", attendance->others,
                 attendance->others == 1 ? "" : "s", attendance->others == 1 ? "is" : "are");
    }
}

void attendance_describe_absence(const struct attendance *attendance, int64_t elapsed_ms,
                                 struct text *text) {
    static const char *const REMEDIES[ABSENCES] = {[ABSENCE_DISCONNECTED] = "start it again",
                                                   [ABSENCE_LEFT] = "start it again",
                                                   [ABSENCE_REMOVED] = "add it again"};
    if (attendance->name[0] != '\0') {
        describe_last_absence(attendance, elapsed_ms, text);
    }
    if (attendance->are_electors == 1) {
        text_add(text, "; %s, or see `skep track --continue`",
                 attendance->name[0] != '\0' ? REMEDIES[attendance->absence]
                                             : "stop the other tracker");
    }
}

/* ---- changes ---- */

/* Whether two attendances differ at most in their times, which change with each count of
 * members. */
static bool has_equal_counts_and_names(const struct attendance *a, const struct attendance *b) {
    return a->present == b->present && a->needed == b->needed && a->others == b->others &&
           a->absence == b->absence && a->are_electors == b->are_electors &&
           strcmp(a->name, b->name) == 0;
}

/* Time from one log line to the next. This time grows while members stay missing, until the
 * attendance changes. */
static int64_t log_interval_ms(const struct attendance_watch *watch, int64_t now_ms) {
    const int64_t lasted_ms = now_ms - watch->begun_ms;
    return !watch->is_logged || lasted_ms < LOG_INTERVAL_MIN_MS ? LOG_INTERVAL_MIN_MS
           : lasted_ms > LOG_INTERVAL_MAX_MS                    ? LOG_INTERVAL_MAX_MS
                                                                : lasted_ms;
}

static void log_missing_members(struct attendance_watch *watch, int64_t now_ms) {
    char buffer[LOG_LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    if (watch->state.needed == 0 ||
        (watch->logged_ms != 0 && now_ms - watch->logged_ms < log_interval_ms(watch, now_ms))) {
        return;
    }
    attendance_describe_need(&watch->state, &line);
    attendance_describe_absence(&watch->state, now_ms - watch->counted_ms, &line);
    log_line(LOG_INFO, "waiting for %s", buffer);
    watch->logged_ms = now_ms;
    watch->is_logged = true;
}

void attendance_watch_update(struct attendance_watch *watch, const struct attendance *counted,
                             int64_t now_ms) {
    if (!has_equal_counts_and_names(counted, &watch->state)) {
        watch->version++;
        watch->begun_ms = watch->state.needed == 0 ? now_ms : watch->begun_ms;
        watch->is_logged = false;
    }
    watch->state = *counted;
    watch->counted_ms = now_ms;
    log_missing_members(watch, now_ms);
}
