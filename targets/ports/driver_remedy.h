/* driver_remedy: how to install an NVIDIA driver that is new enough for this build, on the Linux
 * distribution of this machine. */
#ifndef SKEP_TARGETS_PORTS_DRIVER_REMEDY_H
#define SKEP_TARGETS_PORTS_DRIVER_REMEDY_H

#include <stdbool.h>

enum { DRIVER_REMEDY_BYTES = 224 };

/* What determines the remedy. */
struct driver_host {
    const char *os_release; /* contents of /etc/os-release; "" if unreadable */
    bool is_wsl;            /* the kernel is that of WSL2 */
    bool is_container;      /* the driver is that of the container's host */
};

/* driver_remedy_read: write the remedy for this machine.
 * memory  opens files: call it before the seal */
void driver_remedy_read(char remedy[static DRIVER_REMEDY_BYTES]);

/* driver_remedy_format: write the remedy for `host` and a driver of at least `branch` (580). */
void driver_remedy_format(const struct driver_host *host, int branch,
                          char remedy[static DRIVER_REMEDY_BYTES]);

#endif
