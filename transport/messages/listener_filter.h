/* listener_filter: lets the kernel drop connection attempts of some hosts before they use space
 * in the listener's queue or any time of this process. */
#ifndef SKEP_TRANSPORT_MESSAGES_LISTENER_FILTER_H
#define SKEP_TRANSPORT_MESSAGES_LISTENER_FILTER_H

#include "transport/messages/source.h"

enum { LISTENER_FILTER_HOSTS_MAX = 32 };

/* listener_filter_set_hosts: replace the hosts whose connection attempts are dropped. Established
 * connections are not affected. The attempts are not dropped where the kernel does not support
 * this, so the caller also closes connections of these hosts.
 * limits  `listener` is a listening TCP socket; count <= LISTENER_FILTER_HOSTS_MAX */
void listener_filter_set_hosts(int listener, const struct source *hosts, uint32_t count);

#endif
