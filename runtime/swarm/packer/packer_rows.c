/* packer_rows: packs one field of all rows of a table, as a column or as runs. */
#include "runtime/swarm/packer/packer.h"

#include <string.h>

/* A column of numbers: u32 or u64 fields of all rows. */
struct number_column {
    struct packer_rows rows; /* rows whose field is packed */
    size_t offset;           /* byte offset of the field in its row */
    size_t field_bytes;      /* size of the field: 4 or 8 */
    size_t bytes;            /* size of each packed number in bytes */
};

static bool is_row_selected(const struct packer_rows *rows, uint32_t row) {
    return rows->selected == NULL || (rows->selected[row / 64] >> row % 64 & 1) != 0;
}

/* Returns the first selected row at or after `row`, or rows->count if there is none. */
static uint32_t next_selected_row(const struct packer_rows *rows, uint32_t row) {
    while (row < rows->count && !is_row_selected(rows, row)) {
        row++;
    }
    return row;
}

static uint32_t count_selected_rows(const struct packer_rows *rows) {
    uint32_t count = 0;
    for (uint32_t row = 0; row < rows->count; row++) {
        count += is_row_selected(rows, row);
    }
    return count;
}

static void *field_at(const struct packer_rows *rows, uint32_t row, size_t offset) {
    return (char *)rows->first + row * rows->stride + offset;
}

static uint64_t read_number_of_row(const struct number_column *column, uint32_t row) {
    const void *field = field_at(&column->rows, row, column->offset);
    return column->field_bytes == sizeof(uint64_t) ? *(const uint64_t *)field
                                                   : *(const uint32_t *)field;
}

static void write_number_of_row(const struct number_column *column, uint32_t row, uint64_t value) {
    void *field = field_at(&column->rows, row, column->offset);
    if (column->field_bytes == sizeof(uint64_t)) {
        *(uint64_t *)field = value;
    } else {
        *(uint32_t *)field = (uint32_t)value;
    }
}

static void pack_column(struct packer *packer, const char *name,
                        const struct number_column *column) {
    pack_bin_header(packer, name, count_selected_rows(&column->rows) * column->bytes);
    for (uint32_t row = 0; row < column->rows.count; row++) {
        if (!is_row_selected(&column->rows, row)) {
            continue;
        }
        if (packer_is_reading(packer)) {
            write_number_of_row(column, row, pack_bin_number(packer, 0, column->bytes));
        } else {
            (void)pack_bin_number(packer, read_number_of_row(column, row), column->bytes);
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
    pack_bin_header(packer, name, count_selected_rows(&rows) * bytes);
    for (uint32_t row = 0; row < rows.count; row++) {
        if (is_row_selected(&rows, row)) {
            pack_bin_part(packer, field_at(&rows, row, offset), bytes);
        }
    }
}

/* Encoded sizes: of the number of rows of a run; of a stretch, which is its first row and its
 * number of rows. */
enum { RUN_ROWS_BYTES = 2, STRETCH_BYTES = 2 + RUN_ROWS_BYTES };

/* A run: consecutive selected rows with equal numbers. */
struct number_run {
    uint32_t rows; /* number of rows in the run */
    uint32_t end;  /* index of the first selected row after the run */
};

static struct number_run find_number_run(const struct number_column *column, uint32_t row) {
    const uint64_t value = read_number_of_row(column, row);
    struct number_run run = {.end = row};
    while (run.end < column->rows.count && read_number_of_row(column, run.end) == value) {
        run.end = next_selected_row(&column->rows, run.end + 1);
        run.rows++;
    }
    return run;
}

static uint32_t count_number_runs(const struct number_column *column) {
    uint32_t count = 0;
    for (uint32_t row = next_selected_row(&column->rows, 0); row < column->rows.count;
         row = find_number_run(column, row).end) {
        count++;
    }
    return count;
}

static void write_number_runs(struct packer *packer, const struct number_column *column) {
    for (uint32_t row = next_selected_row(&column->rows, 0); row < column->rows.count;) {
        const struct number_run run = find_number_run(column, row);
        (void)pack_bin_number(packer, run.rows, RUN_ROWS_BYTES);
        (void)pack_bin_number(packer, read_number_of_row(column, row), column->bytes);
        row = run.end;
    }
}

static void read_number_runs(struct packer *packer, const struct number_column *column,
                             uint32_t runs) {
    const struct packer_rows *rows = &column->rows;
    uint32_t row = next_selected_row(rows, 0);
    for (uint32_t run = 0; run < runs; run++) {
        const uint64_t run_rows = pack_bin_number(packer, 0, RUN_ROWS_BYTES);
        const uint64_t value = pack_bin_number(packer, 0, column->bytes);
        for (uint64_t i = 0; i < run_rows; i++) {
            if (row == rows->count) {
                packer_fail(
                    packer,
                    "has runs of equal values that cover more rows than the swarm has slices");
                return;
            }
            write_number_of_row(column, row, value);
            row = next_selected_row(rows, row + 1);
        }
    }
    if (row != rows->count) {
        packer_fail(packer,
                    "has runs of equal values that cover fewer rows than the swarm has slices");
    }
}

static void pack_runs(struct packer *packer, const char *name, const struct number_column *column) {
    ASSERT(column->rows.count <= UINT16_MAX);
    uint32_t runs = packer_is_reading(packer) ? 0 : count_number_runs(column);
    pack_variable_bin_header(packer, name, &runs, column->rows.count,
                             RUN_ROWS_BYTES + column->bytes);
    if (packer_is_reading(packer)) {
        read_number_runs(packer, column, runs);
    } else {
        write_number_runs(packer, column);
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

/* ---- sets of rows ---- */

/* Returns the row after the stretch of selected rows that begins at `row`. */
static uint32_t find_stretch_end(const struct packer_rows *rows, uint32_t row) {
    while (row < rows->count && is_row_selected(rows, row)) {
        row++;
    }
    return row;
}

static uint32_t count_stretches(const struct packer_rows *rows) {
    uint32_t count = 0;
    for (uint32_t row = next_selected_row(rows, 0); row < rows->count;
         row = next_selected_row(rows, find_stretch_end(rows, row))) {
        count++;
    }
    return count;
}

static void write_stretches(struct packer *packer, const struct packer_rows *rows) {
    for (uint32_t row = next_selected_row(rows, 0); row < rows->count;) {
        const uint32_t end = find_stretch_end(rows, row);
        (void)pack_bin_number(packer, row, STRETCH_BYTES - RUN_ROWS_BYTES);
        (void)pack_bin_number(packer, end - row, RUN_ROWS_BYTES);
        row = next_selected_row(rows, end);
    }
}

static void read_stretches(struct packer *packer, uint64_t *selected, uint32_t count,
                           uint32_t stretches) {
    for (uint32_t i = 0; i < stretches; i++) {
        const uint64_t first = pack_bin_number(packer, 0, STRETCH_BYTES - RUN_ROWS_BYTES);
        const uint64_t rows = pack_bin_number(packer, 0, RUN_ROWS_BYTES);
        if (first + rows > count) {
            packer_fail(packer, "has rows after the swarm's last slice");
            return;
        }
        for (uint64_t row = first; row < first + rows; row++) {
            selected[row / 64] |= UINT64_C(1) << row % 64;
        }
    }
}

void pack_row_set(struct packer *packer, const char *name, uint64_t *selected, uint32_t count) {
    const struct packer_rows rows = {.count = count, .selected = selected};
    ASSERT(count <= UINT16_MAX);
    uint32_t stretches = packer_is_reading(packer) ? 0 : count_stretches(&rows);
    pack_variable_bin_header(packer, name, &stretches, (count + 1) / 2, STRETCH_BYTES);
    if (packer_is_reading(packer)) {
        memset(selected, 0, (count + 63) / 64 * sizeof *selected);
        read_stretches(packer, selected, count, stretches);
    } else {
        write_stretches(packer, &rows);
    }
}
