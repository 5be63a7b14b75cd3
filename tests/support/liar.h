/* liar: `skep join` as a member that lies, so that tests see how the other members fare.
 *
 *     liar --list                               the names of all lies, one a line
 *     liar [--lie NAME] [--step-ms N] join ...  the arguments of `skep join`
 *
 * The linker places the __wrap_ functions of liar_*.c between the files of the libraries (--wrap),
 * so no lie is in `skep`. WRAPPED declares a wrapper with the type of its function: the build fails
 * when the function changes or disappears. A lie logs its first use, so that a test can tell that
 * the linker still places it. */
#ifndef SKEP_TESTS_SUPPORT_LIAR_H
#define SKEP_TESTS_SUPPORT_LIAR_H

#include "runtime/data/data.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/replica/replica.h"

#include <stdbool.h>

/* WRAPPED: declare the real function and its wrapper. */
#define WRAPPED(function)                                                                          \
    __typeof__(function) __real_##function;                                                        \
    __typeof__(function) __wrap_##function

/* What happens to a message that this member is about to sign and send. */
enum fate { FATE_SEND, FATE_DROP, FATE_DELAY };

struct lie {
    const char *name;
    enum fate (*change_message)(struct message *message); /* NULL: all are sent unchanged */
    void (*change_contribution)(struct replica *replica); /* after encoding; NULL: unchanged */
    __typeof__(replica_sum) *sum;                         /* NULL: the real sum */
    __typeof__(replica_write_list) *list;                 /* NULL: the real list */
    /* The encoded values of which a slice of its own contribution gets the sketch. */
    const uint8_t *(*find_sketched)(const struct replica *replica, uint32_t slice); /* or NULL */
    void (*change_row)(const struct token_row *row, int64_t count); /* of training data; or NULL */
    bool sends_slowly;        /* slices are sent at a few KiB/s to each member */
    bool takes_contributions; /* it requests all slices of another member's contribution */
};

/* lie_chosen: the lie of the command line; one without functions if there is none.
 * lie_log_use: log that the lie took effect, the first time. */
const struct lie *lie_chosen(void);
void lie_log_use(void);

/* liar_owns: whether the newest proposal has a result of this slice that this member computed. */
bool liar_owns(uint32_t slice);

/* slow_steps: how long to pause before each training step, in ms. */
void slow_steps(int ms);

/* Changes of messages (liar_messages.c). */
enum fate lie_withhold(struct message *message);
enum fate lie_drip(struct message *message);
enum fate lie_hold(struct message *message);
enum fate lie_mute(struct message *message);
enum fate lie_idle_owner(struct message *message);
enum fate lie_leave_out(struct message *message);
enum fate lie_toggle(struct message *message);
enum fate lie_up_max(struct message *message);
enum fate lie_up_zero(struct message *message);
enum fate lie_step_day(struct message *message);
enum fate lie_tokens_max(struct message *message);
enum fate lie_samples_max(struct message *message);
enum fate lie_reject(struct message *message);
enum fate lie_awaited_max(struct message *message);
enum fate lie_unreachable(struct message *message);
enum fate lie_come_and_go(struct message *message);
enum fate lie_stale_table(struct message *message);
enum fate lie_stale_round(struct message *message);
enum fate lie_false_refusal(struct message *message);

/* Contributions of other members (liar_theft.c).
 * liar_theft_on_event: request slices after an event of this member. */
void liar_theft_on_event(const struct event *event, uint32_t slice_count,
                         const struct identity *own, struct actions *actions);
void lie_copy(struct replica *replica);
void lie_late_copy(struct replica *replica);

/* Changes of contributions, and wrong sums (liar_values.c). */
void lie_nan(struct replica *replica);
void lie_huge(struct replica *replica);
void lie_x1000(struct replica *replica);
void lie_flip(struct replica *replica);
void lie_zeros(struct replica *replica);
void lie_replay(struct replica *replica);
void lie_patched_replay(struct replica *replica);
void lie_negate(struct replica *replica);
void lie_spelling(struct replica *replica);
__typeof__(replica_write_list) lie_list, lie_list_one, lie_list_contributors, lie_list_swap;
__typeof__(replica_sum) lie_sum, lie_sum_one, lie_contributors, lie_swap;
void lie_mirrored_text(const struct token_row *row, int64_t count);
void lie_constant_text(const struct token_row *row, int64_t count);
const uint8_t *lie_wrong_sketch(const struct replica *replica, uint32_t slice);
const uint8_t *lie_swapped(const struct replica *replica, uint32_t slice);

#endif
