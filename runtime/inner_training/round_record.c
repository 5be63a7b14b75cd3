#include "runtime/inner_training/round_record.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/swarm/ledger/ledger_file.h"

enum { VECTORS_MAX = 2 }; /* maximum number of vectors in one file */

struct named_vector {
    const char *name; /* name of the tensor in the file */
    float *values;    /* one element for each parameter */
};

static void plan_tensor_file(struct session *session, const char *name,
                             const struct named_vector *vectors, int count,
                             struct tensor_file *file) {
    struct region *region = &session->region;
    int64_t elements = blueprint_elements(&session->blueprint);
    struct tensor_source *sources = region_alloc(region, (size_t)count, sizeof *sources);
    struct tensor_spec tensors[VECTORS_MAX];
    struct tensor_piece pieces[VECTORS_MAX];
    for (int i = 0; i < count; i++) {
        tensors[i] = (struct tensor_spec){
            .name = vectors[i].name, .dtype = DTYPE_F32, .rank = 1, .shape = {elements}};
        pieces[i] = piece_of_spec(&tensors[i], vectors[i].values);
    }
    struct tensor_set set = {
        .tensors = tensors, .tensor_count = count, .pieces = pieces, .piece_count = count};
    tensor_sources_init(&set, region, sources);
    tensor_file_plan(name, sources, count, region, file);
}

void round_record_plan(struct session *session, const struct replica *replica,
                       struct round_record *record) {
    *record = (struct round_record){.folder = session->settings.swarm_record, .replica = replica};
    if (record->folder == NULL) {
        return;
    }
    record->path = region_alloc(&session->region, PATH_BYTES, 1);
    record->decoded = swarm_extent_address(session, SWARM_EXTENT_RECORDED_CONTRIBUTION);
    const struct named_vector declared = {"contribution", record->decoded};
    const struct named_vector outer[] = {{"params", replica->params},
                                         {"momentum", replica->momentum}};
    plan_tensor_file(session, "declared.safetensors", &declared, 1, &record->contribution);
    plan_tensor_file(session, "outer.safetensors", outer,
                     replica->momentum == NULL ? 1 : ARRAY_COUNT(outer), &record->outer_state);
    record->line_bytes = ledger_line_bytes_max(replica->shape.slices.count);
    record->line = region_alloc(&session->region, record->line_bytes, 1);
}

static enum status write_tensor_file(const struct round_record *record, uint32_t round,
                                     const struct tensor_file *file, const struct staging *staging,
                                     struct fault *fault) {
    struct text path = text_over(record->path, PATH_BYTES);
    text_add(&path, "%s/round-%u", record->folder, round);
    TRY(file_make_folders(record->path, fault));
    return tensor_file_write(file, record->path, staging, fault);
}

enum status round_record_write_commit(const struct round_record *record, const struct entry *entry,
                                      struct fault *fault) {
    if (record->folder == NULL) {
        return OK;
    }
    struct text line = text_over(record->line, record->line_bytes);
    ledger_line_write(entry, ENTRY_WITH_SLICES, &line);
    text_add(&line, "\n");
    ASSERT(!line.truncated);
    struct text path = text_over(record->path, PATH_BYTES);
    text_add(&path, "%s/round-%u", record->folder, entry->round);
    TRY(file_make_folders(record->path, fault));
    text_add(&path, "/commit.json");
    char unfinished[PATH_BYTES];
    file_unfinished_path(record->path, unfinished, sizeof unfinished);
    return file_replace(record->path, unfinished, line.bytes, line.length, fault);
}

enum status round_record_write_contribution(const struct round_record *record, uint32_t round,
                                            const struct staging *staging, struct fault *fault) {
    if (record->folder == NULL) {
        return OK;
    }
    const struct replica *replica = record->replica;
    replica_decode_contribution(replica, record->decoded);
    return write_tensor_file(record, round, &record->contribution, staging, fault);
}

enum status round_record_write_outer_state(const struct round_record *record, uint32_t round,
                                           const struct staging *staging, struct fault *fault) {
    return record->folder == NULL
               ? OK
               : write_tensor_file(record, round, &record->outer_state, staging, fault);
}
