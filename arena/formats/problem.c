#include "arena/formats/formats.h"

#include "arena/formats/writer.h"
#include "base/file.h"
#include "base/limits.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const uint64_t TOTAL_BYTES_MAX = (uint64_t)1 << 62;
static const char *const COLUMN_NAMES[COLUMN_COUNT] = {
    [COLUMN_ID] = "id",     [COLUMN_LOWER] = "lower",         [COLUMN_UPPER] = "upper",
    [COLUMN_SIZE] = "size", [COLUMN_ALIGNMENT] = "alignment", [COLUMN_OFFSET] = "offset",
};
static const char HEADER_REMEDY[] =
    "the first line lists the columns: id,lower,upper,size and optionally alignment";

/* The parser's position in the text of a file. */
struct cursor {
    const char *text;        /* text of the file */
    size_t length, position; /* size of `text`; offset of the next byte to read */
    size_t line_end;         /* offset of the break that ends the line, or of the end of the file */
    const char *path;        /* file name for faults */
    int line;                /* line number, from 1 */
    size_t line_start;       /* offset of the current line's first byte */
};

/* A field of a line, without surrounding blanks. */
struct field {
    const char *text;
    size_t length; /* bytes of `text` */
    size_t column; /* column of the field's first byte in the line, from 1 */
};

static enum status field_fault(const struct cursor *cursor, const struct field *field,
                               const char *remedy, const char *reason, struct fault *fault) {
    char subject[PATH_BYTES];
    /* Truncate a long path at its beginning, so that the line and column stay visible. */
    size_t path_length = strlen(cursor->path);
    size_t path_max = sizeof fault->subject - 48;
    const char *path = cursor->path + (path_length > path_max ? path_length - path_max : 0);
    snprintf(subject, sizeof subject, "%s:%d:%zu", path, cursor->line, field->column);
    char shown[64] = "";
    for (size_t i = 0; i < field->length && i + 1 < sizeof shown; i++) {
        bool is_printable = field->text[i] >= ' ' && field->text[i] <= '~';
        shown[i] = is_printable ? field->text[i] : '?';
    }
    return fault_set(fault, STATUS_INPUT, subject, remedy, "'%s' %s", shown, reason);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Move to the next line that is not blank. Returns false at the end of the file. */
static bool move_to_next_line(struct cursor *cursor) {
    while (cursor->position < cursor->length) {
        const char *start = cursor->text + cursor->position;
        const char *end = memchr(start, '\n', cursor->length - cursor->position);
        cursor->line++;
        cursor->line_start = cursor->position;
        cursor->line_end = end != NULL ? (size_t)(end - cursor->text) : cursor->length;
        for (size_t i = cursor->line_start; i < cursor->line_end; i++) {
            if (!is_blank(cursor->text[i])) {
                return true;
            }
        }
        cursor->position = cursor->line_end + 1;
    }
    return false;
}

/* Read the field at the cursor, and move the cursor past the comma or the end of the line. Sets
 * *is_last when the field ends its line. */
static struct field next_field(struct cursor *cursor, bool *is_last) {
    size_t start = cursor->position;
    const char *comma = memchr(cursor->text + start, ',', cursor->line_end - start);
    size_t end = comma != NULL ? (size_t)(comma - cursor->text) : cursor->line_end;
    *is_last = comma == NULL;
    cursor->position = end + 1;
    while (start < end && is_blank(cursor->text[start])) {
        start++;
    }
    while (end > start && is_blank(cursor->text[end - 1])) {
        end--;
    }
    return (struct field){cursor->text + start, end - start, start - cursor->line_start + 1};
}

static int find_column(const struct field *field) {
    for (int column = 0; column < COLUMN_COUNT; column++) {
        if (strlen(COLUMN_NAMES[column]) == field->length &&
            memcmp(COLUMN_NAMES[column], field->text, field->length) == 0) {
            return column;
        }
    }
    return -1;
}

static enum status parse_header(struct cursor *cursor, struct problem *problem,
                                struct fault *fault) {
    bool seen[COLUMN_COUNT] = {false};
    struct field field = {.text = "", .column = 1};
    if (!move_to_next_line(cursor)) {
        return field_fault(cursor, &field, HEADER_REMEDY, "is not a header line: the file is empty",
                           fault);
    }
    bool is_last = false;
    while (!is_last) {
        field = next_field(cursor, &is_last);
        int column = find_column(&field);
        if (column < 0) {
            return field_fault(cursor, &field, HEADER_REMEDY, "is not a known column", fault);
        }
        if (seen[column]) {
            return field_fault(cursor, &field, HEADER_REMEDY, "occurs twice", fault);
        }
        seen[column] = true;
        problem->columns[problem->column_count++] = (enum column)column;
    }
    for (enum column column = COLUMN_ID; column <= COLUMN_SIZE; column++) {
        if (!seen[column]) {
            field = (struct field){COLUMN_NAMES[column], strlen(COLUMN_NAMES[column]), 1};
            return field_fault(cursor, &field, HEADER_REMEDY,
                               "is a required column, but is missing", fault);
        }
    }
    return OK;
}

static bool parse_number(const struct field *field, uint64_t *number) {
    uint64_t value = 0;
    for (size_t i = 0; i < field->length; i++) {
        char c = field->text[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(c - '0'), &value)) {
            return false;
        }
    }
    *number = value;
    return field->length > 0;
}

/* The fields of a row of the file, and their parsed numbers, both by enum column. */
struct row {
    struct field fields[COLUMN_COUNT];
    uint64_t numbers[COLUMN_COUNT]; /* parsed values of the fields, by enum column */
};

static enum status split_row(struct cursor *cursor, const struct problem *problem, struct row *row,
                             struct fault *fault) {
    bool is_last = false;
    for (int i = 0; i < problem->column_count; i++) {
        struct field field = {.text = "", .column = cursor->line_end - cursor->line_start + 1};
        if (is_last) {
            return field_fault(cursor, &field, "write one field for each column of the first line",
                               "is missing: the row has too few fields", fault);
        }
        field = next_field(cursor, &is_last);
        row->fields[problem->columns[i]] = field;
    }
    if (!is_last) {
        struct field field = next_field(cursor, &is_last);
        return field_fault(cursor, &field, "write one field for each column of the first line",
                           "is a surplus field: the row has too many", fault);
    }
    return OK;
}

static enum status check_row(const struct cursor *cursor, const struct row *row,
                             struct fault *fault) {
    const uint64_t *numbers = row->numbers;
    const struct field *fields = row->fields;
    if (numbers[COLUMN_UPPER] > UINT32_MAX) {
        return field_fault(cursor, &fields[COLUMN_UPPER], "use smaller step numbers",
                           "is not below 2^32", fault);
    }
    if (numbers[COLUMN_LOWER] >= numbers[COLUMN_UPPER]) {
        return field_fault(cursor, &fields[COLUMN_UPPER],
                           "set upper above lower: a life is [lower, upper)",
                           "is not above 'lower': the lifetime is empty", fault);
    }
    if (numbers[COLUMN_SIZE] == 0 || numbers[COLUMN_SIZE] >= TOTAL_BYTES_MAX) {
        return field_fault(cursor, &fields[COLUMN_SIZE], "remove buffers of size 0",
                           "is not from 1 to 2^62 - 1", fault);
    }
    uint64_t align = numbers[COLUMN_ALIGNMENT];
    if (align == 0 || (align & (align - 1)) != 0 || align >= TOTAL_BYTES_MAX) {
        return field_fault(cursor, &fields[COLUMN_ALIGNMENT], "use 1 for no alignment",
                           "is not a power of two below 2^62", fault);
    }
    if (fields[COLUMN_ID].length > PROBLEM_ID_BYTES_MAX) {
        return field_fault(cursor, &fields[COLUMN_ID], "use at most 256 bytes",
                           "is too long for an id", fault);
    }
    if (memchr(fields[COLUMN_ID].text, '\0', fields[COLUMN_ID].length) != NULL) {
        return field_fault(cursor, &fields[COLUMN_ID], "remove it", "contains a NUL byte", fault);
    }
    return OK;
}

static enum status parse_row(struct cursor *cursor, const struct problem *problem, struct row *row,
                             struct fault *fault) {
    *row = (struct row){.numbers = {[COLUMN_ALIGNMENT] = 1}};
    TRY(split_row(cursor, problem, row, fault));
    for (int i = 0; i < problem->column_count; i++) {
        enum column column = problem->columns[i];
        bool is_number = column != COLUMN_ID && column != COLUMN_OFFSET;
        if (is_number && !parse_number(&row->fields[column], &row->numbers[column])) {
            return field_fault(cursor, &row->fields[column], "write plain decimal digits",
                               "is not a whole number below 2^64", fault);
        }
    }
    return check_row(cursor, row, fault);
}

static const char *copy_name(struct region *region, const struct field *field) {
    char *name = region_alloc(region, field->length + 1, 1);
    memcpy(name, field->text, field->length);
    return name;
}

static int count_rows(struct cursor cursor) {
    int count = 0;
    while (count <= PROBLEM_EXTENTS_MAX && move_to_next_line(&cursor)) {
        cursor.position = cursor.line_end + 1;
        count++;
    }
    return count;
}

static enum status parse_rows(struct cursor *cursor, struct region *region, struct problem *problem,
                              struct fault *fault) {
    uint64_t total_bytes = 0;
    struct field line_start_field = {.text = "", .column = 1};
    int row_count = count_rows(*cursor);
    if (row_count == 0 || row_count > PROBLEM_EXTENTS_MAX) {
        return field_fault(cursor, &line_start_field,
                           "write 1 to 100,000 rows after the first line",
                           row_count == 0 ? "is not a row: the file ends after the header"
                                          : "is in a row above the limit on the number of rows",
                           fault);
    }
    problem->extents = region_alloc(region, (size_t)row_count, sizeof(struct extent));
    while (move_to_next_line(cursor)) {
        struct row row;
        TRY(parse_row(cursor, problem, &row, fault));
        total_bytes += row.numbers[COLUMN_SIZE] + row.numbers[COLUMN_ALIGNMENT];
        if (total_bytes >= TOTAL_BYTES_MAX) {
            return field_fault(cursor, &row.fields[COLUMN_SIZE], "use a larger unit for the sizes",
                               "makes the sum of sizes and alignments exceed 2^62", fault);
        }
        problem->extents[problem->extent_count++] = (struct extent){
            .name = copy_name(region, &row.fields[COLUMN_ID]),
            .role = ROLE_WORKSPACE,
            .space = SPACE_DEVICE,
            .bytes = row.numbers[COLUMN_SIZE],
            .align = row.numbers[COLUMN_ALIGNMENT],
            .first = (uint32_t)row.numbers[COLUMN_LOWER],
            .last = (uint32_t)row.numbers[COLUMN_UPPER],
        };
    }
    return OK;
}

enum status problem_parse(const char *text, size_t length, const char *path, struct region *region,
                          struct problem *problem, struct fault *fault) {
    struct cursor cursor = {.text = text, .length = length, .path = path};
    struct problem parsed = {0};
    TRY(parse_header(&cursor, &parsed, fault));
    TRY(parse_rows(&cursor, region, &parsed, fault));
    *problem = parsed;
    return OK;
}

enum status problem_read(const char *path, struct region *region, struct problem *problem,
                         struct fault *fault) {
    int fd;
    int64_t length;
    enum status status = file_open_read(path, &fd, &length, fault);
    if (status != OK) {
        return status;
    }
    char *text = NULL;
    if (length > PROBLEM_BYTES_MAX) {
        status = fault_set(fault, STATUS_INPUT, path, "split it",
                           "the file is %lld bytes long; the limit is %d", (long long)length,
                           PROBLEM_BYTES_MAX);
    } else {
        text = region_alloc(region, (size_t)length + 1, 1);
        status = file_read_at(fd, path, text, (size_t)length, 0, fault);
    }
    close(fd);
    return status == OK ? problem_parse(text, (size_t)length, path, region, problem, fault)
                        : status;
}

static void write_field(struct writer *writer, const struct extent *extent, uint64_t offset,
                        enum column column) {
    const unsigned long long numbers[COLUMN_COUNT] = {
        [COLUMN_LOWER] = extent->first, [COLUMN_UPPER] = extent->last,
        [COLUMN_SIZE] = extent->bytes,  [COLUMN_ALIGNMENT] = extent->align,
        [COLUMN_OFFSET] = offset,
    };
    if (column == COLUMN_ID) {
        writer_add_text(writer, extent->name);
    } else {
        writer_add(writer, "%llu", numbers[column]);
    }
}

enum status problem_write(const struct problem *problem, const uint64_t *offsets, int fd,
                          const char *path, struct fault *fault) {
    struct writer writer = writer_for_fd(fd);
    enum column columns[COLUMN_COUNT];
    int column_count = problem->column_count;
    bool has_offset = false;
    for (int i = 0; i < column_count; i++) {
        columns[i] = problem->columns[i];
        has_offset = has_offset || columns[i] == COLUMN_OFFSET;
    }
    if (!has_offset) {
        columns[column_count++] = COLUMN_OFFSET;
    }
    for (int i = 0; i < column_count; i++) {
        writer_add(&writer, "%s%s", i > 0 ? "," : "", COLUMN_NAMES[columns[i]]);
    }
    writer_add_text(&writer, "\n");
    for (int i = 0; i < problem->extent_count; i++) {
        for (int j = 0; j < column_count; j++) {
            writer_add_text(&writer, j > 0 ? "," : "");
            write_field(&writer, &problem->extents[i], offsets[i], columns[j]);
        }
        writer_add_text(&writer, "\n");
    }
    return writer_end(&writer, path, fault);
}
