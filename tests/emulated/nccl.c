/* nccl: communicators of the emulated NCCL. */
#include "tests/emulated/nccl_parts.h"

#include "base/hash.h"
#include "base/random.h"
#include "tests/emulated/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { VERSION = 22809, ID_MAGIC = 0x6d656e63, SYSTEM_ERROR = 2, INVALID_USAGE = 5 };

struct nccl_emulation emulated_nccl;

/* What an id holds: where its maker's memory is. */
struct id_words {
    uint32_t magic;
    int32_t process, fd;
};

uint32_t nccl_draw(uint32_t bound) {
    uint32_t words[4];
    random_block(emulated_nccl.plan.seed, emulated_nccl.draws++, words);
    return words[0] % bound;
}

void nccl_stop(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulated NCCL: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

unsigned nccl_refuse(unsigned code, const char *why) {
    snprintf(emulated_nccl.last_error, sizeof emulated_nccl.last_error, "%s", why);
    return code;
}

/* ---- device memory ---- */

static bool has_code; /* once in a process, whatever is found and closed again */

static unsigned take_device(struct ncclComm *comm, uint64_t bytes) {
    if (emulated_driver_take(bytes) != CUDA_SUCCESS) {
        return nccl_refuse(1, "no device memory");
    }
    comm->taken_bytes += bytes;
    return NCCL_SUCCESS;
}

static unsigned take_first(struct ncclComm *comm) {
    if (!has_code && emulated_driver_take(EMULATED_NCCL_CODE_BYTES) != CUDA_SUCCESS) {
        return nccl_refuse(1, "no device memory");
    }
    has_code = true;
    return take_device(comm, EMULATED_NCCL_GROUP_BYTES);
}

unsigned nccl_connect(struct ncclComm *comm, bool between_two) {
    bool *connected = between_two ? &comm->has_peers : &comm->has_ring;
    uint64_t bytes = between_two ? (uint64_t)(comm->size - 1) * EMULATED_NCCL_PEER_BYTES
                                 : EMULATED_NCCL_RING_BYTES;
    if (*connected) {
        return NCCL_SUCCESS;
    }
    *connected = true;
    return take_device(comm, bytes);
}

/* ---- joining ---- */

static unsigned get_version(int *version) {
    *version = VERSION;
    return NCCL_SUCCESS;
}

static unsigned get_unique_id(struct nccl_id *id) {
    struct id_words words = {ID_MAGIC, getpid(), memfd_create("emulated nccl", MFD_CLOEXEC)};
    if (words.fd < 0) {
        return nccl_refuse(SYSTEM_ERROR, "no memory to share");
    }
    memset(id, 0, sizeof *id);
    memcpy(id, &words, sizeof words);
    return NCCL_SUCCESS;
}

static size_t bytes_of(int size) {
    return sizeof(struct channel) + (size_t)size * NCCL_TURNS * NCCL_ROOM_BYTES;
}

static struct channel *map_channel(const struct id_words *words, int size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", words->process, words->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes_of(size)) != 0) {
        nccl_stop("the memory of a group, %s: %s", path, strerror(errno));
    }
    void *mapped = mmap(NULL, bytes_of(size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return mapped == MAP_FAILED ? NULL : mapped;
}

static uint64_t place_of_this(void) {
    const char *host = getenv("NCCL_HOSTID");
    struct hash hash = hash_of(host != NULL ? host : "", host != NULL ? strlen(host) : 0);
    uint64_t place;
    memcpy(&place, &hash, sizeof place);
    return place + (uint64_t)emulated_driver_device();
}

static unsigned init_rank(struct ncclComm **comm, int size, struct nccl_id id, int index,
                          struct nccl_config *config) {
    struct id_words words;
    memcpy(&words, &id, sizeof words);
    if (words.magic != ID_MAGIC || size < 2 || size > NCCL_RANKS_MAX || config->blocking != 0 ||
        config->magic != (unsigned)NCCL_CONFIG_MAGIC || config->size != sizeof *config) {
        nccl_stop("an id that nobody made, a group of %d, or another configuration", size);
    }
    struct ncclComm *made = calloc(1, sizeof *made);
    if (made == NULL || (made->channel = map_channel(&words, size)) == NULL) {
        nccl_stop("no memory");
    }
    made->channel_bytes = bytes_of(size);
    made->size = size;
    made->index = index;
    made->fd = words.process == getpid() ? words.fd : -1;
    made->questions = (int)nccl_draw(5) + 1 + emulated_nccl.plan.slow_init;
    emulated_nccl.live++;
    emulated_nccl.communicators++;
    made->state = take_first(made);
    made->channel->ranks[index].place = place_of_this();
    if (!emulated_nccl.plan.refuse_joining) {
        atomic_store(&made->channel->ranks[index].joined, 1);
    }
    *comm = made;
    return NCCL_IN_PROGRESS;
}

static bool share_a_device(const struct ncclComm *comm) {
    bool found = false;
    for (int rank = 0; rank < comm->size; rank++) {
        for (int other = 0; other < rank; other++) {
            found = found || comm->channel->ranks[rank].place == comm->channel->ranks[other].place;
        }
    }
    return found;
}

static bool all_joined(const struct ncclComm *comm) {
    bool all = true;
    for (int rank = 0; rank < comm->size; rank++) {
        all = all && atomic_load(&comm->channel->ranks[rank].joined) != 0;
    }
    return all;
}

static bool all_left(const struct ncclComm *comm) {
    bool all = true;
    for (int rank = 0; rank < comm->size; rank++) {
        all = all && atomic_load(&comm->channel->ranks[rank].left) != 0;
    }
    return all;
}

/* ---- in the course of it ---- */

static unsigned get_async_error(struct ncclComm *comm, unsigned *error) {
    if (emulated_nccl.plan.refuse_joining) {
        *error = nccl_refuse(SYSTEM_ERROR, "injected: cannot join");
        return NCCL_SUCCESS;
    }
    if (comm->state == NCCL_SUCCESS && comm->questions > 0) {
        comm->questions--;
    }
    *error = comm->state;
    bool leaves = atomic_load(&comm->channel->ranks[comm->index].left) != 0;
    if (comm->state == NCCL_SUCCESS &&
        (comm->questions > 0 || !all_joined(comm) || (leaves && !all_left(comm)))) {
        *error = NCCL_IN_PROGRESS;
    } else if (comm->state == NCCL_SUCCESS && share_a_device(comm)) {
        *error = comm->state = nccl_refuse(INVALID_USAGE, "Duplicate GPU detected");
    } else if (comm->state == NCCL_SUCCESS && comm->pending != NULL) {
        *error = comm->state = transfer_enqueue(comm);
    }
    return NCCL_SUCCESS;
}

static unsigned register_memory(struct ncclComm *const comm, void *buffer, size_t bytes,
                                void **handle) {
    if (emulated_nccl.plan.refuse_memory || buffer == NULL || bytes == 0) {
        return nccl_refuse(3, "injected: not this memory");
    }
    comm->registered++;
    emulated_nccl.live++;
    *handle = buffer;
    return NCCL_SUCCESS;
}

static unsigned deregister_memory(struct ncclComm *const comm, void *handle) {
    if (comm->registered == 0 || handle == NULL) {
        nccl_stop("a registration given back that was none");
    }
    comm->registered--;
    emulated_nccl.live--;
    return NCCL_SUCCESS;
}

/* ---- the end ---- */

static unsigned finalize(struct ncclComm *comm) {
    if (comm->pending != NULL) {
        nccl_stop("an end while a call is in progress");
    }
    atomic_store(&comm->channel->ranks[comm->index].left, 1);
    while (emulated_nccl.plan.finalize_waits && !all_left(comm)) {
        (void)poll(NULL, 0, 1);
    }
    comm->questions = (int)nccl_draw(3);
    return comm->questions > 0 || !all_left(comm) ? NCCL_IN_PROGRESS : NCCL_SUCCESS;
}

/* NCCL waits until the last graph that captured its calls is destroyed, be it aborted or not. */
static void check_graphs(const struct ncclComm *comm, const char *action) {
    for (const struct transfer *at = comm->transfers; at != NULL; at = at->next) {
        if (emulated_driver_holds(at)) {
            nccl_stop("a communicator is %s before a graph that captured its calls", action);
        }
    }
}

/* Its transfers go with it. */
static unsigned destroy(struct ncclComm *comm) {
    check_graphs(comm, "destroyed");
    for (const struct transfer *at = comm->transfers; at != NULL; at = at->next) {
        if (emulated_driver_runs(at)) {
            nccl_stop("a communicator is destroyed while its calls are under way");
        }
    }
    emulated_nccl.communicators--;
    while (comm->transfers != NULL) {
        struct transfer *next = comm->transfers->next;
        free(comm->transfers);
        comm->transfers = next;
    }
    emulated_driver_give(comm->taken_bytes);
    munmap(comm->channel, comm->channel_bytes);
    if (comm->fd >= 0) {
        close(comm->fd);
    }
    emulated_nccl.live -= 1 + comm->registered;
    free(comm);
    return NCCL_SUCCESS;
}

/* Work that waits for others goes on as if it had come; what was freed is never read by it. NCCL
 * comes back when graphs that hold its calls have ended: as long as another communicator's calls
 * wait in them, never. */
static unsigned abort_comm(struct ncclComm *comm) {
    check_graphs(comm, "aborted");
    comm->aborted = true;
    comm->pending = NULL;
    emulated_driver_give(comm->taken_bytes);
    emulated_nccl.live -= 1 + comm->registered;
    emulated_nccl.communicators--;
    if (emulated_nccl.group_depth == 0 && emulated_nccl.communicators > 0) {
        nccl_stop("communicators are aborted one by one, not in one group");
    }
    return NCCL_SUCCESS;
}

static const char *error_string(unsigned result) {
    static const char *const TEXTS[] = {"no error",
                                        "unhandled cuda error",
                                        "system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return result < sizeof TEXTS / sizeof TEXTS[0] ? TEXTS[result] : "unknown result code";
}

static const char *last_error(struct ncclComm *comm) {
    (void)comm;
    return emulated_nccl.last_error;
}

void emulated_nccl_open(const struct emulated_nccl_plan *plan, struct nccl_library *library) {
    emulated_nccl = (struct nccl_emulation){.plan = *plan};
    *library = (struct nccl_library){.ncclGetVersion = get_version,
                                     .ncclGetUniqueId = get_unique_id,
                                     .ncclCommInitRankConfig = init_rank,
                                     .ncclCommGetAsyncError = get_async_error,
                                     .ncclCommFinalize = finalize,
                                     .ncclCommDestroy = destroy,
                                     .ncclCommAbort = abort_comm,
                                     .ncclGetErrorString = error_string,
                                     .ncclGetLastError = last_error,
                                     .ncclCommRegister = register_memory,
                                     .ncclCommDeregister = deregister_memory};
    transfer_fill_table(library);
}

int emulated_nccl_live(void) {
    return emulated_nccl.live;
}
