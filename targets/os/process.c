#include "targets/os/process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_TEXT_BYTES = 4096 /* size of the text of /proc/self/status */ };

/* Convert a line such as "RssAnon: 112 kB" to bytes; false when the line is missing. */
static bool read_line_bytes(const char *text, const char *name, uint64_t *bytes) {
    const char *at = strstr(text, name);
    if (at == NULL) {
        return false;
    }
    *bytes = strtoull(at + strlen(name), NULL, 10) * 1024;
    return true;
}

bool process_memory_read(struct process_memory *memory) {
    char text[STATUS_TEXT_BYTES];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) {
        return false;
    }
    text[length] = '\0';
    struct process_memory now;
    if (!read_line_bytes(text, "\nRssAnon:", &now.anonymous_bytes) ||
        !read_line_bytes(text, "\nRssFile:", &now.file_bytes) ||
        !read_line_bytes(text, "\nRssShmem:", &now.shared_bytes)) {
        return false;
    }
    *memory = now;
    return true;
}
