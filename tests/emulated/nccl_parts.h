/* nccl_parts: what the files of the emulated NCCL share. */
#ifndef SKEP_TESTS_EMULATED_NCCL_PARTS_H
#define SKEP_TESTS_EMULATED_NCCL_PARTS_H

#include "tests/emulated/nccl.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    NCCL_RANKS_MAX = 8,
    NCCL_TURNS = 2,             /* buffers of a rank, used in turn */
    NCCL_ROOM_BYTES = 64 << 20, /* of each; pages come when they are touched */
};

enum transfer_kind { TRANSFER_SLOTS, TRANSFER_SUM };

/* What a rank hands to the others in one transfer: for each of them a part of the buffer. */
struct channel_offer {
    uint32_t kind;
    uint32_t present[NCCL_RANKS_MAX];
    uint64_t at[NCCL_RANKS_MAX], bytes[NCCL_RANKS_MAX];
};

struct channel_rank {
    _Atomic uint32_t joined, left;
    uint64_t place;                  /* of machine and device */
    _Atomic uint64_t offered, taken; /* transfers */
    struct channel_offer offers[NCCL_TURNS];
};

/* The memory of one group; the buffers lie behind it. */
struct channel {
    _Atomic uint32_t size;
    struct channel_rank ranks[NCCL_RANKS_MAX];
};

/* One end of a part. */
struct part {
    char *address; /* NULL: none */
    uint64_t bytes;
};

/* Sends and receives that belong together, or one sum. It lives as long as its communicator: a
 * graph may run it again. */
struct transfer {
    struct transfer *next;
    struct ncclComm *comm;
    enum transfer_kind kind;
    struct part send[NCCL_RANKS_MAX], receive[NCCL_RANKS_MAX];
    /* a sum: all elements go to everybody, who adds what it wants */
    const float *from;
    float *to;
    uint64_t count, first, wanted;
    bool between_two; /* sends and receives */
};

struct ncclComm {
    struct channel *channel;
    size_t channel_bytes;
    int fd; /* of who made it; -1 */
    int size, index;
    bool aborted;
    unsigned state;           /* asynchronous error, or NCCL_SUCCESS */
    int questions;            /* until what is in progress has come about */
    struct transfer *pending; /* to be enqueued then */
    CUstream stream;
    struct transfer *transfers;
    int registered;
    int done;                 /* transfers that ran */
    bool has_ring, has_peers; /* connections for collectives, for sends and receives */
    uint64_t taken_bytes;     /* of the device */
};

struct nccl_emulation {
    struct emulated_nccl_plan plan;
    uint64_t draws;
    int live;
    int communicators; /* neither destroyed nor aborted */
    int group_depth;
    struct transfer *grouped; /* what the open group collects */
    CUstream grouped_on;
    char last_error[256];
};
extern struct nccl_emulation emulated_nccl;

/* nccl.c */
uint32_t nccl_draw(uint32_t bound);
void nccl_stop(const char *format, ...) PRINTF_LIKE(1, 2) __attribute__((noreturn));
unsigned nccl_refuse(unsigned code, const char *why);
unsigned nccl_connect(struct ncclComm *comm, bool between_two);

/* nccl_transfer.c */
struct transfer *transfer_new(struct ncclComm *comm, enum transfer_kind kind);
/* As the stream's next work, now or when it is asked after. */
unsigned transfer_issue(struct transfer *transfer, CUstream stream);
/* What was put off becomes work of its stream. */
unsigned transfer_enqueue(struct ncclComm *comm);
void transfer_fill_table(struct nccl_library *library);

#endif
