/* address: how long an address may be, as text. */
#ifndef SKEP_TRANSPORT_IDENTITY_ADDRESS_H
#define SKEP_TRANSPORT_IDENTITY_ADDRESS_H

enum {
    MESSAGE_ADDRESS_BYTES = 128, /* "tcp://HOST:PORT", IPv6 in brackets, with its NUL */
};

#endif
