#include "runtime/shard/strategy.h"

#include "base/text.h"

#include <string.h>

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

/* A piece of the run key's text. */
struct piece {
    const char *bytes;
    size_t length;
};

struct reading {
    const char *place;
    const struct unit_table *units;
    struct unit_strategy *strategies;
    struct fault *fault;
};

/* Cuts *rest at the first `mark`: what stood before it, without spaces around. */
static struct piece cut(struct piece *rest, char mark) {
    const char *found = memchr(rest->bytes, mark, rest->length);
    struct piece piece = *rest;
    if (found == NULL) {
        *rest = (struct piece){rest->bytes + rest->length, 0};
    } else {
        piece.length = (size_t)(found - rest->bytes);
        *rest = (struct piece){found + 1, rest->length - piece.length - 1};
    }
    while (piece.length > 0 && *piece.bytes == ' ') {
        piece.bytes++;
        piece.length--;
    }
    while (piece.length > 0 && piece.bytes[piece.length - 1] == ' ') {
        piece.length--;
    }
    return piece;
}

static bool is(struct piece piece, const char *text) {
    return strlen(text) == piece.length && memcmp(text, piece.bytes, piece.length) == 0;
}

static bool names(struct piece pattern, const char *unit) {
    if (pattern.length > 0 && pattern.bytes[pattern.length - 1] == '*') {
        return strncmp(unit, pattern.bytes, pattern.length - 1) == 0;
    }
    return is(pattern, unit);
}

static enum status refuse_name(const struct reading *reading, struct piece name) {
    struct region scratch = {0};
    char wanted[NAME_BYTES] = "";
    struct text text = text_over(wanted, sizeof wanted);
    text_add_bytes(&text, name.bytes, name.length);
    const struct unit_table *units = reading->units;
    const char **known = region_alloc(&scratch, (size_t)units->unit_count, sizeof *known);
    for (int unit = 0; unit < units->unit_count; unit++) {
        known[unit] = units->units[unit].name;
    }
    int nearest = text_nearest(wanted, known, units->unit_count);
    enum status status =
        fault_set(reading->fault, STATUS_INPUT, reading->place,
                  "write NAME=KEY:VALUE with a unit's name, or the beginning of several and *",
                  "\"%s\" names no unit; a unit of this model is \"%s\"", wanted,
                  known[nearest >= 0 ? nearest : 0]);
    region_finish(&scratch);
    return status;
}

static enum status refuse_setting(const struct reading *reading, struct piece setting) {
    return fault_set(reading->fault, STATUS_INPUT, reading->place,
                     "write zero:0 to zero:3, keep_gathered:true or keep_gathered:false",
                     "\"%.*s\" is no setting of a unit", (int)setting.length, setting.bytes);
}

static enum status read_setting(const struct reading *reading, struct piece setting,
                                struct unit_strategy *strategy) {
    struct piece value = setting;
    struct piece key = cut(&value, ':');
    value = cut(&value, '\0');
    if (is(key, "zero") && value.length == 1 && *value.bytes >= '0' &&
        *value.bytes < '0' + ZERO_STAGES) {
        strategy->zero = *value.bytes - '0';
    } else if (is(key, "keep_gathered") && (is(value, "true") || is(value, "false"))) {
        strategy->keep_gathered = is(value, "true");
    } else {
        return refuse_setting(reading, setting);
    }
    return OK;
}

static enum status read_override(const struct reading *reading, struct piece settings) {
    struct piece name = cut(&settings, '=');
    const struct unit_table *units = reading->units;
    bool found = false;
    for (int unit = 0; unit < units->unit_count; unit++) {
        if (!names(name, units->units[unit].name)) {
            continue;
        }
        found = true;
        struct piece rest = settings;
        do {
            enum status status = read_setting(reading, cut(&rest, ';'), &reading->strategies[unit]);
            if (status != OK) {
                return status;
            }
        } while (rest.length > 0);
    }
    return found ? OK : refuse_name(reading, name);
}

enum status strategy_read(const struct strategy_keys *keys, const struct unit_table *units,
                          struct region *region, const struct unit_strategy **strategies,
                          struct fault *fault) {
    ASSERT(keys->zero >= 0 && keys->zero < ZERO_STAGES);
    const struct reading reading = {
        .place = keys->place != NULL ? keys->place : "strategy.overrides",
        .units = units,
        .strategies = region_alloc(region, (size_t)units->unit_count, sizeof(struct unit_strategy)),
        .fault = fault};
    for (int unit = 0; unit < units->unit_count; unit++) {
        reading.strategies[unit] =
            (struct unit_strategy){.zero = keys->zero, .keep_gathered = keys->keep_gathered};
    }
    const char *text = keys->overrides != NULL ? keys->overrides : "";
    struct piece rest = {text, strlen(text)};
    while (rest.length > 0) {
        enum status status = read_override(&reading, cut(&rest, ','));
        if (status != OK) {
            return status;
        }
    }
    *strategies = reading.strategies;
    return OK;
}

enum status strategy_check_reduction(const struct unit_strategy *strategies,
                                     const struct unit_table *units, enum reduce_at reduce_at,
                                     const char *place, struct fault *fault) {
    for (int unit = 0; unit < units->unit_count && reduce_at == REDUCE_AT_STEP; unit++) {
        if (!units->units[unit].frozen && zero_row(strategies[unit].zero)->gradients) {
            return fault_set(fault, STATUS_INPUT, place != NULL ? place : "strategy.reduce_at",
                             "take strategy.reduce_at=microbatch, or strategy.zero=0 or 1",
                             "step keeps gradients whole, but ZeRO %d splits those of %s",
                             strategies[unit].zero, units->units[unit].name);
        }
    }
    return OK;
}
