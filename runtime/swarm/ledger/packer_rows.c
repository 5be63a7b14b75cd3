/* packer_rows: pass one field of all rows of a table, as a column or as runs. */
#include "runtime/swarm/ledger/packer.h"

/* A column of numbers: u32 or u64 fields of all rows. */
struct number_column {
    struct packer_rows rows;
    size_t offset, field_bytes;
    size_t bytes; /* size of a number in the bin */
};

static bool is_passed(const struct packer_rows *rows, uint32_t row) {
    return !rows->is_partial || (rows->selected >> row & 1) != 0;
}

static uint32_t passed_count(const struct packer_rows *rows) {
    ASSERT(!rows->is_partial || rows->count <= 64);
    uint32_t count = 0;
    for (uint32_t row = 0; row < rows->count; row++) {
        count += is_passed(rows, row);
    }
    return count;
}

static void *field_at(const struct packer_rows *rows, uint32_t row, size_t offset) {
    return (char *)rows->first + row * rows->stride + offset;
}

static uint64_t get_number(const struct number_column *column, uint32_t row) {
    const void *field = field_at(&column->rows, row, column->offset);
    return column->field_bytes == sizeof(uint64_t) ? *(const uint64_t *)field
                                                   : *(const uint32_t *)field;
}

static void set_number(const struct number_column *column, uint32_t row, uint64_t value) {
    void *field = field_at(&column->rows, row, column->offset);
    if (column->field_bytes == sizeof(uint64_t)) {
        *(uint64_t *)field = value;
    } else {
        *(uint32_t *)field = (uint32_t)value;
    }
}

static void pack_column(struct packer *packer, const char *name,
                        const struct number_column *column) {
    pack_bin(packer, name, passed_count(&column->rows) * column->bytes);
    for (uint32_t row = 0; row < column->rows.count; row++) {
        if (!is_passed(&column->rows, row)) {
            continue;
        }
        if (packer_is_reading(packer)) {
            set_number(column, row, pack_part_number(packer, 0, column->bytes));
        } else {
            (void)pack_part_number(packer, get_number(column, row), column->bytes);
        }
    }
}

void pack_u64_column(struct packer *packer, const char *name, struct packer_rows rows,
                     size_t offset) {
    pack_column(packer, name, &(struct number_column){rows, offset, 8, 8});
}

void pack_u32_column(struct packer *packer, const char *name, struct packer_rows rows,
                     size_t offset, size_t bytes) {
    pack_column(packer, name, &(struct number_column){rows, offset, 4, bytes});
}

void pack_f64_column(struct packer *packer, const char *name, struct packer_rows rows,
                     size_t offset) {
    pack_bytes_column(packer, name, rows, offset, sizeof(double));
}

void pack_bytes_column(struct packer *packer, const char *name, struct packer_rows rows,
                       size_t offset, size_t bytes) {
    pack_bin(packer, name, passed_count(&rows) * bytes);
    for (uint32_t row = 0; row < rows.count; row++) {
        if (is_passed(&rows, row)) {
            pack_part(packer, field_at(&rows, row, offset), bytes);
        }
    }
}

enum { RUN_ROWS_BYTES = 2 };

/* Returns the row after the run that begins at `row`. */
static uint32_t find_run_end(const struct number_column *column, uint32_t row) {
    const uint64_t value = get_number(column, row);
    while (row < column->rows.count && get_number(column, row) == value) {
        row++;
    }
    return row;
}

static uint32_t count_runs(const struct number_column *column) {
    uint32_t count = 0;
    for (uint32_t row = 0; row < column->rows.count; row = find_run_end(column, row)) {
        count++;
    }
    return count;
}

static void write_runs(struct packer *packer, const struct number_column *column) {
    for (uint32_t row = 0; row < column->rows.count;) {
        const uint32_t end = find_run_end(column, row);
        (void)pack_part_number(packer, end - row, RUN_ROWS_BYTES);
        (void)pack_part_number(packer, get_number(column, row), column->bytes);
        row = end;
    }
}

static void read_runs(struct packer *packer, const struct number_column *column, uint32_t runs) {
    uint32_t row = 0;
    for (uint32_t run = 0; run < runs; run++) {
        const uint64_t rows = pack_part_number(packer, 0, RUN_ROWS_BYTES);
        const uint64_t value = pack_part_number(packer, 0, column->bytes);
        if (rows > column->rows.count - row) {
            packer_fail(packer, "has runs of more rows than the swarm has slices");
            return;
        }
        for (const uint32_t end = row + (uint32_t)rows; row < end; row++) {
            set_number(column, row, value);
        }
    }
    if (row != column->rows.count) {
        packer_fail(packer, "has runs of fewer rows than the swarm has slices");
    }
}

static void pack_runs(struct packer *packer, const char *name, const struct number_column *column) {
    ASSERT(!column->rows.is_partial && column->rows.count <= UINT16_MAX);
    uint32_t runs = packer_is_reading(packer) ? 0 : count_runs(column);
    pack_bin_of_any_length(packer, name, &runs, column->rows.count, RUN_ROWS_BYTES + column->bytes);
    if (packer_is_reading(packer)) {
        read_runs(packer, column, runs);
    } else {
        write_runs(packer, column);
    }
}

void pack_u64_runs(struct packer *packer, const char *name, struct packer_rows rows,
                   size_t offset) {
    pack_runs(packer, name, &(struct number_column){rows, offset, 8, 8});
}

void pack_u32_runs(struct packer *packer, const char *name, struct packer_rows rows, size_t offset,
                   size_t bytes) {
    pack_runs(packer, name, &(struct number_column){rows, offset, 4, bytes});
}
