/* manifest: the definition of a swarm, in one file NAME.skep that its tracker signed: the tracker's
 * address and key, the model, the genesis, the data and the shared settings.
 *
 * The file is a YAML text of at most MANIFEST_BYTES_MAX bytes. Its last line is the signature of
 * all lines before it, and the hash of the whole file identifies the swarm:
 *
 *     format: 1
 *     name: heather
 *     protocol: 1
 *     created: 1795276800
 *     tracker:
 *       address: tcp://203.0.113.7:7700
 *       key: p...
 *     genesis: <root of the outer state that all members start from>
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
#include "runtime/swarm/ledger/entry.h"
#include "transport/identity/join_string.h"

enum {
    MANIFEST_FORMAT_VERSION = 1,
    MANIFEST_BYTES_MAX = 1 << 20,
    MANIFEST_FILES_MAX = 512,        /* six nodes of YAML each, of 4096 */
    MANIFEST_NAME_BYTES = 64,        /* of the swarm, with its NUL */
    MANIFEST_FILE_NAME_BYTES = 256,  /* NAME_MAX */
    MANIFEST_FILE_FORMAT_BYTES = 16, /* "llmc-u16" */
};

/* Which key of a run lists a data file. */
enum manifest_file_kind { MANIFEST_TRAINING_FILE, MANIFEST_VALIDATION_FILE };

struct manifest_file {
    enum manifest_file_kind kind;
    const char *name;   /* without folders; only shown to people */
    uint64_t bytes;     /* 1 .. INT64_MAX */
    const char *format; /* of its tokens: letters, digits and '-' */
    struct hash root;   /* merkle.h, over its bytes */
};

struct manifest {
    const char *name;
    int64_t protocol;           /* SWARM_PROTOCOL_VERSION of the tracker that wrote it */
    int64_t created;            /* Unix seconds */
    struct join_string tracker; /* its address and public keys */
    struct hash genesis_root;
    const char *run_text;              /* shared run keys: a run file without paths */
    const char *config_text;           /* config.json */
    const struct manifest_file *files; /* [file_count]: training files first, in the order in which
                                          they are read */
    int file_count;
    struct hash hash; /* of the whole file; set by reading and writing */
};

/* manifest_file_kind_key: "data.train", "data.validation". */
const char *manifest_file_kind_key(enum manifest_file_kind data);

/* swarm_name_error: NULL when a swarm can have this name, which also names files and folders: up to
 * 63 letters, digits and - _ . not beginning with '.' or '-'. Else the error. */
MUST_CHECK const char *swarm_name_error(const char *name);

/* manifest_write: the file's text, signed with the tracker's keys, which the manifest contains.
 * limits  all fields but `protocol` and `hash` are set; the name and address are valid
 * text    has at least MANIFEST_BYTES_MAX + 1 bytes; *hash is that of the text
 * errors  STATUS_INPUT: more than MANIFEST_FILES_MAX files or MANIFEST_BYTES_MAX bytes, a name or
 *         config.json with characters that YAML cannot represent; `text` and *hash are then
 *         undefined */
MUST_CHECK enum status manifest_write(const struct manifest *manifest, const struct key_pairs *keys,
                                      struct text *text, struct hash *hash, struct fault *fault);

/* manifest_read: a text from anywhere.
 * expected  the keys in the join string; NULL: those in the manifest, so that the signature proves
 *           only that the text is unchanged
 * memory    everything in `region`
 * errors    STATUS_INPUT at "subject:line:column" or `subject`: above MANIFEST_BYTES_MAX, a
 *           newer format or protocol, a key that is unknown, given twice or missing, a value out of
 *           bounds, a tracker other than `expected`, a signature that is not the tracker's.
 *           *manifest is then untouched */
MUST_CHECK enum status manifest_read(const char *text, size_t length, const char *subject,
                                     const struct public_keys *expected, struct region *region,
                                     struct manifest *manifest, struct fault *fault);

/* manifest_read_file: the same for a file, with the keys in it. */
MUST_CHECK enum status manifest_read_file(const char *path, struct region *region,
                                          struct manifest *manifest, struct fault *fault);

/* manifest_text: constants that writer and reader of a manifest share. */

#define MANIFEST_SIGN_CONTEXT  "skep manifest"
#define MANIFEST_SIGNATURE_KEY "signature: " /* begins the last line */

#endif
