/* rates_report: writes the rates of a swarm that depend on the number of members, as text and as
 * JSON. */
#include "runtime/cli/reports/reports.h"
#include "runtime/swarm_setup/member_rates.h"

/* maximum number of rows: for 1, 2, 4 ... 64 members, and for swarm.members_max */
enum { ROWS_MAX = 8 };

static bool rates_depend_on_members(const struct settings *settings) {
    return settings->swarm_name != NULL &&
           (settings->swarm_member_betas == MEMBER_AUTO ||
            settings->swarm_member_decay == MEMBER_AUTO ||
            settings->swarm_member_variance == MEMBER_AUTO || settings->swarm_outer_gain > 0);
}

/* Lists the numbers of members to show: `present` if it is not 0, else powers of two and the
 * maximum. */
static int list_member_counts(const struct settings *settings, uint32_t present,
                              uint32_t counts[static ROWS_MAX]) {
    const uint32_t last = (uint32_t)settings->swarm_members_max;
    int count = 0;
    if (!rates_depend_on_members(settings)) {
        return 0;
    }
    if (present > 0) {
        counts[0] = present;
        return 1;
    }
    for (uint32_t members = 1; members < last && count < ROWS_MAX - 1; members *= 2) {
        counts[count++] = members;
    }
    counts[count++] = last;
    return count;
}

static float outer_momentum_of(const struct settings *settings, uint32_t members) {
    struct replica_shape shape = {.members_max = members};
    swarm_set_outer_rates(settings, &shape);
    return replica_outer_momentum(&shape, members);
}

void rates_report_append(const struct settings *settings, uint32_t present, struct text *text) {
    uint32_t counts[ROWS_MAX];
    const int count = list_member_counts(settings, present, counts);
    for (int i = 0; i < count; i++) {
        const struct member_adamw_rates rates = member_adamw_rates_of(settings, counts[i]);
        text_add(text, "%-8s %u member%s%s: betas %.6g and %.6g, weight decay %.4g, ",
                 i == 0 ? "rates" : "", counts[i], counts[i] == 1 ? "" : "s",
                 present > 0 ? " at present" : "", rates.betas.first, rates.betas.second,
                 rates.weight_decay);
        text_add(text, "mean share %.4g, outer momentum %.4g\n", rates.mean_share,
                 (double)outer_momentum_of(settings, counts[i]));
    }
}

void rates_report_add_json(const struct settings *settings, uint32_t present,
                           struct json_writer *json) {
    uint32_t counts[ROWS_MAX];
    const int count = list_member_counts(settings, present, counts);
    if (count == 0) {
        return;
    }
    json_begin_array(json_newline(json, 0), "rates");
    for (int i = 0; i < count; i++) {
        const struct member_adamw_rates rates = member_adamw_rates_of(settings, counts[i]);
        json_begin_object(json, NULL);
        json_add_u64(json, "members", counts[i]);
        json_add_f64(json, "beta1", rates.betas.first, 12);
        json_add_f64(json, "beta2", rates.betas.second, 12);
        json_add_f64(json, "weight_decay", rates.weight_decay, 12);
        json_add_f64(json, "mean_share", rates.mean_share, 12);
        json_add_f64(json, "outer_momentum", (double)outer_momentum_of(settings, counts[i]), 9);
        json_end(json);
    }
    json_end(json);
}
