/* site_wire: see site_wire.h. */
#include "transport/site/site_wire.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

const uint32_t SITE_MAGIC = 0x50454b53;

bool site_send(int fd, const void *bytes, size_t count, int flags) {
    const uint8_t *at = bytes;
    while (count > 0) {
        ssize_t sent = send(fd, at, count, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno != EINTR) {
            return false;
        }
        at += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

bool site_receive(int fd, void *bytes, size_t count) {
    uint8_t *at = bytes;
    while (count > 0) {
        ssize_t got = recv(fd, at, count, MSG_WAITALL);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return false;
        }
        at += got > 0 ? got : 0;
        count -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

bool site_receive_within(int fd, void *bytes, size_t count, int timeout_ms) {
    int64_t deadline_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
    uint8_t *at = bytes;
    while (count > 0) {
        int64_t left_ms = (deadline_ns - clock_monotonic_ns()) / NS_PER_MS;
        struct pollfd poll_in = {.fd = fd, .events = POLLIN};
        if (left_ms <= 0) {
            return false;
        }
        if (poll(&poll_in, 1, (int)left_ms) <= 0) {
            continue;
        }
        ssize_t got = recv(fd, at, count, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
            return false;
        }
        at += got > 0 ? got : 0;
        count -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

void site_clean_text(char *text, size_t capacity) {
    text[capacity - 1] = '\0';
    for (char *at = text; *at != '\0'; at++) {
        /* UTF-8 is kept. Control characters could change the terminal. */
        if ((unsigned char)*at < ' ' || *at == 127) {
            *at = '?';
        }
    }
}

struct site_verdict site_make_verdict(int rank, const struct fault *fault) {
    struct site_verdict verdict = {.rank = rank, .status = (int32_t)fault->status};
    memcpy(verdict.subject, fault->subject, strnlen(fault->subject, sizeof fault->subject - 1));
    memcpy(verdict.reason, fault->reason, strnlen(fault->reason, sizeof fault->reason - 1));
    memcpy(verdict.remedy, fault->remedy, strnlen(fault->remedy, sizeof fault->remedy - 1));
    return verdict;
}

void site_read_verdict(struct site_verdict *verdict, struct fault *fault) {
    site_clean_text(verdict->subject, sizeof verdict->subject);
    site_clean_text(verdict->reason, sizeof verdict->reason);
    site_clean_text(verdict->remedy, sizeof verdict->remedy);
    bool is_known = verdict->status > OK && verdict->status <= STATUS_STOPPED;
    fault->status = is_known ? (enum status)verdict->status : STATUS_FAILED;
    memcpy(fault->subject, verdict->subject, sizeof fault->subject);
    memcpy(fault->reason, verdict->reason, sizeof fault->reason);
    memcpy(fault->remedy, verdict->remedy, sizeof fault->remedy);
}
