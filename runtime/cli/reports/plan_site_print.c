/* plan_site_print: prints the part of a plan report that concerns ranks. */
#include "runtime/cli/reports/reports.h"

#include "base/text.h"

#include <stdio.h>

static const struct unit_strategy *find_strategy(const struct site_report *report, int unit) {
    return &report->session->sharding_settings.sharding.units[unit];
}

static bool are_units_equal(const struct site_report *report, int a, int b) {
    const struct unit *first = &report->session->program.schedule.units->units[a];
    const struct unit *second = &report->session->program.schedule.units->units[b];
    return first->layer != PARAM_NO_LAYER && second->layer != PARAM_NO_LAYER &&
           first->elements == second->elements &&
           first->padding_elements == second->padding_elements && first->frozen == second->frozen &&
           find_strategy(report, a)->zero == find_strategy(report, b)->zero &&
           find_strategy(report, a)->keep_gathered == find_strategy(report, b)->keep_gathered;
}

static void print_unit(const struct site_report *report, int first, int end) {
    const struct session *session = report->session;
    const struct unit *units = session->program.schedule.units->units;
    const struct unit *unit = &units[first];
    int64_t shard_elements = unit_shard_elements(unit, session->sharding_settings.sharding.shard);
    char name[NAME_BYTES], count[32];
    char whole[24], shard[24];
    snprintf(name, sizeof name, "%s", unit->name);
    if (end - first > 1) {
        snprintf(name, sizeof name, "layers.%d..%d", unit->layer, units[end - 1].layer);
    }
    printf("%-18s %14s %8lld  %4d%-5s %12s %14s\n", name,
           text_format_grouped((uint64_t)(unit->elements - unit->padding_elements), count),
           (long long)unit->padding_elements, find_strategy(report, first)->zero,
           find_strategy(report, first)->keep_gathered ? " kept" : "",
           text_format_bytes((uint64_t)(unit->elements *
                                        dtype_bytes((enum dtype)session->settings.compute_dtype)),
                             whole),
           text_format_bytes((uint64_t)shard_elements * sizeof(float), shard));
}

static void print_units(const struct site_report *report) {
    const struct session *session = report->session;
    const struct unit_table *units = session->program.schedule.units;
    printf("units         each parameters  padding  ZeRO      whole, %s     shard, f32\n",
           dtype_name((enum dtype)session->settings.compute_dtype));
    for (int first = 0; first < units->unit_count;) {
        int end = first + 1;
        while (end < units->unit_count && are_units_equal(report, first, end)) {
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
    int min_shard = 0;
    int max_shard = 0;
    for (int unit = 0; unit < units->unit_count; unit++) {
        elements += units->units[unit].elements;
        padding += units->units[unit].padding_elements;
    }
    for (int shard = 1; shard < shards; shard++) {
        const int64_t *padding_of = report->padding_of_shard;
        min_shard = padding_of[shard] < padding_of[min_shard] ? shard : min_shard;
        max_shard = padding_of[shard] > padding_of[max_shard] ? shard : max_shard;
    }
    printf("padding           %lld of %lld elements (%.4f %%)", (long long)padding,
           (long long)elements, 100 * (double)padding / (double)elements);
    if (padding > 0 && shards > 1) {
        printf("; padding of shard %d is %lld, of shard %d %lld", min_shard,
               (long long)report->padding_of_shard[min_shard], max_shard,
               (long long)report->padding_of_shard[max_shard]);
    }
    printf("\n");
}

static void print_volume(const char *name, uint64_t bytes) {
    char rounded[24], grouped[32];
    if (bytes > 0) {
        printf("  %-38s %10s %22s B\n", name, text_format_bytes(bytes, rounded),
               text_format_grouped(bytes, grouped));
    }
}

static void print_volumes(const struct site_report *report) {
    const struct step_volumes *volumes = &report->session->program.schedule.volumes;
    printf("\na rank receives in a step\n");
    print_volume("gathers of the forward pass", volumes->gather_forward);
    print_volume("gathers of the backward pass", volumes->gather_backward);
    print_volume("gradients: sums of its shard", volumes->reduce);
    print_volume("gradients: the second sums", volumes->gather_reduced_gradients);
    print_volume("gradients: between replicas", volumes->between_replicas);
    print_volume("parameters after the optimizer", volumes->gather_params);
    print_volume("tallies (tokens, loss, norm)", report->own.tally_bytes);
    print_volume("total", report->own.received_bytes);
}

static void print_time(const struct site_report *report) {
    const struct segment_estimate *step = &report->own.step;
    const struct target *target = report->session->target;
    double speed = target->peer_link_bandwidth.value * target->link_efficiency.value;
    double overlap =
        step->collective_seconds > 0 ? step->hidden_seconds / step->collective_seconds : 1;
    printf("communication     %.3g s of a step of %.3g s, %.0f %% of it overlapped by compute, "
           "at %.3g GB/s between all ranks\n",
           step->collective_seconds, step->seconds, 100 * overlap, speed * 1e-9);
}

static void print_stages(const struct site_report *report) {
    char peak[24], host[24], received[24];
    printf("\nZeRO        device   pinned+host  fits   received a step    s a step\n");
    for (int i = 0; i < report->stage_count; i++) {
        const struct stage_row *row = &report->stages[i];
        printf("%3d%c %13s %13s  %-4s %17s %11.3g\n", row->zero,
               row->zero == (int)report->session->settings.zero_stage ? '*' : ' ',
               text_format_bytes(row->outcome.peak_bytes[SPACE_DEVICE], peak),
               text_format_bytes(row->outcome.peak_bytes[SPACE_PINNED] +
                                     row->outcome.peak_bytes[SPACE_HOST],
                                 host),
               row->outcome.fits ? "yes" : "no",
               text_format_bytes(row->outcome.received_bytes, received), row->outcome.step.seconds);
    }
    printf("* setting of the run%s", report->stage_count < ZERO_STAGE_COUNT
                                         ? "; ZeRO 2 and 3 need strategy.reduce_at=microbatch"
                                         : "");
    if (report->fastest >= 0) {
        printf("; the fastest that fits is ZeRO %d", report->stages[report->fastest].zero);
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
