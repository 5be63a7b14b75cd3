/* compile: compiles a blueprint to a program with a proven plan. */
#include "runtime/program/program.h"

#include "base/text.h"
#include "runtime/program/print.h"

static enum status make_units(const struct blueprint *blueprint,
                              const struct schedule_options *options, struct region *region,
                              struct unit_table *units, struct fault *fault) {
    if (options->units != NULL) {
        *units = *options->units;
        return OK;
    }
    const struct sharding *sharding = &options->sharding;
    int world = sharding->shard == 0 ? 1 : sharding->shard * sharding->replicate;
    struct unit_options by_block = {.world = world};
    return unit_table_init(blueprint, &by_block, region, units, fault);
}

enum status program_compile(const struct blueprint *blueprint, const struct target *target,
                            const struct schedule_options *options, struct region *region,
                            struct program *program, struct fault *fault) {
    struct unit_table *units = region_alloc(region, 1, sizeof *units);
    *program = (struct program){.schedule = {.blueprint = blueprint, .target = target}};
    TRY(make_units(blueprint, options, region, units, fault));
    schedule_build(blueprint, units, target, options, region, &program->schedule);
    struct schedule *schedule = &program->schedule;
    const struct arena_problem problem = {schedule->extents, schedule->extent_count};
    arena_plan(&problem, region, &program->plan);
    TRY(arena_verify(&problem, &program->plan, region, fault));
    TRY(schedule_verify(schedule, program->plan.offsets, region, fault));
    program->hash = program_hash(program);
    return OK;
}

enum status program_check_fit(const struct program *program, struct fault *fault) {
    enum space space;
    const struct target *target = program->schedule.target;
    uint64_t missing = target_shortage(target, program->plan.peak_bytes, &space);
    if (missing == 0) {
        return OK;
    }
    char need[24];
    char have[24];
    char subject[NAME_BYTES];
    struct text name = text_over(subject, sizeof subject);
    text_add(&name, "target %s", target->name);
    uint64_t room = target_available_bytes(target, space);
    return fault_set(
        fault, STATUS_FIT, subject,
        "run `skep plan`, which lists the largest extents at the peak and the settings that fit",
        "the %s arena needs %s, but only %s are available", space_name(space),
        text_format_bytes(room + missing, need), text_format_bytes(room, have));
}
