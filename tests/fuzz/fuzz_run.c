/* fuzz_run: any bytes as a run.yaml are refused or give settings that read back as the same ones;
 * so does any line as an override. */
#include "runtime/settings/settings.h"

#include <string.h>

enum { DESCRIBED_BYTES = 4 << 20, OVERRIDE_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char first[DESCRIBED_BYTES], second[DESCRIBED_BYTES];

static void describe(const struct settings *settings, char *buffer) {
    struct text text = text_over(buffer, DESCRIBED_BYTES);
    settings_describe(settings, false, &text);
    ASSERT(!text.truncated);
}

static void check_fault(enum status status, const struct fault *fault) {
    ASSERT(status == STATUS_INPUT || status == STATUS_USAGE);
    ASSERT(fault->subject[0] != '\0' && fault->reason[0] != '\0');
}

static void check_run(const struct settings *settings) {
    ASSERT(settings->steps >= 1 && settings->microbatch >= 1 && settings->snapshot_keep >= 1);
    ASSERT(settings->learning_rate_kind >= 0 && settings->learning_rate_kind <= RATE_WSD);
    for (int64_t step = 0; step < 3; step++) {
        double rate = settings_learning_rate(settings, step * (settings->steps / 2));
        ASSERT(rate >= 0 && rate <= settings->learning_rate);
    }
}

/* A file name's control characters are written as JSON escapes, which YAML reads back. */
static void check_round_trip(const struct settings *settings, struct region *region) {
    struct settings again;
    struct fault fault;
    describe(settings, first);
    if (settings_open_text(first, strlen(first), "d/fuzz.yaml", region, &again, &fault) == OK) {
        describe(&again, second);
        ASSERT(strcmp(first, second) == 0);
    }
}

static void read_override(const uint8_t *data, size_t size, struct region *region) {
    char line[OVERRIDE_BYTES_MAX + 1];
    size_t length = size < OVERRIDE_BYTES_MAX ? size : OVERRIDE_BYTES_MAX;
    memcpy(line, data, length);
    line[length] = '\0';
    const char *override = line;
    struct settings settings = {.steps = 77};
    struct fault fault = {0};
    enum status status = settings_open(NULL, &override, 1, region, &settings, &fault);
    if (status == OK) {
        check_run(&settings);
        describe(&settings, first);
    } else {
        check_fault(status, &fault);
        ASSERT(settings.steps == 77);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct region region = {0};
    struct settings settings = {.steps = 77};
    struct fault fault = {0};
    enum status status =
        settings_open_text((const char *)data, size, "d/fuzz.yaml", &region, &settings, &fault);
    if (status == OK) {
        check_run(&settings);
        check_round_trip(&settings, &region);
    } else {
        check_fault(status, &fault);
        ASSERT(settings.steps == 77);
    }
    read_override(data, size, &region);
    region_finish(&region);
    return 0;
}
