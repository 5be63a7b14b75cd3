#include "runtime/shard/shard.h"

#include "base/text.h"

static const struct zero_stage_row ROWS[ZERO_STAGE_COUNT] = {
    {.params = false, .gradients = false, .optimizer = false},
    {.params = false, .gradients = false, .optimizer = true},
    {.params = false, .gradients = true, .optimizer = true},
    {.params = true, .gradients = true, .optimizer = true},
};

const struct zero_stage_row *zero_stage_row(int stage) {
    ASSERT(stage >= 0 && stage < ZERO_STAGE_COUNT);
    return &ROWS[stage];
}

/* A substring of the run key's text, not NUL-terminated. */
struct text_slice {
    const char *text; /* first character; not NUL-terminated */
    size_t length;    /* length of the text in bytes */
};

struct override_parser {
    const char *subject; /* location of the key, for faults */
    const struct unit_table *units;
    struct unit_strategy *strategies;
    struct fault *fault;
};

/* Remove the part before the first `separator` from *rest, and return it without surrounding
 * spaces. */
static struct text_slice take_next_part(struct text_slice *rest, char separator) {
    const char *found = memchr(rest->text, separator, rest->length);
    struct text_slice text_part = *rest;
    if (found == NULL) {
        *rest = (struct text_slice){rest->text + rest->length, 0};
    } else {
        text_part.length = (size_t)(found - rest->text);
        *rest = (struct text_slice){found + 1, rest->length - text_part.length - 1};
    }
    while (text_part.length > 0 && *text_part.text == ' ') {
        text_part.text++;
        text_part.length--;
    }
    while (text_part.length > 0 && text_part.text[text_part.length - 1] == ' ') {
        text_part.length--;
    }
    return text_part;
}

static bool part_equals(struct text_slice text_part, const char *text) {
    return strlen(text) == text_part.length && memcmp(text, text_part.text, text_part.length) == 0;
}

static bool matches_unit(struct text_slice pattern, const char *unit) {
    if (pattern.length > 0 && pattern.text[pattern.length - 1] == '*') {
        return strncmp(unit, pattern.text, pattern.length - 1) == 0;
    }
    return part_equals(pattern, unit);
}

static enum status unknown_unit_fault(const struct override_parser *override_parser,
                                      struct text_slice name) {
    struct region scratch = {0};
    char unknown[NAME_BYTES] = "";
    struct text unknown_text = text_over(unknown, sizeof unknown);
    text_add_bytes(&unknown_text, name.text, name.length);
    const struct unit_table *units = override_parser->units;
    const char **known = region_alloc(&scratch, (size_t)units->unit_count, sizeof *known);
    for (int unit = 0; unit < units->unit_count; unit++) {
        known[unit] = units->units[unit].name;
    }
    int nearest = text_find_nearest(unknown, known, units->unit_count);
    enum status status =
        fault_set(override_parser->fault, STATUS_INPUT, override_parser->subject,
                  "write NAME=KEY:VALUE; NAME is a unit's name, or a prefix followed by *",
                  "no unit is named \"%s\"; this model has, for example, unit \"%s\"", unknown,
                  known[nearest >= 0 ? nearest : 0]);
    region_finish(&scratch);
    return status;
}

static enum status setting_fault(const struct override_parser *override_parser,
                                 struct text_slice setting) {
    return fault_set(override_parser->fault, STATUS_INPUT, override_parser->subject,
                     "write zero:0 to zero:3, keep_gathered:true or keep_gathered:false",
                     "\"%.*s\" is not a valid unit setting", (int)setting.length, setting.text);
}

static enum status read_setting(const struct override_parser *override_parser,
                                struct text_slice setting, struct unit_strategy *strategy) {
    struct text_slice value = setting;
    struct text_slice key = take_next_part(&value, ':');
    value = take_next_part(&value, '\0');
    if (part_equals(key, "zero") && value.length == 1 && *value.text >= '0' &&
        *value.text < '0' + ZERO_STAGE_COUNT) {
        strategy->zero = *value.text - '0';
    } else if (part_equals(key, "keep_gathered") &&
               (part_equals(value, "true") || part_equals(value, "false"))) {
        strategy->keep_gathered = part_equals(value, "true");
    } else {
        return setting_fault(override_parser, setting);
    }
    return OK;
}

static enum status read_override(const struct override_parser *override_parser,
                                 struct text_slice settings) {
    struct text_slice name = take_next_part(&settings, '=');
    const struct unit_table *units = override_parser->units;
    bool found = false;
    for (int unit = 0; unit < units->unit_count; unit++) {
        if (!matches_unit(name, units->units[unit].name)) {
            continue;
        }
        found = true;
        struct text_slice rest = settings;
        do {
            TRY(read_setting(override_parser, take_next_part(&rest, ';'),
                             &override_parser->strategies[unit]));
        } while (rest.length > 0);
    }
    return found ? OK : unknown_unit_fault(override_parser, name);
}

enum status strategy_read(const struct strategy_keys *keys, const struct unit_table *units,
                          struct region *region, const struct unit_strategy **strategies,
                          struct fault *fault) {
    ASSERT(keys->zero >= 0 && keys->zero < ZERO_STAGE_COUNT);
    const struct override_parser override_parser = {
        .subject = keys->subject != NULL ? keys->subject : "strategy.overrides",
        .units = units,
        .strategies = region_alloc(region, (size_t)units->unit_count, sizeof(struct unit_strategy)),
        .fault = fault};
    for (int unit = 0; unit < units->unit_count; unit++) {
        override_parser.strategies[unit] =
            (struct unit_strategy){.zero = keys->zero, .keep_gathered = keys->keep_gathered};
    }
    const char *text = keys->overrides != NULL ? keys->overrides : "";
    struct text_slice rest = {text, strlen(text)};
    while (rest.length > 0) {
        TRY(read_override(&override_parser, take_next_part(&rest, ',')));
    }
    *strategies = override_parser.strategies;
    return OK;
}

enum status strategy_check_reduction(const struct unit_strategy *strategies,
                                     const struct unit_table *units, enum reduce_at reduce_at,
                                     const char *subject, struct fault *fault) {
    for (int unit = 0; unit < units->unit_count && reduce_at == REDUCE_AT_STEP; unit++) {
        if (!units->units[unit].frozen && zero_stage_row(strategies[unit].zero)->gradients) {
            return fault_set(fault, STATUS_INPUT, subject != NULL ? subject : "strategy.reduce_at",
                             "set strategy.reduce_at=microbatch, or strategy.zero to 0 or 1",
                             "strategy.reduce_at=step needs gradients that are not sharded, but "
                             "ZeRO %d shards those of unit %s",
                             strategies[unit].zero, units->units[unit].name);
        }
    }
    return OK;
}
