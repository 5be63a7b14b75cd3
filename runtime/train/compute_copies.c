#include "runtime/train/compute_copies.h"

#include "kernels/elementwise.h"

void compute_copies_of(struct session *session, struct compute_copies *copies) {
    int params = session->blueprint.param_count;
    struct compute_copies made = {
        .rows = region_alloc(&session->region, (size_t)params, sizeof *made.rows)};
    for (int i = 0; i < params; i++) {
        struct param_part master = program_part(&session->bound, i, VIEW_MASTER);
        struct param_part copy = program_part(&session->bound, i, VIEW_PARAMS);
        if (copy.count == 0 || copy.address == master.address) {
            continue;
        }
        ASSERT(master.dtype == DTYPE_F32 && master.count == copy.count);
        made.rows[made.count++] =
            (struct compute_copy){master.address, copy.address, copy.dtype, copy.count};
    }
    *copies = made;
}

void compute_copies_refresh(const struct session *session, const struct compute_copies *copies) {
    for (int i = 0; i < copies->count; i++) {
        const struct compute_copy *row = &copies->rows[i];
        cast_run(&session->bound.compute, row->count, DTYPE_F32, row->master, row->dtype,
                 row->copy);
    }
}
