/* plan_site_print: the part of a plan that is about ranks, for people. */
#include "runtime/cli/reports/reports.h"

#include "base/text.h"

#include <stdio.h>

static const struct unit_strategy *strategy_of(const struct site_report *report, int unit) {
    return &report->session->sharding_settings.sharding.units[unit];
}

static bool alike(const struct site_report *report, int a, int b) {
    const struct unit *one = &report->session->program.schedule.units->units[a];
    const struct unit *other = &report->session->program.schedule.units->units[b];
    return one->layer != PARAM_NO_LAYER && other->layer != PARAM_NO_LAYER &&
           one->elements == other->elements && one->padding_elements == other->padding_elements &&
           one->frozen == other->frozen &&
           strategy_of(report, a)->zero == strategy_of(report, b)->zero &&
           strategy_of(report, a)->keep_gathered == strategy_of(report, b)->keep_gathered;
}

static void print_unit(const struct site_report *report, int first, int end) {
    const struct session *session = report->session;
    const struct unit *units = session->program.schedule.units->units;
    const struct unit *unit = &units[first];
    int64_t slot = unit_shard_elements(unit, session->sharding_settings.sharding.shard);
    char name[NAME_BYTES], count[32];
    char whole[24], shard[24];
    snprintf(name, sizeof name, "%s", unit->name);
    if (end - first > 1) {
        snprintf(name, sizeof name, "layers.%d..%d", unit->layer, units[end - 1].layer);
    }
    printf("%-18s %14s %8lld  %4d%-5s %12s %14s\n", name,
           text_grouped((uint64_t)(unit->elements - unit->padding_elements), count),
           (long long)unit->padding_elements, strategy_of(report, first)->zero,
           strategy_of(report, first)->keep_gathered ? " kept" : "",
           text_bytes((uint64_t)(unit->elements *
                                 dtype_bytes((enum dtype)session->settings.compute_dtype)),
                      whole),
           text_bytes((uint64_t)slot * sizeof(float), shard));
}

static void print_units(const struct site_report *report) {
    const struct session *session = report->session;
    const struct unit_table *units = session->program.schedule.units;
    printf("units         each parameters  padding  ZeRO      whole, %s     shard, f32\n",
           dtype_name((enum dtype)session->settings.compute_dtype));
    for (int first = 0; first < units->unit_count;) {
        int end = first + 1;
        while (end < units->unit_count && alike(report, first, end)) {
            end++;
        }
        print_unit(report, first, end);
        first = end;
    }
}

static void print_padding(const struct site_report *report) {
    const struct session *session = report->session;
    const struct unit_table *units = session->program.schedule.units;
    int shards = session->sharding_settings.sharding.shard;
    int64_t elements = 0;
    int64_t padding = 0;
    int least = 0;
    int most = 0;
    for (int unit = 0; unit < units->unit_count; unit++) {
        elements += units->units[unit].elements;
        padding += units->units[unit].padding_elements;
    }
    for (int shard = 1; shard < shards; shard++) {
        const int64_t *of = report->padding_of_shard;
        least = of[shard] < of[least] ? shard : least;
        most = of[shard] > of[most] ? shard : most;
    }
    printf("padding           %lld of %lld elements (%.4f %%)", (long long)padding,
           (long long)elements, 100 * (double)padding / (double)elements);
    if (padding > 0 && shards > 1) {
        printf("; ranks have equal bytes, but of it shard %d holds %lld, shard %d %lld", least,
               (long long)report->padding_of_shard[least], most,
               (long long)report->padding_of_shard[most]);
    }
    printf("\n");
}

static void print_volume(const char *name, uint64_t bytes) {
    char rounded[24], grouped[32];
    if (bytes > 0) {
        printf("  %-38s %10s %22s B\n", name, text_bytes(bytes, rounded),
               text_grouped(bytes, grouped));
    }
}

static void print_volumes(const struct site_report *report) {
    const struct step_volumes *volumes = &report->session->program.schedule.volumes;
    printf("\na rank receives in a step\n");
    print_volume("gathers of the forward pass", volumes->gather_forward);
    print_volume("gathers of the backward pass", volumes->gather_backward);
    print_volume("gradients: own shard's sums", volumes->reduce);
    print_volume("gradients: the other sums", volumes->reduce_whole);
    print_volume("gradients: between replicas", volumes->replicate);
    print_volume("parameters after the optimizer", volumes->gather_params);
    print_volume("tallies (tokens, loss, norm)", report->own.tally_bytes);
    print_volume("together", report->own.received_bytes);
}

static void print_time(const struct site_report *report) {
    const struct segment_estimate *step = &report->own.step;
    const struct target *target = report->session->target;
    double speed = target->peer_link_bandwidth.value * target->link_efficiency.value;
    double hidden =
        step->collective_seconds > 0 ? step->hidden_seconds / step->collective_seconds : 1;
    printf("communication     %.3g s of a step of %.3g s, %.0f %% of it hidden behind arithmetic, "
           "at %.3g GB/s between all ranks\n",
           step->collective_seconds, step->seconds, 100 * hidden, speed * 1e-9);
}

static void print_stages(const struct site_report *report) {
    char peak[24], host[24], received[24];
    printf("\nZeRO        device   pinned+host  fits   received a step    s a step\n");
    for (int i = 0; i < report->stage_count; i++) {
        const struct stage_row *row = &report->stages[i];
        printf(
            "%3d%c %13s %13s  %-4s %17s %11.3g\n", row->zero,
            row->zero == (int)report->session->settings.zero_stage ? '*' : ' ',
            text_bytes(row->outcome.peak_bytes[SPACE_DEVICE], peak),
            text_bytes(row->outcome.peak_bytes[SPACE_PINNED] + row->outcome.peak_bytes[SPACE_HOST],
                       host),
            row->outcome.fits ? "yes" : "no", text_bytes(row->outcome.received_bytes, received),
            row->outcome.step.seconds);
    }
    printf("* as the run says%s",
           report->stage_count < ZERO_STAGES ? "; 2 and 3 reduce in every microbatch only" : "");
    if (report->fastest >= 0) {
        printf("; of those that fit ZeRO %d is fastest", report->stages[report->fastest].zero);
    }
    printf("\n");
}

void plan_site_print(const struct site_report *report) {
    const struct sharding *sharding = &report->session->sharding_settings.sharding;
    int world = sharding->shard * sharding->replicate;
    printf("\nsite     %d ranks, all with this plan: mesh replicate=%d,shard=%d\n", world,
           sharding->replicate, sharding->shard);
    print_units(report);
    print_padding(report);
    print_volumes(report);
    print_time(report);
    print_stages(report);
    for (int i = 0; i < report->note_count; i++) {
        printf("note: %s\n", report->notes[i]);
    }
}
