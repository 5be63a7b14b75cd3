#include "transport/site/service.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void service_send_lines(const char *lines) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path != NULL ? strlen(path) : 0;
    if (length < 2 || length >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') {
        address.sun_path[0] = '\0'; /* an abstract socket */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
        ssize_t ignored = sendto(fd, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT,
                                 (const struct sockaddr *)&address, bytes);
        (void)ignored;
        close(fd);
    }
}
