/* manifest: the definition of a swarm, in one file NAME.skep that its operator signed: the address
 * of the tracker, the operator's key, the model, the genesis, the data and the shared settings.
 *
 * The file is a YAML text of at most MANIFEST_BYTES_MAX bytes. Its last line is the signature of
 * all lines before it, and the hash of the whole file identifies the swarm:
 *
 *     format: 1
 *     name: heather
 *     protocol: 2
 *     created: 1795276800
 *     tracker: tcp://203.0.113.7:7700
 *     operator: p...
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
    MANIFEST_FORMAT_VERSION = 1,  /* version of the manifest's text */
    MANIFEST_BYTES_MAX = 1 << 20, /* maximum size of a manifest */
    /* each file takes six of the at most 4096 nodes that the YAML parser allows */
    MANIFEST_FILES_MAX = 512,
    MANIFEST_NAME_BYTES = 64,       /* Longest name of a swarm, with its NUL. */
    MANIFEST_FILE_NAME_BYTES = 256, /* Longest name of a file, with its NUL: NAME_MAX + 1. */
    /* Longest name of a token format, such as "llmc-u16", with its NUL. */
    MANIFEST_FILE_FORMAT_BYTES = 16,
};

/* The kind of a data file, which is the run key that lists it. */
enum manifest_file_kind { MANIFEST_TRAINING_FILE, MANIFEST_VALIDATION_FILE };

struct manifest_file {
    enum manifest_file_kind kind;
    const char *name;   /* File name without folders, used only in messages. */
    uint64_t bytes;     /* size of the file, 1 .. INT64_MAX */
    const char *format; /* Token format: letters, digits and '-'. */
    struct hash root;   /* Merkle root of the file's bytes. */
};

struct manifest {
    const char *name;
    int64_t protocol;         /* SWARM_PROTOCOL_VERSION of the tracker that wrote the manifest. */
    int64_t created;          /* Time of creation, in Unix seconds. */
    struct join_string join;  /* Address of the tracker, and public keys of the operator. */
    struct hash genesis_root; /* Root of the initial state. */
    const char *run_text;     /* Shared settings: a run file without paths. */
    const char *config_text;  /* Text of config.json. */
    const struct manifest_file *files; /* [file_count]: training files first, in reading order. */
    int file_count;                    /* number of files */
    struct hash hash; /* Hash of the whole file, set by manifest_read and manifest_write. */
};

/* manifest_file_kind_key: the run key of a kind, "data.train" or "data.validation". */
const char *manifest_file_kind_key(enum manifest_file_kind data);

/* swarm_name_error: NULL if the name is valid for a swarm and so for its files and folders: up to
 * 63 letters, digits and - _ . not beginning with '.' or '-'. Else a text that describes the
 * error. */
MUST_CHECK const char *swarm_name_error(const char *name);

/* manifest_write: write a manifest as text, signed with the operator's keys. The manifest contains
 * the public keys.
 * limits  all fields but `protocol` and `hash` are set; the name and address are valid
 * text    has at least MANIFEST_BYTES_MAX + 1 bytes; *hash is that of the text
 * errors  STATUS_INPUT: more than MANIFEST_FILES_MAX files or MANIFEST_BYTES_MAX bytes, a name or
 *         config.json with characters that YAML cannot represent; `text` and *hash are then
 *         undefined */
MUST_CHECK enum status manifest_write(const struct manifest *manifest, const struct key_pairs *keys,
                                      struct text *text, struct hash *hash, struct fault *fault);

/* manifest_read: parse and verify the text of a manifest, which may be untrusted.
 * expected  the keys in the join string; NULL: those in the manifest, so that the signature proves
 *           only that the text is unchanged
 * memory    allocates in `region`; *manifest points into it
 * errors    STATUS_INPUT at "subject:line:column" or `subject`: above MANIFEST_BYTES_MAX, a
 *           newer format, another protocol, a key that is unknown, given twice or missing, a value
 *           out of bounds, an operator other than `expected`, a signature that is not the
 *           operator's.
 *           *manifest is then untouched */
MUST_CHECK enum status manifest_read(const char *text, size_t length, const char *subject,
                                     const struct public_keys *expected, struct region *region,
                                     struct manifest *manifest, struct fault *fault);

/* manifest_read_file: like manifest_read, but for a file, verified with the keys that the file
 * contains. */
MUST_CHECK enum status manifest_read_file(const char *path, struct region *region,
                                          struct manifest *manifest, struct fault *fault);

/* manifest_text: constants that the writer and the reader of a manifest share. */

#define MANIFEST_SIGN_CONTEXT  "skep manifest"
#define MANIFEST_SIGNATURE_KEY "signature: " /* The last line begins with this text. */

#endif
