/* site_wire: the messages between ranks, and functions that send and receive them completely.
 *
 * A message on the wire is the memory of its struct: fields of fixed size without padding,
 * little-endian. The first two fields of a hello, and all of an answer, are the same in every
 * version of the protocol. */
#ifndef SKEP_TRANSPORT_SITE_SITE_WIRE_H
#define SKEP_TRANSPORT_SITE_SITE_WIRE_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little-endian");

enum {
    SITE_VERSION = 1,     /* version of the protocol between ranks */
    SITE_HOST_BYTES = 64, /* size of a host name, with its NUL */
};

/* First bytes of each message of a site, in memory rather than in instructions: with the byte of a
 * jump after it, lintian takes it for a misspelled word. */
extern const uint32_t SITE_MAGIC;

/* The use of a connection: exchanges, or heartbeats. */
enum site_link { SITE_LINK_EXCHANGE, SITE_LINK_HEALTH, SITE_LINK_COUNT };

/* Identifies the process of a rank, for messages. */
struct site_process {
    int64_t pid;
    char host_name[SITE_HOST_BYTES];
};

/* The first message on a connection, from a rank to rank 0. */
struct site_hello {
    uint32_t magic, version;   /* SITE_MAGIC; SITE_VERSION of the sender */
    uint64_t job_id;           /* id of the run; rank 0 rejects other ids */
    uint64_t nonce;            /* equal for the two connections of a process */
    int32_t link, rank, world; /* enum site_link; rank of the sender; number of ranks */
    int32_t reserved;          /* 0 */
    struct site_process process;
};
_Static_assert(sizeof(struct site_hello) == 112, "no padding");

enum site_join_outcome {
    SITE_JOIN_ACCEPTED,  /* the first connection was accepted; the second may follow */
    SITE_JOIN_WELCOME,   /* all ranks are connected */
    SITE_JOIN_REJECTED,  /* the process is not a rank of this run; `text` has the reason */
    SITE_JOIN_ABANDONED, /* not all ranks connected; `text` lists the missing ones */
};

/* Rank 0's answer. */
struct site_join_answer {
    uint32_t magic, version;
    int32_t outcome;             /* an enum site_join_outcome */
    int32_t reserved;            /* 0 */
    struct site_process process; /* of rank 0 */
    char text[640];              /* reason for a rejection, or list of missing ranks */
};
_Static_assert(sizeof(struct site_join_answer) == 16 + 72 + 640, "no padding");

enum site_problem {
    SITE_NO_PROBLEM,
    SITE_PEER_LEFT,  /* the rank left in order */
    SITE_PEER_LOST,  /* the rank was lost */
    SITE_MISMATCHED, /* the rank makes a different exchange */
};

/* The header of one rank's data in an exchange, and of rank 0's answer with the data of all. */
struct site_exchange_header {
    uint32_t magic;
    int32_t problem;   /* an enum site_problem; in an answer, the reason why no data follows */
    int32_t rank;      /* the rank that caused the problem */
    uint32_t bytes;    /* size of the data of one rank */
    uint64_t sequence; /* number of the exchange */
};
_Static_assert(sizeof(struct site_exchange_header) == 24, "no padding");

enum site_health_kind {
    SITE_HEARTBEAT = 1, /* the sender is alive */
    SITE_LEFT,          /* the sender leaves in order */
    SITE_VERDICT,       /* a rank was lost or failed */
};

/* A message on a heartbeat connection. SITE_VERDICT is followed by a struct site_verdict. */
struct site_health {
    uint32_t kind;          /* an enum site_health_kind */
    uint32_t payload_bytes; /* bytes that follow this header */
};

/* A fault as it is sent: the loss or failure of a rank, or the result of site_agree. */
struct site_verdict {
    int32_t rank;   /* the rank that was lost or failed */
    int32_t status; /* an enum status */
    char subject[sizeof((struct fault *)0)->subject];
    char reason[sizeof((struct fault *)0)->reason];
    char remedy[sizeof((struct fault *)0)->remedy];
};
_Static_assert(sizeof(struct site_verdict) == 8 + 320 + 640 + 320, "no padding");

/* site_send, site_receive: transfer all bytes. False: the connection is broken or, for a send with
 * MSG_DONTWAIT, full. Signals do not interrupt them, and they never raise SIGPIPE. */
bool site_send(int fd, const void *bytes, size_t count, int flags);
bool site_receive(int fd, void *bytes, size_t count);

/* site_receive_within: site_receive with a timeout. */
bool site_receive_within(int fd, void *bytes, size_t count, int timeout_ms);

/* site_make_verdict, site_read_verdict: convert between a fault and its wire format. Received text
 * is terminated and made printable, and an unknown status becomes STATUS_FAILED. */
struct site_verdict site_make_verdict(int rank, const struct fault *fault);
void site_read_verdict(struct site_verdict *verdict, struct fault *fault);

/* site_clean_text: terminate received text within `capacity` and replace control characters by
 * '?'. */
void site_clean_text(char *text, size_t capacity);

#endif
