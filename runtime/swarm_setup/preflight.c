#include "runtime/swarm_setup/preflight.h"

#include "runtime/schedule/estimate.h"
#include "runtime/swarm/replica/sparse_result.h"
#include "runtime/swarm/replica/sum_check.h"

#include <math.h>

static const double DAY_S = 86400;

/* Returns the lower of a measured rate and a limit. If one of them is 0, which means unknown,
 * returns the other. */
static double effective_rate(double measured, uint64_t limit) {
    double limited = (double)limit;
    if (measured <= 0 || limited <= 0) {
        return measured > limited ? measured : limited;
    }
    return fmin(measured, limited);
}

/* Returns the bytes that a member sends in a round of `count` members with a sparse codec: its
 * contribution to each other owner, and the lists that it owns to each other member, without the
 * encoding of that member. */
static uint64_t sparse_exchange_bytes(const struct slices *slices, uint64_t count) {
    const uint64_t heads = slices->count * sparse_result_head_bytes(slices->count);
    const uint64_t header = slices->count * (uint64_t)SPARSE_RESULT_HEADER_BYTES;
    const uint64_t contributions = (slices->bytes + heads) * (count - 1) / count;
    const uint64_t list = header + count * heads + (count - 1) * slices->bytes;
    return contributions + list * (count - 1) / count;
}

static struct fit_exchange estimate_exchange(const struct swarm_terms *terms, int members) {
    uint64_t encoded = terms->shape.slices.bytes;
    struct fit_exchange exchange = {.members =
                                        members > 0 ? members : (int)terms->shape.members_max};
    uint64_t count = (uint64_t)exchange.members;
    exchange.up_bytes = slices_are_sparse(&terms->shape.slices)
                            ? sparse_exchange_bytes(&terms->shape.slices, count)
                            : 2 * encoded * (count - 1) / count;
    exchange.down_bytes = exchange.up_bytes;
    exchange.found_in_round =
        sum_check_detection_probability(&terms->shape.slices, (uint32_t)count, 1);
    exchange.found_in_10_rounds =
        sum_check_detection_probability(&terms->shape.slices, (uint32_t)count, 10);
    return exchange;
}

static void estimate_times(struct fit_report *report) {
    const struct session *session = report->session;
    const struct settings *settings = &session->settings;
    const struct fit_exchange *exchange = &report->exchange;
    double up = effective_rate(report->link.up_bytes_per_s, settings->limit_up);
    double down = effective_rate(report->link.down_bytes_per_s, settings->limit_down);
    report->step_s = estimate_step(&session->program.schedule, session->target).seconds;
    report->train_s = report->step_s * (double)settings->swarm_inner_steps;
    double up_s = up > 0 ? (double)exchange->up_bytes / up : 0;
    double down_s = down > 0 ? (double)exchange->down_bytes / down : 0;
    report->exchange_s = fmax(up_s, down_s);
    report->round_s = report->train_s + report->exchange_s;
    report->tenth_of_round_bytes_per_s = (double)exchange->up_bytes / (report->train_s / 9);
    report->up_bytes_per_day = (double)exchange->up_bytes * DAY_S / report->round_s;
    report->down_bytes_per_day = (double)exchange->down_bytes * DAY_S / report->round_s;
}

/* Returns the size of the resident extents for the swarm, in `space` or, if `all` is true, in
 * all spaces. */
static uint64_t swarm_bytes_in(const struct session *session, enum space space, bool all) {
    uint64_t bytes = 0;
    for (int i = 0; i < session->resident_count; i++) {
        bytes += all || session->resident[i].space == space ? session->resident[i].bytes : 0;
    }
    return bytes;
}

static void list_spaces(struct fit_report *report) {
    const struct session *session = report->session;
    const struct target *target = session->target;
    const uint64_t *peak_bytes = session->program.plan.peak_bytes;
    for (int space = 0; space < SPACE_COUNT; space++) {
        bool all = target->unified && space == SPACE_DEVICE;
        uint64_t planned =
            all ? peak_bytes[SPACE_DEVICE] + peak_bytes[SPACE_PINNED] + peak_bytes[SPACE_HOST]
                : peak_bytes[space];
        if (planned == 0 || (target->unified && space != SPACE_DEVICE)) {
            continue;
        }
        report->spaces[report->space_count++] =
            (struct fit_space){.space = (enum space)space,
                               .planned_bytes = planned,
                               .swarm_bytes = swarm_bytes_in(session, (enum space)space, all),
                               .declared_bytes = target_declared_bytes(target, (enum space)space),
                               .capacity_bytes = target->spaces[space].capacity_bytes};
    }
}

/* Sets report->misfit. Checks memory first, and disk space only if the memory suffices. */
static enum status find_misfit(struct fit_report *report, struct fault *fault) {
    const struct session *session = report->session;
    enum status fits = session->misfit.status;
    if (fits != OK) {
        report->misfit = session->misfit;
    } else {
        fits = program_check_fit(&session->program, &report->misfit);
    }
    if (fits != OK) {
        return remedies_find(session, PURPOSE_TRAIN, report->remedies, &report->remedy_count,
                             fault);
    }
    report->misfit.status = disk_check_fit(session, &report->misfit);
    return OK;
}

enum status fit_report_make(struct session *session, const struct swarm_terms *terms,
                            const struct fit_link *link, int members, struct fit_report *report,
                            struct fault *fault) {
    ASSERT(terms->manifest != NULL && members >= 0);
    TRY(session_compile(session, PURPOSE_TRAIN, fault));
    *report = (struct fit_report){.session = session,
                                  .terms = terms,
                                  .link = *link,
                                  .disk = disk_budget_of(session),
                                  .exchange = estimate_exchange(terms, members),
                                  .join_bytes = replica_state_bytes(&terms->shape.slices)};
    list_spaces(report);
    estimate_times(report);
    return find_misfit(report, fault);
}
