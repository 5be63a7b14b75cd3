#include "runtime/session/compute_copies.h"

void compute_copies_plan(struct session *session, struct compute_copies *copies) {
    int params = session->blueprint.param_count;
    struct compute_copies made = {
        .rows = region_alloc(&session->region, (size_t)params, sizeof *made.rows)};
    for (int i = 0; i < params; i++) {
        struct param_part master = program_param_part(&session->bound, i, VIEW_MASTER);
        struct param_part copy = program_param_part(&session->bound, i, VIEW_PARAMS);
        if (copy.count == 0 || copy.address == master.address) {
            continue;
        }
        ASSERT(master.dtype == DTYPE_F32 && master.count == copy.count);
        made.rows[made.count++] = (struct program_cast){.from = master.address,
                                                        .to = copy.address,
                                                        .count = copy.count,
                                                        .from_dtype = DTYPE_F32,
                                                        .to_dtype = copy.dtype};
    }
    *copies = made;
}

void compute_copies_refresh(const struct session *session, const struct compute_copies *copies) {
    for (int i = 0; i < copies->count; i++) {
        program_cast_params(&session->bound, &copies->rows[i]);
    }
}
