#include "transport/identity/own_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* RFC 5737's documentation network: outside of every site, so that it is routed to the internet. */
static const char OUTSIDE[] = "192.0.2.1";
static const char LOOPBACK[] = "127.0.0.1";
enum { ANY_PORT_WILL_DO = 9 };

/* The socket's own end. */
static bool own_end(int fd, struct sockaddr_in *own) {
    socklen_t length = sizeof *own;
    return getsockname(fd, (struct sockaddr *)own, &length) == 0;
}

const char *local_address(char text[static OWN_ADDRESS_BYTES]) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ANY_PORT_WILL_DO)};
    struct sockaddr_in own;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, OUTSIDE, &to.sin_addr);
    memcpy(text, LOOPBACK, sizeof LOOPBACK);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 && own_end(fd, &own)) {
        inet_ntop(AF_INET, &own.sin_addr, text, OWN_ADDRESS_BYTES);
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

uint16_t local_free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    uint16_t port = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 && own_end(fd, &at)) {
        port = ntohs(at.sin_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}
