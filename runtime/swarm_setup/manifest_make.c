#include "runtime/swarm_setup/manifest_make.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/data/data_match.h"
#include "runtime/model/families/families.h"
#include "runtime/settings/model_config.h"
#include "runtime/swarm_setup/genesis.h"

enum { SHOWN_BYTES = 160 };

static enum status read_model(struct manifest_draft *offer, struct region *region,
                              struct fault *fault) {
    struct settings *settings = &offer->settings;
    size_t length;
    if (settings->model == NULL) {
        return fault_set(fault, STATUS_INPUT, settings->run_file,
                         "add a line such as model: ./my-model", "the key \"model\" is missing");
    }
    TRY(blueprint_open(settings->model, region, &offer->blueprint, offer->model_folder, fault));
    TRY(model_config_read(settings->model, offer->model_folder, region, &offer->config_text,
                          &length, fault));
    return settings_check_model(settings, &offer->blueprint, region, fault);
}

static const char *write_keys(const struct settings *settings, struct region *region) {
    size_t room = settings_describe_bytes_max(settings);
    struct text text = text_over(region_alloc(region, room, 1), room);
    swarm_keys_write(settings, &text);
    ASSERT(!text.truncated);
    return text.bytes;
}

enum status manifest_draft_read(const char *path, const char *const *overrides, int override_count,
                                struct region *region, struct manifest_draft *offer,
                                struct fault *fault) {
    struct manifest_draft *read = region_alloc(region, 1, sizeof *read);
    TRY(settings_open(path, overrides, override_count, region, &read->settings, fault));
    TRY(swarm_settings_check(&read->settings, fault));
    TRY(read_model(read, region, fault));
    TRY(swarm_terms_of(NULL, &read->settings, &read->blueprint, &read->terms, fault));
    read->run_text = write_keys(&read->settings, region);
    *offer = *read;
    return OK;
}

enum status manifest_draft_sign(const struct manifest_draft *offer, const char *address,
                                const struct key_pairs *keys, struct region *region,
                                struct manifest *manifest, const char **text, struct fault *fault) {
    const struct settings *settings = &offer->settings;
    struct manifest made = {.name = settings->swarm_name,
                            .protocol = SWARM_PROTOCOL,
                            .created = (int64_t)clock_unix_s(),
                            .tracker = {.keys = keys->public_keys},
                            .run_text = offer->run_text,
                            .config_text = offer->config_text};
    size_t room = MANIFEST_BYTES_MAX + 1;
    struct text file = text_over(region_alloc(region, room, 1), room);
    ASSERT(address_error(address) == NULL);
    memcpy(made.tracker.address, address, strlen(address) + 1);
    TRY(data_match_hash(settings, region, &made.files, &made.file_count, fault));
    TRY(genesis_root(settings, &offer->blueprint, offer->model_folder, &made.genesis, fault));
    TRY(manifest_write(&made, keys, &file, &made.hash, fault));
    *manifest = made;
    *text = file.bytes;
    return OK;
}

/* ---- an earlier manifest ---- */

static enum status refuse(const char *place, struct fault *fault, const char *what) {
    return fault_set(fault, STATUS_INPUT, place,
                     "restore it, or start another swarm with another --state",
                     "%s is not the one that the swarm was created with", what);
}

static int shown(const char *line) {
    size_t length = strcspn(line, "\n");
    return length < SHOWN_BYTES ? (int)length : SHOWN_BYTES;
}

/* Both list the same keys in the same order, unless they are of different versions. */
static enum status compare_keys(const char *now, const char *then, const char *place,
                                struct fault *fault) {
    while (*now != '\0' && *then != '\0') {
        size_t length = strcspn(now, "\n");
        if (strcspn(then, "\n") != length || memcmp(now, then, length) != 0) {
            break;
        }
        now += length + (now[length] == '\n');
        then += length + (then[length] == '\n');
    }
    if (*now == '\0' && *then == '\0') {
        return OK;
    }
    return fault_set(fault, STATUS_INPUT, place,
                     "restore the old value, or start another swarm with another --state",
                     "now \"%.*s\", when the swarm was created \"%.*s\"", shown(now), now,
                     shown(then), then);
}

enum status manifest_draft_matches(const struct manifest_draft *offer,
                                   const struct manifest *manifest, const char *place,
                                   const struct join_string *tracker, struct fault *fault) {
    TRY(compare_keys(offer->run_text, manifest->run_text, place, fault));
    if (strcmp(offer->config_text, manifest->config_text) != 0) {
        return refuse(place, fault, "config.json");
    }
    if (memcmp(&tracker->keys, &manifest->tracker.keys, sizeof tracker->keys) != 0) {
        return refuse(place, fault, "the tracker's identity");
    }
    if (strcmp(tracker->address, manifest->tracker.address) != 0) {
        log_line(LOG_WARNING,
                 "%s: the tracker's address was %s and is now %s: members need the new join string",
                 place, manifest->tracker.address, tracker->address);
    }
    return OK;
}
