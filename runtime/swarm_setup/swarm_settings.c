#include "runtime/swarm_setup/swarm_setup.h"

#include "runtime/data/data_match.h"
#include "runtime/swarm_setup/member_rates.h"

#include <stdio.h>
#include <stdlib.h>

static const double QUORUM = 0.5;
static const char COMMAND_LINE[] = "command line";
static const char *const SPARSE_KEYS[] = {"swarm.sparse_values", "swarm.sparse_bits"};
static const char *const MOMENTUM_KEYS[] = {"swarm.outer_momentum", "swarm.outer_gain"};

bool swarm_shares_key(const struct setting_key *key) {
    bool is_location = key->type == SETTING_PATHS || key->type == SETTING_MODEL ||
                       strcmp(key->name, "data.format") == 0;
    return key->class == SETTING_SHARED && !is_location;
}

static bool is_name_listed(const struct setting_key *key, const char *const *names, size_t count) {
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found |= strcmp(key->name, names[i]) == 0;
    }
    return found;
}

/* Whether some programs of the same protocol version do not know this key. A manifest without such
 * a key has the same bytes as one of an older program; an older program rejects a manifest with the
 * key. The default of such a key must not change within a protocol version. */
static bool is_key_of_newer_programs(const struct setting_key *key) {
    static const char *const NAMES[] = {"swarm.outer_gain", "swarm.member_betas",
                                        "swarm.member_decay", "swarm.member_variance"};
    return is_name_listed(key, NAMES, ARRAY_COUNT(NAMES));
}

static bool has_default_value(const struct settings *settings, const struct setting_key *key) {
    char value[NAME_BYTES];
    struct text text = text_over(value, sizeof value);
    settings_describe_key(settings, key, &text);
    return strcmp(value, key->default_text) == 0;
}

/* Whether a key has an effect with this codec, and so is in the manifest. Keys of the sparse codec
 * have none with other codecs, and keys of the outer momentum have none with the sparse codec. */
static bool has_effect(const struct settings *settings, const struct setting_key *key) {
    return swarm_codec_is_sparse(settings)
               ? !is_name_listed(key, MOMENTUM_KEYS, ARRAY_COUNT(MOMENTUM_KEYS))
               : !is_name_listed(key, SPARSE_KEYS, ARRAY_COUNT(SPARSE_KEYS));
}

static bool is_in_manifest(const struct settings *settings, const struct setting_key *key) {
    return swarm_shares_key(key) && has_effect(settings, key) &&
           !(is_key_of_newer_programs(key) && has_default_value(settings, key));
}

void swarm_keys_write(const struct settings *settings, struct text *text) {
    for (int i = 0; i < setting_key_count(); i++) {
        if (is_in_manifest(settings, setting_key_at(i))) {
            text_add(text, "%s: ", setting_key_at(i)->name);
            settings_describe_key(settings, setting_key_at(i), text);
            text_add(text, "\n");
        }
    }
}

static enum status set_key_fault(const struct settings *settings, struct fault *fault,
                                 const char *key, const char *remedy, const char *reason) {
    return fault_set(fault, STATUS_INPUT, settings_location(settings, key), remedy, "%s %s", key,
                     reason);
}

/* Rejects frozen parameters stored in a smaller type: they have no fp32 masters, of which the
 * outer state consists. */
static enum status check_frozen(const struct settings *settings, struct fault *fault) {
    bool rounded = settings->frozen != NULL && settings->params_dtype == DTYPE_BF16;
    return rounded
               ? set_key_fault(settings, fault, "frozen", "set precision.params to f32",
                               "leaves parameters without the fp32 copy that the outer state needs")
               : OK;
}

/* Rejects rates of a member that round to 1 in fp32, because a beta of 1 would never change a
 * moment, and an outer gain without an outer step. */
static enum status check_member_adamw_rates(const struct settings *settings, struct fault *fault) {
    const struct number_pair betas =
        member_adamw_rates_of(settings, (uint32_t)settings->swarm_members_max).betas;
    if (settings->swarm_member_betas == MEMBER_AUTO &&
        ((float)betas.first >= 1 || (float)betas.second >= 1)) {
        return set_key_fault(settings, fault, "swarm.member_betas",
                             "lower optimizer.betas or swarm.members_max",
                             "is auto, but with swarm.members_max members a beta rounds to 1");
    }
    return settings->swarm_outer_gain > 0 && settings->swarm_outer_lr <= 0
               ? set_key_fault(settings, fault, "swarm.outer_gain", "set swarm.outer_lr above 0",
                               "is set, but swarm.outer_lr is 0: the outer step would do nothing")
               : OK;
}

/* Rejects keys that the codec makes ineffective. The error feedback of the sparse codec takes the
 * place of the outer momentum. */
static enum status check_codec_keys(const struct settings *settings, struct fault *fault) {
    if (!swarm_codec_is_sparse(settings)) {
        for (size_t i = 0; i < ARRAY_COUNT(SPARSE_KEYS); i++) {
            if (settings_is_given(settings, SPARSE_KEYS[i])) {
                return set_key_fault(settings, fault, SPARSE_KEYS[i],
                                     "remove it, or set swarm.codec to sparse",
                                     "is set, but swarm.codec is not sparse");
            }
        }
        return OK;
    }
    if (settings_is_given(settings, "swarm.outer_momentum") &&
        settings->swarm_outer_momentum != 0) {
        return set_key_fault(settings, fault, "swarm.outer_momentum", "remove it, or set it to 0",
                             "is not 0, but swarm.codec is sparse, which has no outer momentum");
    }
    return settings->swarm_outer_gain > 0
               ? set_key_fault(
                     settings, fault, "swarm.outer_gain", "remove it, or set it to 0",
                     "takes effect through the outer momentum, which swarm.codec sparse does "
                     "not have")
               : OK;
}

enum status swarm_settings_check(const struct settings *settings, struct fault *fault) {
    const char *error =
        settings->swarm_name == NULL ? "is missing" : swarm_name_error(settings->swarm_name);
    if (error != NULL) {
        return set_key_fault(settings, fault, "swarm.name",
                             "add a line such as swarm.name: heather", error);
    }
    if (settings->epochs > 0) {
        return set_key_fault(settings, fault, "epochs", "set steps, the inner steps of each member",
                             "is not for swarms: the passes depend on the number of members");
    }
    if (settings->swarm_members_max > SWARM_MEMBERS_MAX) {
        return set_key_fault(settings, fault, "swarm.members_max", NULL,
                             "is more than 64: a round's roster has 64 seats");
    }
    if (settings->swarm_members_min > settings->swarm_members_max) {
        return set_key_fault(settings, fault, "swarm.members_min", NULL,
                             "is more than swarm.members_max: no round would ever open");
    }
    if (settings->swarm_quorum != QUORUM) {
        return set_key_fault(settings, fault, "swarm.quorum", "set swarm.quorum to 0.5",
                             "is not 0.5: more than half of a roster must vote for a commit");
    }
    TRY(check_member_adamw_rates(settings, fault));
    TRY(check_codec_keys(settings, fault));
    return check_frozen(settings, fault);
}

/* Rejects batch sizes of 0, which are allowed without a swarm. In a swarm, each member would
 * derive a different number of steps from its own microbatch. */
static enum status check_batch_sizes(const struct settings *settings, struct fault *fault) {
    const char *key = settings->sequence_tokens == 0 ? "batch.sequence" : "batch.tokens";
    return settings->sequence_tokens == 0 || settings->batch_tokens == 0
               ? set_key_fault(settings, fault, key, "fetch the manifest again",
                               "is 0, but the manifest must set it for all members")
               : OK;
}

/* ---- from the manifest ---- */

enum status swarm_state_folder(const char *name, char folder[static PATH_BYTES],
                               struct fault *fault) {
    char made[PATH_BYTES];
    /* systemd sets STATE_DIRECTORY to one or more paths, separated by colons; the first one is
     * used */
    const char *systemd_folders = getenv("STATE_DIRECTORY");
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int length = -1;
    if (systemd_folders != NULL && systemd_folders[0] == '/') {
        length = snprintf(made, sizeof made, "%.*s", (int)strcspn(systemd_folders, ":"),
                          systemd_folders);
    } else if (state != NULL && state[0] == '/') {
        length = snprintf(made, sizeof made, "%s/skep/%s", state, name);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(made, sizeof made, "%s/.local/state/skep/%s", home, name);
    }
    if (length <= 0 || (size_t)length >= sizeof made) {
        return fault_set(
            fault, STATUS_INPUT, "environment",
            "set XDG_STATE_HOME to the absolute path of a folder for the member's state",
            "none of STATE_DIRECTORY, XDG_STATE_HOME and HOME is set to an absolute path");
    }
    memcpy(folder, made, (size_t)length + 1);
    return OK;
}

static bool is_key_set(const struct settings *settings, int key) {
    return settings->value_locations[key] != NULL;
}

/* Rejects a manifest that sets local settings, because it is untrusted input and must not choose
 * where a member writes. */
static enum status check_manifest_keys(const struct settings *settings, struct fault *fault) {
    for (int i = 0; i < setting_key_count(); i++) {
        if (is_key_set(settings, i) && !swarm_shares_key(setting_key_at(i))) {
            return fault_set(fault, STATUS_INPUT, settings->value_locations[i],
                             "ask the swarm's operator for a valid manifest",
                             "the manifest sets %s, which is a local setting of each member",
                             setting_key_at(i)->name);
        }
    }
    return OK;
}

static const char *describe_value(const struct settings *settings, const struct setting_key *key,
                                  struct region *region) {
    size_t room = settings_describe_bytes_max(settings);
    struct text text = text_over(region_alloc(region, room, 1), room);
    settings_describe_key(settings, key, &text);
    return text.bytes;
}

static enum status check_override(const struct settings *settings, const char *swarm,
                                  const char *override, struct region *region,
                                  struct fault *fault) {
    char name[NAME_BYTES];
    size_t width = strcspn(override, "=");
    snprintf(name, sizeof name, "%.*s", width < sizeof name ? (int)width : 0, override);
    /* the key `precision` sets the types of parameters and of compute */
    const bool is_both = strcmp(name, "precision") == 0;
    const struct setting_key *key = setting_key_find(is_both ? "precision.params" : name);
    if (key == NULL || override[width] == '\0' || !swarm_shares_key(key)) {
        return OK; /* an invalid override is reported later, by settings_open_source */
    }
    return fault_set(
        fault, STATUS_INPUT, COMMAND_LINE, "remove it: shared settings come from the manifest",
        "%s is a shared setting: it is %.100s in the swarm %s, and %.100s on the command line",
        name, describe_value(settings, key, region), swarm, override + width + 1);
}

static enum status check_overrides(const struct swarm_member_source *source,
                                   const struct settings *settings, struct region *region,
                                   struct fault *fault) {
    for (int i = 0; i < source->override_count; i++) {
        TRY(check_override(settings, source->manifest->name, source->overrides[i], region, fault));
    }
    return OK;
}

/* Reads the manifest's text twice: first without overrides, which are compared with its values,
 * then with them. */
enum status swarm_settings_read(const struct swarm_member_source *source, struct region *region,
                                struct settings *settings, struct fault *fault) {
    const struct manifest *manifest = source->manifest;
    const char *text = manifest->run_text;
    char source_name[PATH_BYTES];
    char folder[PATH_BYTES];
    struct settings read;
    snprintf(source_name, sizeof source_name, "%.4000s:run", source->subject);
    TRY(swarm_state_folder(manifest->name, folder, fault));
    struct settings_source from = {.path = source_name, .stem = folder};
    TRY(settings_open_source(&from, text, strlen(text), region, &read, fault));
    TRY(check_manifest_keys(&read, fault));
    TRY(swarm_settings_check(&read, fault));
    TRY(check_batch_sizes(&read, fault));
    TRY(check_overrides(source, &read, region, fault));
    from.overrides = source->overrides;
    from.override_count = source->override_count;
    TRY(settings_open_source(&from, text, strlen(text), region, &read, fault));
    data_match_find_files(manifest, region, &read);
    *settings = read;
    return OK;
}

struct sparse_shape swarm_sparse_shape(const struct settings *settings) {
    return (struct sparse_shape){.keep = 32 << settings->swarm_sparse_values,
                                 .value_bits = 1 << settings->swarm_sparse_bits};
}

void swarm_set_outer_rates(const struct settings *settings, struct replica_shape *shape) {
    const bool is_sparse = swarm_codec_is_sparse(settings);
    const double gain = is_sparse ? 0 : settings->swarm_outer_gain;
    shape->outer_rate = (float)settings->swarm_outer_lr;
    shape->outer_momentum = is_sparse ? 0 : (float)settings->swarm_outer_momentum;
    shape->rate_per_gain = gain > 0 ? settings->swarm_outer_lr / gain : 0;
}

enum status swarm_terms_of(const struct manifest *manifest, const struct settings *settings,
                           const struct blueprint *blueprint, struct swarm_terms *terms,
                           struct fault *fault) {
    struct swarm_terms made = {
        .manifest = manifest,
        .shape = {.members_max = (uint32_t)settings->swarm_members_max},
        .seat_samples = (uint64_t)settings->swarm_inner_steps *
                        (uint64_t)(settings->batch_tokens / settings->sequence_tokens),
        .sample_tokens = (uint64_t)settings->sequence_tokens,
        .commits_max = (uint32_t)((settings->steps + settings->swarm_inner_steps - 1) /
                                  settings->swarm_inner_steps)};
    swarm_set_outer_rates(settings, &made.shape);
    const int64_t parameters = blueprint_elements(blueprint);
    TRY(swarm_codec_is_sparse(settings)
            ? slices_divide_sparse(parameters, swarm_sparse_shape(settings), made.shape.members_max,
                                   &made.shape.slices, fault)
            : slices_divide(parameters, (enum codec)settings->swarm_codec, made.shape.members_max,
                            &made.shape.slices, fault));
    *terms = made;
    return OK;
}

uint32_t swarm_snapshot_rounds(const struct settings *settings) {
    int64_t rounds =
        (settings->snapshot_every + settings->swarm_inner_steps - 1) / settings->swarm_inner_steps;
    return rounds == 0 ? DEFAULT_SNAPSHOT_ROUNDS : (uint32_t)rounds;
}
