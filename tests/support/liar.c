#include "tests/support/liar.h"

#include "base/log.h"
#include "runtime/cli/cli.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lie NONE = {.name = "none"};

static const struct lie LIES[] = {
    /* sums */
    {.name = "sum", .sum = lie_sum, .list = lie_list},
    {.name = "sum-one", .sum = lie_sum_one, .list = lie_list_one},
    {.name = "contributors", .sum = lie_contributors, .list = lie_list_contributors},
    {.name = "wrong-sketch", .change_contribution = lie_negate, .find_sketched = lie_wrong_sketch},
    {.name = "swap",
     .change_contribution = lie_negate,
     .sum = lie_swap,
     .list = lie_list_swap,
     .find_sketched = lie_swapped},
    /* stalls */
    {.name = "toggle", .change_message = lie_toggle},
    {.name = "withhold", .change_message = lie_withhold},
    {.name = "drip", .change_message = lie_drip},
    {.name = "trickle", .sends_slowly = true},
    {.name = "hold", .change_message = lie_hold},
    {.name = "mute", .change_message = lie_mute},
    {.name = "idle-owner", .change_message = lie_idle_owner},
    {.name = "leave-out", .change_message = lie_leave_out},
    {.name = "come-and-go", .change_message = lie_come_and_go},
    {.name = "reject", .change_message = lie_reject},
    {.name = "unreachable", .change_message = lie_unreachable},
    {.name = "false-refusal", .change_message = lie_false_refusal},
    /* claims */
    {.name = "up-max", .change_message = lie_up_max},
    {.name = "up-zero", .change_message = lie_up_zero},
    {.name = "step-day", .change_message = lie_step_day},
    {.name = "tokens-max", .change_message = lie_tokens_max},
    {.name = "samples-max", .change_message = lie_samples_max},
    {.name = "awaited-max", .change_message = lie_awaited_max},
    {.name = "stale-table", .change_message = lie_stale_table},
    {.name = "stale-round", .change_message = lie_stale_round},
    /* values */
    {.name = "nan", .change_contribution = lie_nan},
    {.name = "huge", .change_contribution = lie_huge},
    {.name = "x1000", .change_contribution = lie_x1000},
    {.name = "flip", .change_contribution = lie_flip},
    {.name = "replay", .change_contribution = lie_replay},
    {.name = "patched-replay", .change_contribution = lie_patched_replay},
    {.name = "copy", .change_contribution = lie_copy, .takes_contributions = true},
    {.name = "late-copy", .change_contribution = lie_late_copy, .takes_contributions = true},
    {.name = "zeros", .change_contribution = lie_zeros},
    {.name = "spelling", .change_contribution = lie_spelling},
    /* honest members whose data are unlike those of the others */
    {.name = "mirrored-text", .change_row = lie_mirrored_text},
    {.name = "constant-text", .change_row = lie_constant_text},
};

static const struct lie *chosen = &NONE;

const struct lie *lie_chosen(void) {
    return chosen;
}

void lie_log_use(void) {
    static atomic_flag is_logged = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_logged)) {
        log_line(LOG_INFO, "liar: the lie %s takes effect", chosen->name);
    }
}

static const struct lie *find_lie(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(LIES); i++) {
        if (strcmp(LIES[i].name, name) == 0) {
            return &LIES[i];
        }
    }
    return NULL;
}

static int print_names(void) {
    for (size_t i = 0; i < ARRAY_COUNT(LIES); i++) {
        puts(LIES[i].name);
    }
    return 0;
}

int main(int argument_count, char **arguments) {
    int next = 1;
    if (argument_count == 2 && strcmp(arguments[1], "--list") == 0) {
        return print_names();
    }
    for (; next + 2 < argument_count && strncmp(arguments[next], "--", 2) == 0; next += 2) {
        const char *value = arguments[next + 1];
        if (strcmp(arguments[next], "--lie") == 0) {
            chosen = find_lie(value);
        } else if (strcmp(arguments[next], "--step-ms") == 0) {
            slow_steps(atoi(value));
        } else {
            break;
        }
    }
    if (chosen == NULL || next >= argument_count || strcmp(arguments[next], "join") != 0) {
        fputs("usage: liar --list | liar [--lie NAME] [--step-ms N] join ...\n", stderr);
        return 2;
    }
    return command_run(&COMMAND_JOIN, argument_count - next, arguments + next);
}
