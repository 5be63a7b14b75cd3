/* site_wire: the messages between ranks, and sockets that are read and written whole.
 *
 * Messages are these structs as they lie in memory: fixed-size fields without gaps, little-endian.
 * The first two fields of a hello, and all of an answer, stay the same in every version. */
#ifndef SKEP_TRANSPORT_SITE_SITE_WIRE_H
#define SKEP_TRANSPORT_SITE_SITE_WIRE_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little-endian");

enum { WIRE_MAGIC = 0x50454b53, WIRE_VERSION = 1, WIRE_HOST_BYTES = 64 };

enum site_link { WIRE_EXCHANGE, WIRE_HEALTH, WIRE_LINK_COUNT };

struct site_run_name {
    int64_t pid;
    char host[WIRE_HOST_BYTES];
};

/* The first message on a connection, from a rank to rank 0. */
struct site_hello {
    uint32_t magic, version;
    uint64_t job;
    uint64_t nonce; /* of the process: its two connections belong together */
    int32_t link, rank, world;
    int32_t reserved; /* 0 */
    struct site_run_name name;
};
_Static_assert(sizeof(struct site_hello) == 112, "no gaps");

enum site_join_outcome {
    SITE_JOIN_ACCEPTED,  /* the first connection: now the other one */
    WIRE_WELCOME,        /* all ranks are here */
    WIRE_REFUSED,        /* for the reason in `text` */
    SITE_JOIN_ABANDONED, /* ranks are missing: `text` names them */
};

/* Rank 0's answer. */
struct site_join_answer {
    uint32_t magic, version;
    int32_t outcome;
    int32_t reserved;          /* 0 */
    struct site_run_name name; /* rank 0's */
    char text[640];
};
_Static_assert(sizeof(struct site_join_answer) == 16 + 72 + 640, "no gaps");

enum site_problem { WIRE_NONE, WIRE_LEFT, WIRE_LOST, SITE_MISMATCHED };

/* Before one rank's part of an exchange, and before rank 0's answer with all parts. */
struct wire_progress {
    uint32_t magic;
    int32_t problem; /* in an answer: why there are no parts, */
    int32_t rank;    /* and whose fault it is */
    uint32_t bytes;  /* of one part */
    uint64_t sequence;
};
_Static_assert(sizeof(struct wire_progress) == 24, "no gaps");

enum site_health_kind { SITE_HEARTBEAT = 1, SITE_ENDED, SITE_VERDICT };

/* A sign of life. A verdict is followed by its text. */
struct site_health {
    uint32_t sign;
    uint32_t bytes; /* that follow */
};

/* A fault on its way: who is lost or has failed, or what the ranks agreed on. */
struct site_verdict {
    int32_t rank;
    int32_t status;
    char place[sizeof((struct fault *)0)->place];
    char reason[sizeof((struct fault *)0)->reason];
    char remedy[sizeof((struct fault *)0)->remedy];
};
_Static_assert(sizeof(struct site_verdict) == 8 + 320 + 640 + 320, "no gaps");

/* site_send, site_receive: all bytes, or false when the connection is broken (or, for sending
 * without waiting, full). Signals do not interrupt them, and SIGPIPE is never raised. */
bool site_send(int fd, const void *bytes, size_t count, int flags);
bool site_receive(int fd, void *bytes, size_t count);

/* site_receive_within: the same, within timeout_ms. */
bool site_receive_within(int fd, void *bytes, size_t count, int timeout_ms);

/* site_verdict_of, site_fault_of: there and back; texts from outside are ended and made printable,
 * an unknown status becomes STATUS_FAILED. */
struct site_verdict site_verdict_of(int rank, const struct fault *fault);
void site_fault_of(struct site_verdict *verdict, struct fault *fault);

/* site_clean_text: end a text from outside within its `capacity`, '?' for what is not printable. */
void site_clean_text(char *text, size_t capacity);

#endif
