#include "runtime/shard/shard.h"

#include "base/text.h"

static const struct zero_row ROWS[ZERO_STAGES] = {
    {.params = false, .gradients = false, .optimizer = false},
    {.params = false, .gradients = false, .optimizer = true},
    {.params = false, .gradients = true, .optimizer = true},
    {.params = true, .gradients = true, .optimizer = true},
};

const struct zero_row *zero_row(int stage) {
    ASSERT(stage >= 0 && stage < ZERO_STAGES);
    return &ROWS[stage];
}

/* A part of the text of the run key. */
struct part {
    const char *bytes;
    size_t length;
};

struct reading {
    const char *subject;
    const struct unit_table *units;
    struct unit_strategy *strategies;
    struct fault *fault;
};

/* Remove the part before the first `mark` from *rest, and return it without the spaces around
 * it. */
static struct part next_part(struct part *rest, char mark) {
    const char *found = memchr(rest->bytes, mark, rest->length);
    struct part part = *rest;
    if (found == NULL) {
        *rest = (struct part){rest->bytes + rest->length, 0};
    } else {
        part.length = (size_t)(found - rest->bytes);
        *rest = (struct part){found + 1, rest->length - part.length - 1};
    }
    while (part.length > 0 && *part.bytes == ' ') {
        part.bytes++;
        part.length--;
    }
    while (part.length > 0 && part.bytes[part.length - 1] == ' ') {
        part.length--;
    }
    return part;
}

static bool part_is(struct part part, const char *text) {
    return strlen(text) == part.length && memcmp(text, part.bytes, part.length) == 0;
}

static bool matches_unit(struct part pattern, const char *unit) {
    if (pattern.length > 0 && pattern.bytes[pattern.length - 1] == '*') {
        return strncmp(unit, pattern.bytes, pattern.length - 1) == 0;
    }
    return part_is(pattern, unit);
}

static enum status unknown_unit_fault(const struct reading *reading, struct part name) {
    struct region scratch = {0};
    char unknown[NAME_BYTES] = "";
    struct text text = text_over(unknown, sizeof unknown);
    text_add_bytes(&text, name.bytes, name.length);
    const struct unit_table *units = reading->units;
    const char **known = region_alloc(&scratch, (size_t)units->unit_count, sizeof *known);
    for (int unit = 0; unit < units->unit_count; unit++) {
        known[unit] = units->units[unit].name;
    }
    int nearest = text_nearest(unknown, known, units->unit_count);
    enum status status =
        fault_set(reading->fault, STATUS_INPUT, reading->subject,
                  "write NAME=KEY:VALUE with a unit's name, or the beginning of several and *",
                  "no unit is named \"%s\"; a unit of this model is \"%s\"", unknown,
                  known[nearest >= 0 ? nearest : 0]);
    region_finish(&scratch);
    return status;
}

static enum status setting_fault(const struct reading *reading, struct part setting) {
    return fault_set(reading->fault, STATUS_INPUT, reading->subject,
                     "write zero:0 to zero:3, keep_gathered:true or keep_gathered:false",
                     "\"%.*s\" is not a setting of a unit", (int)setting.length, setting.bytes);
}

static enum status read_setting(const struct reading *reading, struct part setting,
                                struct unit_strategy *strategy) {
    struct part value = setting;
    struct part key = next_part(&value, ':');
    value = next_part(&value, '\0');
    if (part_is(key, "zero") && value.length == 1 && *value.bytes >= '0' &&
        *value.bytes < '0' + ZERO_STAGES) {
        strategy->zero = *value.bytes - '0';
    } else if (part_is(key, "keep_gathered") &&
               (part_is(value, "true") || part_is(value, "false"))) {
        strategy->keep_gathered = part_is(value, "true");
    } else {
        return setting_fault(reading, setting);
    }
    return OK;
}

static enum status read_override(const struct reading *reading, struct part settings) {
    struct part name = next_part(&settings, '=');
    const struct unit_table *units = reading->units;
    bool found = false;
    for (int unit = 0; unit < units->unit_count; unit++) {
        if (!matches_unit(name, units->units[unit].name)) {
            continue;
        }
        found = true;
        struct part rest = settings;
        do {
            TRY(read_setting(reading, next_part(&rest, ';'), &reading->strategies[unit]));
        } while (rest.length > 0);
    }
    return found ? OK : unknown_unit_fault(reading, name);
}

enum status strategy_read(const struct strategy_keys *keys, const struct unit_table *units,
                          struct region *region, const struct unit_strategy **strategies,
                          struct fault *fault) {
    ASSERT(keys->zero >= 0 && keys->zero < ZERO_STAGES);
    const struct reading reading = {
        .subject = keys->subject != NULL ? keys->subject : "strategy.overrides",
        .units = units,
        .strategies = region_alloc(region, (size_t)units->unit_count, sizeof(struct unit_strategy)),
        .fault = fault};
    for (int unit = 0; unit < units->unit_count; unit++) {
        reading.strategies[unit] =
            (struct unit_strategy){.zero = keys->zero, .keep_gathered = keys->keep_gathered};
    }
    const char *text = keys->overrides != NULL ? keys->overrides : "";
    struct part rest = {text, strlen(text)};
    while (rest.length > 0) {
        TRY(read_override(&reading, next_part(&rest, ',')));
    }
    *strategies = reading.strategies;
    return OK;
}

enum status strategy_check_reduction(const struct unit_strategy *strategies,
                                     const struct unit_table *units, enum reduce_at reduce_at,
                                     const char *subject, struct fault *fault) {
    for (int unit = 0; unit < units->unit_count && reduce_at == REDUCE_AT_STEP; unit++) {
        if (!units->units[unit].frozen && zero_row(strategies[unit].zero)->gradients) {
            return fault_set(fault, STATUS_INPUT, subject != NULL ? subject : "strategy.reduce_at",
                             "take strategy.reduce_at=microbatch, or strategy.zero=0 or 1",
                             "step keeps gradients whole, but ZeRO %d splits those of %s",
                             strategies[unit].zero, units->units[unit].name);
        }
    }
    return OK;
}
