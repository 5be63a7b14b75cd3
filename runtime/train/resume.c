#include "runtime/train/resume.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/settings/setting_keys.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { SAME_SECOND_MAX = 100 }; /* maximum number of runs that are renamed within one second */
enum { SHOWN_BYTES = 200 };     /* maximum bytes of a value that a message shows */

enum status resume_lock_folder(const struct settings *settings, int *fd, bool *made,
                               struct fault *fault) {
    char path[2 * PATH_BYTES];
    char holder[FILE_HOLDER_BYTES];
    int opened = -1;
    const bool is_new = !file_exists(settings->stem);
    enum status status = file_make_folders(settings->stem, fault);
    if (status == OK) {
        path_join(settings->stem, "lock", path, sizeof path);
        status = file_lock(path, &opened, holder, fault);
    }
    if (status == STATUS_FAILED) { /* nothing has changed */
        fault->status = STATUS_INPUT;
        snprintf(fault->remedy, sizeof fault->remedy,
                 "copy the run file to a folder that can be written, and start it there");
        return STATUS_INPUT;
    }
    TRY(status);
    if (opened < 0) {
        return fault_set(fault, STATUS_INPUT, settings->stem, "wait for that run or stop it",
                         "another run is using this folder (process %s)", holder);
    }
    *fd = opened;
    *made = is_new;
    return OK;
}

void resume_remove_folder(const struct settings *settings) {
    char path[2 * PATH_BYTES];
    path_join(settings->stem, "lock", path, sizeof path);
    (void)unlink(path);
    (void)rmdir(settings->stem); /* rmdir fails if the folder contains files, which must stay */
}

enum status resume_set_aside_files(const struct settings *settings, struct fault *fault) {
    char aside[PATH_BYTES + 48];
    if (!file_is_folder(settings->snapshot_folder)) {
        return OK;
    }
    char moment[32] = "";
    const time_t seconds = (time_t)clock_unix_s();
    struct tm parts;
    if (gmtime_r(&seconds, &parts) != NULL) {
        (void)strftime(moment, sizeof moment, "%Y-%m-%dT%H%M%SZ", &parts);
    }
    int length = snprintf(aside, sizeof aside, "%s.before-%s", settings->snapshot_folder, moment);
    for (int suffix = 2; file_exists(aside) && suffix <= SAME_SECOND_MAX; suffix++) {
        snprintf(aside + length, sizeof aside - (size_t)length, "-%d", suffix);
    }
    TRY(file_publish(settings->snapshot_folder, aside, fault));
    log_line(LOG_INFO, "the old snapshots are now in %s", aside);
    return OK;
}

/* The value of a key in lines of "name: value". It is not NUL-terminated. */
struct line_value {
    const char *text; /* [length]; NULL: the key is missing */
    size_t length;    /* in bytes */
};

static struct line_value find_line_value(const char *lines, const char *name) {
    size_t length = strlen(name);
    for (const char *at = lines; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n') {
        if (strncmp(at, name, length) == 0 && at[length] == ':') {
            const char *text = at + length + 1 + (at[length + 1] == ' ');
            return (struct line_value){.text = text, .length = strcspn(text, "\n")};
        }
    }
    return (struct line_value){0};
}

static int shown_length(struct line_value value) {
    return value.length < SHOWN_BYTES ? (int)value.length : SHOWN_BYTES;
}

static bool is_same_value(struct line_value a, struct line_value b) {
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

static enum status check_new_run_length(const struct settings *settings,
                                        const struct snapshot *snapshot,
                                        struct line_value old_steps, struct fault *fault) {
    if (settings->steps < snapshot->step) {
        return fault_set(fault, STATUS_INPUT, snapshot->path,
                         "raise the key steps, or start a new run with --fresh",
                         "steps is now %lld, but the snapshot is of step %lld",
                         (long long)settings->steps, (long long)snapshot->step);
    }
    log_line(
        LOG_INFO, "steps is now %lld; it was %.*s: %s", (long long)settings->steps,
        shown_length(old_steps), old_steps.text,
        settings->learning_rate_kind == RATE_CONSTANT
            ? "the learning rate is constant and does not depend on it"
            : "from now on the learning rate follows the schedule for the new number of steps");
    return OK;
}

enum status resume_check_settings(const struct settings *settings, const struct snapshot *snapshot,
                                  struct region *region, struct fault *fault) {
    size_t room = settings_describe_bytes_max(settings);
    char *now = region_alloc(region, room, 1);
    struct text text = text_over(now, room);
    settings_describe(settings, true, &text);
    ASSERT(!text.truncated);
    for (int i = 0; i < setting_key_count(); i++) {
        const struct setting_key *key = setting_key_at(i);
        struct line_value old_value = find_line_value(snapshot->keys, key->name);
        struct line_value new_value = find_line_value(now, key->name);
        if (key->class != SETTING_SHARED || old_value.text == NULL || new_value.text == NULL ||
            is_same_value(old_value, new_value)) {
            continue;
        }
        if (strcmp(key->name, "eval.every") == 0) {
            /* this key may differ: it is shared only so that all members of a swarm evaluate the
             * same rounds */
            continue;
        }
        /* `steps` may differ, so that a finished run can be extended */
        if (strcmp(key->name, "steps") == 0) {
            TRY(check_new_run_length(settings, snapshot, old_value, fault));
            continue;
        }
        return fault_set(fault, STATUS_INPUT, snapshot->path,
                         "restore the old value, or start a new run with --fresh",
                         "%s is now %.*s, but was %.*s in the run that saved the snapshot",
                         key->name, shown_length(new_value), new_value.text,
                         shown_length(old_value), old_value.text);
    }
    return OK;
}
