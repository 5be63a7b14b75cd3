/* local_address: how this machine is most likely reached from others, and a port that is free. */
#ifndef SKEP_TRANSPORT_IDENTITY_OWN_ADDRESS_H
#define SKEP_TRANSPORT_IDENTITY_OWN_ADDRESS_H

#include <stdint.h>

enum { OWN_ADDRESS_BYTES = 48 };

/* local_address: the IPv4 address that a packet to the internet would leave from; 127.0.0.1 when
 * there is no way. Nothing is sent. Behind NAT others reach another one. Gives `text` back. */
const char *local_address(char text[static OWN_ADDRESS_BYTES]);

/* local_free_port: a TCP port that nobody listens at now; 0 when none can be had. */
uint16_t local_free_port(void);

#endif
