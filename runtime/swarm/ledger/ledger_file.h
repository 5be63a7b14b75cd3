/* ledger_file: reads and writes a ledger as lines of JSON, for people and other programs.
 *
 * A line has every field that is hashed, so that lines can be verified as well as records. Hashes,
 * identities (signing keys) and signatures are lower-case hexadecimal; a range of samples is
 * [begin, end]; `owner` and `contributors` of a slice are seats. The fields are:
 *     every entry        kind, round, commits, prev, hash, incarnation, root, signatures,
 *                        cursor {position, returned}
 *     a genesis          protocol, manifest
 *     an open            deadline_ms
 *     a suspend          suspended (identity), reason, until_round
 *     all but a genesis  members [{id, session, ranges}], in a commit with tokens, weight, samples,
 *                        norm, contributed and owned (numbers of slices)
 *     a commit           slice_count, results (the root over the slices), chain, slices [{index,
 *                        begin, end, owner, epoch, contributors, weight, hash}]: empty where the
 *                        rows are not known
 * A signature of a commit is {id, signature}; the tracker's is {signature}.
 *
 * The first line may be a checkpoint instead of the genesis: {kind, entry_count, state}, with the
 * bytes of ledger_chain_write in hexadecimal. Its commit is the second line. */
#ifndef SKEP_SWARM_LEDGER_LEDGER_FILE_H
#define SKEP_SWARM_LEDGER_LEDGER_FILE_H

#include "base/fault.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/swarm/ledger/ledger.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Size of the longest line with its NUL. A commit with the rows of 16,384 slices and 64
     * contributors needs 7 MiB. */
    LEDGER_LINE_MAX = 8 << 20,
    LEDGER_LOCATION_BYTES = 256,        /* size of "FILE:LINE", with its NUL */
    LEDGER_ENTRY_TEXT_BYTES = 96 << 10, /* largest length of an entry's line without its slices */
    LEDGER_SLICE_TEXT_BYTES = 512,      /* largest length of a slice in a line */
    /* largest length of a checkpoint's line */
    LEDGER_CHECKPOINT_TEXT_BYTES = 2 * LEDGER_CHAIN_BYTES_MAX + 96,
};

/* ledger_line_bytes_max: the largest size of a line with at most this number of slices. */
static inline size_t ledger_line_bytes_max(uint32_t slice_count) {
    return LEDGER_ENTRY_TEXT_BYTES + (size_t)slice_count * LEDGER_SLICE_TEXT_BYTES;
}

/* ledger_suspension_name: the name of an enum suspension_reason in a ledger line.
 * ledger_suspension_cause: the reason as text that completes the log line "suspended until round
 * 8: ...". */
const char *ledger_suspension_name(uint32_t reason);
const char *ledger_suspension_cause(uint32_t reason);

/* old_protocol_fault: set the fault of a manifest, ledger or journal of protocol 1 at `place`. The
 * fault names the last version of Skep that reads it. Returns STATUS_INPUT. */
enum status old_protocol_fault(struct fault *fault, const char *place);

/* ledger_line_write: write an entry as a line of JSON, without a line feed, with or without
 * entry->slices.
 * limits  entry_error(entry) is NULL; a text of LEDGER_LINE_MAX bytes has room for any entry */
void ledger_line_write(const struct entry *entry, enum entry_form form, struct text *text);

/* ledger_line_read: parse a line of JSON into *entry. A field that is missing, unknown, given twice
 * or out of bounds is a fault. Signatures and hash are not verified (ledger_append does that).
 * location  the subject of faults, "FILE:LINE"; not needed after the call
 * memory    jansson allocates, so call it only before the arena is sealed; entry->slices is set to
 *           `slices` [slice_capacity]; *entry and slices are undefined after a fault
 * errors    STATUS_INPUT; the fault names the field */
MUST_CHECK enum status ledger_line_read(const char *line, size_t length, const char *location,
                                        struct entry_slice *slices, uint32_t slice_capacity,
                                        struct entry *entry, struct fault *fault);

/* ledger_checkpoint_line_write: write the checkpoint with this state as a line of JSON, without a
 * line feed. `bytes` [LEDGER_CHAIN_BYTES_MAX] is overwritten.
 * ledger_checkpoint_line_read: read a first line. *is_checkpoint is false for a line of another
 * kind. The caller passes the state to ledger_chain_begin.
 * memory  as of ledger_line_read; *chain is undefined after a fault and for a line of another kind
 * errors  STATUS_INPUT: a field is missing, unknown or wrong, or the state is invalid */
void ledger_checkpoint_line_write(const struct ledger_chain *chain, uint8_t *bytes,
                                  struct text *text);
MUST_CHECK enum status ledger_checkpoint_line_read(const char *line, size_t length,
                                                   const char *location, uint8_t *bytes,
                                                   struct ledger_chain *chain, bool *is_checkpoint,
                                                   struct fault *fault);

struct ledger_file {
    const char *path;                /* path of the file, for messages */
    int fd;                          /* descriptor of the file */
    int64_t file_bytes, read_offset; /* size of the file; offset in it of the next read */
    char *buffer;                    /* [line_max]: bytes read from the file */
    size_t line_max;                 /* Size of the longest line with its line feed. */
    uint32_t slice_capacity;         /* Maximum number of slices in an entry. */
    size_t parse_begin, parse_end;   /* Range of `buffer` that is not yet parsed. */
    int64_t line_number; /* Number of the last line that was read; the first line is 1. */
    char location[LEDGER_LOCATION_BYTES]; /* "FILE:LINE" of the last line read. */
    struct entry entry;                   /* The entry of the last line read. */
    bool has_checkpoint;                  /* The first line is a checkpoint. */
    struct ledger_chain *checkpoint;      /* the checkpoint that the file begins with */
    uint8_t *state_bytes;                 /* [LEDGER_CHAIN_BYTES_MAX]: encoded state of a chain */
};

/* ledger_file_open: open a ledger for reading from its first line.
 * memory  allocates about 10 MiB in `region`; `path` must stay valid
 * errors  STATUS_INPUT if the file does not exist */
MUST_CHECK enum status ledger_file_open(const char *path, struct region *region,
                                        struct ledger_file **file, struct fault *fault);

/* ledger_file_open_sized: like ledger_file_open, but with the given maximum sizes, for a swarm
 * whose entries are known to be smaller. */
MUST_CHECK enum status ledger_file_open_sized(const char *path, size_t line_max,
                                              uint32_t slice_capacity, struct region *region,
                                              struct ledger_file **file, struct fault *fault);

/* ledger_file_next: read the next entry into file->entry. *more is false after the last line. The
 * first call also reads the checkpoint that the file begins with, if it does.
 * errors  STATUS_INPUT at FILE:LINE: the line is not an entry, is too long, or is truncated. Hash,
 *         chain and signatures are not verified. */
MUST_CHECK enum status ledger_file_next(struct ledger_file *file, bool *more, struct fault *fault);

void ledger_file_close(struct ledger_file *file);

/* entry_journal: a durable file of ledger entries, stored one after the other.
 *
 *     | "skep journal 2\n" | length 4 | record | hash 32 | length 4 | record | hash 32 | ...
 *
 * The hash covers length and record. The format of a record is in entry.h. An append that a crash
 * interrupted leaves an incomplete record, which the next append overwrites. Reading never changes
 * the file. */

struct entry_journal {
    const char *path;
    int fd;
    int64_t valid_bytes;        /* Total size of the magic and all complete records. */
    bool has_incomplete_record; /* An incomplete record follows the valid bytes. */
    uint32_t slice_capacity;
    uint8_t *record;         /* [record_bytes_max]: buffer of a record */
    size_t record_bytes_max; /* maximum size of a record in bytes */
};

/* entry_journal_open: open the file, or create it. Entries have at most `slice_capacity` slices.
 * memory  `path` must stay valid; allocates one record in `region`; later calls allocate nothing
 * errors  STATUS_INPUT if the file is not a journal; STATUS_FIT, STATUS_FAILED. *journal is
 *         unchanged */
MUST_CHECK enum status entry_journal_open(const char *path, uint32_t slice_capacity,
                                          struct region *region, struct entry_journal *journal,
                                          struct fault *fault);
void entry_journal_close(struct entry_journal *journal);

/* entry_journal_append: the entry is durable when this returns OK.
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: the journal is then unchanged */
MUST_CHECK enum status entry_journal_append(struct entry_journal *journal,
                                            const struct entry *entry, struct fault *fault);

/* entry_journal_next: read the entry at *offset, 0 for the first, and advance *offset. *found is
 * false after the last entry.
 * memory  the caller provides entry->slices [slice_capacity]
 * errors  STATUS_INPUT for a record that is not a valid entry; *entry is then undefined */
MUST_CHECK enum status entry_journal_next(struct entry_journal *journal, int64_t *offset,
                                          struct entry *entry, bool *found, struct fault *fault);

bool entry_journal_is_empty(const struct entry_journal *journal);

/* entry_journal_clear: remove all entries. The removal is durable on return. */
MUST_CHECK enum status entry_journal_clear(struct entry_journal *journal, struct fault *fault);

/* ledger_store: the tracker's durable state in one SQLite file: the entries of the ledger, which
 * are only appended, the rows of the newest REPLAY_ROUNDS_MAX + 1 commits, and the tracker's other
 * promises.
 *
 * A call that has returned OK survives a crash of the process and of the machine: synchronous=FULL
 * and a write-ahead log, which is synced once per call. (With a rollback journal, FULL does not
 * sync the folder after the journal was removed, so that a power failure could undo the last
 * entry.) An interrupted call has full effect or none. The file is locked while it is open, so
 * that two trackers never write into one ledger. */

enum {
    PROMISE_NAME_MAX = 64,       /* Maximum length of a promise's name. */
    PROMISE_BYTES_MAX = 1 << 20, /* Maximum size of a promise: the largest TABLE. */
};

/* The outcome of a write to the tracker store. */
enum write_outcome {
    WRITE_OK,     /* Everything was written. */
    WRITE_FAILED, /* Nothing was written, for example because the disk is full. */
    WRITE_FENCED, /* Nothing was written, because a newer tracker has started. */
};

struct sqlite3;
struct sqlite3_stmt;

struct ledger_store {
    const char *path;
    struct sqlite3 *database;                             /* the SQLite connection */
    struct sqlite3_stmt *insert_entry, *select_entry;     /* prepared SQL statements for entries */
    struct sqlite3_stmt *insert_promise, *select_promise; /* prepared SQL, for promises */
    /* prepared SQL, for the rows of commits */
    struct sqlite3_stmt *insert_results, *delete_results;
    uint8_t *record;      /* [ENTRY_RECORD_BYTES_MAX]: buffer of a record */
    uint64_t entry_count; /* number of entries in the store */
    struct hash head;     /* Hash of the last entry; zero if there are no entries. */
};

/* ledger_store_open: open the file, or create it. An interrupted transaction is undone.
 * memory  `path` must stay valid; allocates about 1.3 MiB in `region`; SQLite allocates in every
 *         call
 * errors  STATUS_INPUT if the file is not a ledger store, is damaged, or is open in another
 *         process; STATUS_FIT on a full disk; STATUS_FAILED. *store is then untouched. */
MUST_CHECK enum status ledger_store_open(const char *path, struct region *region,
                                         struct ledger_store *store, struct fault *fault);
void ledger_store_close(struct ledger_store *store);

/* ledger_store_append: append `entry`, which may be sent to members only after this returns OK.
 * limits  entry->prev is store->head, entry_error(entry) is NULL
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: the store is then unchanged */
MUST_CHECK enum status ledger_store_append(struct ledger_store *store, const struct entry *entry,
                                           struct fault *fault);

/* ledger_store_read: read the entry at index `number`; the first is 0. A commit has its rows if
 * they are stored.
 * limits  number < store->entry_count
 * memory  entry->slices is set to `slices` [slice_capacity]; both are undefined after an error
 * errors  STATUS_INPUT when the record is damaged; chain and signatures are not verified */
MUST_CHECK enum status ledger_store_read(struct ledger_store *store, uint64_t number,
                                         struct entry_slice *slices, uint32_t slice_capacity,
                                         struct entry *entry, struct fault *fault);

/* ledger_store_write_promise: store `bytes` under a name, replacing the bytes stored before.
 * ledger_store_read_promise: read the bytes of a name; *count is 0 if none are stored.
 * limits  a name of 1 .. PROMISE_NAME_MAX characters; count <= PROMISE_BYTES_MAX
 * errors  STATUS_FIT, STATUS_FAILED: the stored bytes are unchanged; STATUS_INPUT when `capacity`
 *         is too small */
MUST_CHECK enum status ledger_store_write_promise(struct ledger_store *store, const char *name,
                                                  const void *bytes, size_t count,
                                                  struct fault *fault);
MUST_CHECK enum status ledger_store_read_promise(struct ledger_store *store, const char *name,
                                                 void *bytes, size_t capacity, size_t *count,
                                                 struct fault *fault);

/* ledger_store_count_start: count a start of the tracker. *incarnation is set to the count, which
 * is 1 for the first start. ledger_store_set_start_count: set the count in an imported store. It
 * never decreases. */
MUST_CHECK enum status ledger_store_set_start_count(struct ledger_store *store, uint32_t starts,
                                                    struct fault *fault);
MUST_CHECK enum status ledger_store_count_start(struct ledger_store *store, uint32_t *incarnation,
                                                struct fault *fault);

/* A promise: bytes to store under a name. Both stay in the caller's memory. */
struct store_promise {
    const char *name;  /* name under which the bytes are stored */
    const void *bytes; /* content of the promise */
    size_t count;      /* size of `bytes` */
};

/* The entry and the promises that one step of a tracker makes durable in one transaction. */
struct store_transaction {
    uint32_t incarnation;                 /* incarnation of the tracker that writes */
    const struct entry *entry;            /* Entry to append, or NULL. */
    const struct store_promise *promises; /* [promise_count]: promises to write */
    uint32_t promise_count;               /* number of promises */
};

/* ledger_store_write: store the entry and the promises in one transaction.
 * limits  those of ledger_store_append and ledger_store_write_promise
 * errors  WRITE_FAILED: nothing is stored, for example because the disk is full; WRITE_FENCED: a
 *         tracker with a higher incarnation has started. *fault describes the reason. */
MUST_CHECK enum write_outcome ledger_store_write(struct ledger_store *store,
                                                 const struct store_transaction *write,
                                                 struct fault *fault);

#endif
