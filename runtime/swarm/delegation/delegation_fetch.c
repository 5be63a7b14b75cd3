#include "runtime/swarm/delegation/delegation_fetch.h"

#include "transport/identity/address.h"
#include "transport/identity/numeric_address.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static void end_fetch_with_state(struct delegation_fetch *fetch, enum download_state state) {
    if (fetch->state == DOWNLOAD_PENDING) {
        close(fetch->fd);
    }
    fetch->state = state;
}

static bool start_connecting(struct delegation_fetch *fetch, const char *address) {
    char next[MESSAGE_ADDRESS_BYTES];
    union numeric_address number;
    const socklen_t length =
        address_next_port(address, next) ? numeric_address_parse(next, &number) : 0;
    fetch->fd = length > 0
                    ? socket(number.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
                    : -1;
    if (fetch->fd < 0) {
        return false;
    }
    if (connect(fetch->fd, &number.any, length) == 0 || errno == EINPROGRESS) {
        return true;
    }
    close(fetch->fd);
    return false;
}

void delegation_fetch_begin(struct delegation_fetch *fetch, const char *address, int64_t now_ms) {
    end_fetch_with_state(fetch, DOWNLOAD_NONE);
    fetch->count = 0;
    fetch->until_ms = now_ms + DOWNLOAD_MS;
    fetch->state = start_connecting(fetch, address) ? DOWNLOAD_PENDING : DOWNLOAD_FAILED;
}

/* Receives what has arrived, and returns the state of the fetch. While the connection is being
 * made, recv() reports that nothing is ready. If the connection was refused, recv() reports an
 * error. A frame that fills the buffer is complete, and later bytes are not read. */
enum download_state delegation_fetch_step(struct delegation_fetch *fetch, int64_t now_ms) {
    ssize_t got = 1;
    while (fetch->state == DOWNLOAD_PENDING && got > 0 && fetch->count < sizeof fetch->bytes) {
        got = recv(fetch->fd, fetch->bytes + fetch->count, sizeof fetch->bytes - fetch->count,
                   MSG_DONTWAIT);
        fetch->count += got > 0 ? (size_t)got : 0;
    }
    if (fetch->state != DOWNLOAD_PENDING) {
        return fetch->state;
    }
    const bool is_waiting =
        got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN);
    if (got >= 0) {
        end_fetch_with_state(fetch, fetch->count > 0 ? DOWNLOAD_DONE : DOWNLOAD_FAILED);
    } else if (!is_waiting || now_ms >= fetch->until_ms) {
        end_fetch_with_state(fetch, DOWNLOAD_FAILED);
    }
    return fetch->state;
}

void delegation_fetch_end(struct delegation_fetch *fetch) {
    end_fetch_with_state(fetch, DOWNLOAD_NONE);
}
