/* manifest: what a swarm is, in one file NAME.skep that its tracker signed: where the tracker is,
 * what is trained, from which state, on which data, by which settings.
 *
 * The file is a YAML text of at most MANIFEST_BYTES_MAX bytes; its last line is the signature of
 * all before it, and the hash of the whole names the swarm:
 *
 *     format: 1
 *     name: heather
 *     protocol: 1
 *     created: 1795276800
 *     tracker:
 *       address: tcp://203.0.113.7:7700
 *       key: p...
 *     genesis: <root of the outer state that everybody starts from>
 *     files:
 *       - key: data.train
 *         name: "train.u16"
 *         bytes: 1048576
 *         format: u16
 *         root: <Merkle root of its bytes>
 *     run: |2
 *       seed: 1
 *       ...
 *     config: |2
 *       {"model_type": "llama", ...}
 *     signature: <128 digits> */
#ifndef SKEP_SWARM_LEDGER_MANIFEST_H
#define SKEP_SWARM_LEDGER_MANIFEST_H

#include "base/fault.h"
#include "base/hash.h"
#include "base/region.h"
#include "base/text.h"
#include "runtime/swarm/ledger/limits.h"
#include "transport/identity/join_string.h"

enum {
    MANIFEST_FORMAT = 1,
    MANIFEST_BYTES_MAX = 1 << 20,
    MANIFEST_FILES_MAX = 512,       /* six nodes of YAML each, of 4096 */
    MANIFEST_NAME_BYTES = 64,       /* of the swarm, with its NUL */
    MANIFEST_FILE_NAME_BYTES = 256, /* NAME_MAX */
    MANIFEST_FORM_BYTES = 16,       /* "llmc-u16" */
};

/* Which key of a run lists a data file. */
enum manifest_data { MANIFEST_TRAIN, MANIFEST_VALIDATION };

struct manifest_file {
    enum manifest_data data;
    const char *name;   /* as its owner calls it, without folders; for people */
    uint64_t bytes;     /* 1 .. INT64_MAX */
    const char *format; /* how its tokens lie: letters, digits and '-' */
    struct hash root;   /* merkle.h, over its bytes */
};

struct manifest {
    const char *name;
    int64_t protocol;           /* SWARM_PROTOCOL of who wrote it */
    int64_t created;            /* Unix seconds */
    struct join_string tracker; /* where it is, and the keys it proves itself and signs with */
    struct hash genesis;
    const char *run_text;              /* shared run keys: a run file without paths */
    const char *config_text;           /* config.json */
    const struct manifest_file *files; /* [file_count]: those of training before the others, each
                                          in the order in which they are read */
    int file_count;
    struct hash hash; /* of the whole file; filled in by reading and writing */
};

/* manifest_data_name: "data.train", "data.validation". */
const char *manifest_data_name(enum manifest_data data);

/* swarm_name_error: NULL when a swarm can have this name, which is a file's name and a folder's
 * too: up to 63 letters, digits and - _ . of which a '.' or '-' is not the first. Else what is
 * wrong with it. */
MUST_CHECK const char *swarm_name_error(const char *name);

/* manifest_write: the file's text, signed by the tracker's keys, which are the manifest's.
 * limits  all fields but `protocol` and `hash` are filled in; a right name and address
 * text    a builder of at least MANIFEST_BYTES_MAX + 1 bytes; *hash: of what was written
 * errors  STATUS_INPUT: more than MANIFEST_FILES_MAX files or MANIFEST_BYTES_MAX bytes, a name or
 *         config.json with characters that no YAML text has; `text` and *hash are then undefined */
MUST_CHECK enum status manifest_write(const struct manifest *manifest, const struct key_pairs *keys,
                                      struct text *text, struct hash *hash, struct fault *fault);

/* manifest_read: a text from anywhere.
 * expected  the keys that the join string names; NULL: those that the manifest names itself, so
 *           that the text proves only that it is whole
 * memory    everything in `region`
 * errors    STATUS_INPUT at "place:line:column" or `place`: longer than MANIFEST_BYTES_MAX, of a
 *           newer format or protocol, any key that is unknown, given twice or missing, any value
 *           out of bounds, a tracker other than `expected`, a signature that is not the tracker's.
 *           *manifest is then untouched */
MUST_CHECK enum status manifest_read(const char *text, size_t length, const char *place,
                                     const struct public_keys *expected, struct region *region,
                                     struct manifest *manifest, struct fault *fault);

/* manifest_read_file: the same for a file, by the keys that it names itself. */
MUST_CHECK enum status manifest_read_file(const char *path, struct region *region,
                                          struct manifest *manifest, struct fault *fault);

#endif
