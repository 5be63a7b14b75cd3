#include "runtime/swarm_setup/manifest_make.h"

#include "base/clock.h"
#include "runtime/data/data_match.h"
#include "runtime/data/text_tokens.h"
#include "runtime/model/families/families.h"
#include "runtime/settings/model_config.h"
#include "runtime/swarm_setup/genesis.h"

enum { SHOWN_LINE_BYTES = 160 }; /* number of characters of a line that a message shows */

static enum status read_model(struct manifest_draft *draft, struct region *region,
                              struct fault *fault) {
    struct settings *settings = &draft->settings;
    size_t length;
    if (settings->model == NULL) {
        return fault_set(fault, STATUS_INPUT, settings->run_file,
                         "add a line such as model: ./my-model",
                         "the run file does not set \"model\"");
    }
    TRY(blueprint_open(settings->model, region, &draft->blueprint, draft->model_folder, fault));
    TRY(model_config_read(settings->model, draft->model_folder, region, &draft->config_text,
                          &length, fault));
    return settings_check_model(settings, &draft->blueprint, region, fault);
}

static const char *write_shared_keys(const struct settings *settings, struct region *region) {
    size_t room = settings_describe_bytes_max(settings);
    struct text text = text_over(region_alloc(region, room, 1), room);
    swarm_keys_write(settings, &text);
    ASSERT(!text.truncated);
    return text.bytes;
}

/* Rejects a run file that sets both swarm.outer_gain and swarm.outer_momentum. The manifest always
 * contains both keys, so this check is possible only with the run file. */
static enum status check_outer_keys(const struct settings *settings, struct fault *fault) {
    return settings->swarm_outer_gain > 0 && settings_is_given(settings, "swarm.outer_momentum")
               ? fault_set(fault, STATUS_INPUT, settings_location(settings, "swarm.outer_gain"),
                           "remove one of them",
                           "swarm.outer_gain determines the momentum, but swarm.outer_momentum is "
                           "also set")
               : OK;
}

enum status manifest_draft_read(const char *path, const char *const *overrides, int override_count,
                                struct region *region, struct manifest_draft *draft,
                                struct fault *fault) {
    struct manifest_draft *read = region_alloc(region, 1, sizeof *read);
    TRY(settings_open(path, overrides, override_count, region, &read->settings, fault));
    TRY(swarm_settings_check(&read->settings, fault));
    TRY(check_outer_keys(&read->settings, fault));
    TRY(read_model(read, region, fault));
    TRY(swarm_settings_check(&read->settings,
                             /* completes the settings with the element types of the model */
                             fault));
    TRY(swarm_terms_of(NULL, &read->settings, &read->blueprint, &read->terms, fault));
    read->run_text = write_shared_keys(&read->settings, region);
    *draft = *read;
    return OK;
}

enum status manifest_draft_sign(const struct manifest_draft *draft, const char *address,
                                const struct key_pairs *operator_keys, struct region *region,
                                struct manifest *manifest, const char **text, struct fault *fault) {
    const struct settings *settings = &draft->settings;
    struct manifest made = {.name = settings->swarm_name,
                            .protocol = SWARM_PROTOCOL_VERSION,
                            .created = (int64_t)clock_unix_s(),
                            .join = {.operator_keys = operator_keys->public_keys},
                            .run_text = draft->run_text,
                            .config_text = draft->config_text};
    size_t room = MANIFEST_BYTES_MAX + 1;
    struct text file = text_over(region_alloc(region, room, 1), room);
    ASSERT(address_error(address) == NULL);
    memcpy(made.join.address, address, strlen(address) + 1);
    struct settings tokenised = *settings;
    TRY(data_tokenise_text(&tokenised, region, fault));
    TRY(data_match_hash_files(&tokenised, region, &made.files, &made.file_count, fault));
    TRY(genesis_root(settings, &draft->blueprint, draft->model_folder, &made.genesis_root, fault));
    TRY(manifest_write(&made, operator_keys, &file, &made.hash, fault));
    *manifest = made;
    *text = file.bytes;
    return OK;
}

/* ---- an earlier manifest ---- */

static enum status set_changed_item_fault(const char *subject, struct fault *fault,
                                          const char *item) {
    return fault_set(fault, STATUS_INPUT, subject,
                     "restore it, or create a new swarm in a different --state folder",
                     "%s has changed since the swarm was created from it", item);
}

static int shown_line_length(const char *line) {
    size_t length = strcspn(line, "\n");
    return length < SHOWN_LINE_BYTES ? (int)length : SHOWN_LINE_BYTES;
}

/* Compares two texts of "key: value" lines. They have the same keys in the same order, unless
 * different versions of this program wrote them. */
static enum status compare_keys(const char *current, const char *earlier, const char *subject,
                                struct fault *fault) {
    while (*current != '\0' && *earlier != '\0') {
        size_t length = strcspn(current, "\n");
        if (strcspn(earlier, "\n") != length || memcmp(current, earlier, length) != 0) {
            break;
        }
        current += length + (current[length] == '\n');
        earlier += length + (earlier[length] == '\n');
    }
    if (*current == '\0' && *earlier == '\0') {
        return OK;
    }
    return fault_set(fault, STATUS_INPUT, subject,
                     "restore the old value, or create a new swarm in a different --state folder",
                     "the setting is now \"%.*s\", but was \"%.*s\" when the swarm was created",
                     shown_line_length(current), current, shown_line_length(earlier), earlier);
}

enum status manifest_draft_compare(const struct manifest_draft *draft,
                                   const struct manifest *manifest, const char *subject,
                                   struct fault *fault) {
    TRY(compare_keys(draft->run_text, manifest->run_text, subject, fault));
    if (strcmp(draft->config_text, manifest->config_text) != 0) {
        return set_changed_item_fault(subject, fault, "config.json");
    }
    return OK;
}
