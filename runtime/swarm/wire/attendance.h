/* attendance: how many members are connected and how many a round needs, which the tracker sends to
 * its members while there are too few, and the text that the tracker and the members log. The
 * payload is one MessagePack map (packer.h): present, needed, name, has_left, others, absent_ms. */
#ifndef SKEP_SWARM_WIRE_ATTENDANCE_H
#define SKEP_SWARM_WIRE_ATTENDANCE_H

#include "base/text.h"
#include "runtime/swarm/wire/wire.h"

#include <stdint.h>

struct attendance {
    uint32_t present; /* voters that are connected and stay */
    uint32_t needed;  /* voters that the round needs; 0: enough are present */
    /* the member that was lost last; "": no known member is absent */
    char name[WIRE_MEMBER_NAME_BYTES];
    uint32_t has_left;  /* 1: it left; 0: it disconnected, or stopped responding */
    uint32_t others;    /* number of other absent members */
    uint64_t absent_ms; /* time since its last message, when this was written */
};

enum {
    /* No ATTENDANCE payload is longer. */
    ATTENDANCE_BYTES_MAX =
        PACKER_MAP_BYTES_MAX + 6 * PACKER_FIELD_BYTES_MAX + WIRE_MEMBER_NAME_BYTES,
};

/* attendance_write: the payload's length. attendance_read: returns the text of the mistake and
 * leaves the output undefined, or returns NULL.
 * limits  needed is 0 or above present; has_left is 0 or 1; the name has visible ASCII only */
size_t attendance_write(const struct attendance *attendance,
                        uint8_t payload[static ATTENDANCE_BYTES_MAX]);
MUST_CHECK const char *attendance_read(const uint8_t *payload, size_t count,
                                       struct attendance *attendance);

/* attendance_init: no member is absent, and enough are present.
 * attendance_add_absence: count an absent member; of all, the one of the newest message is named.
 * attendance_set_count: complete it, after all absences; all zeros if enough are present. */
void attendance_init(struct attendance *attendance);
void attendance_add_absence(struct attendance *attendance, const char *name, bool has_left,
                            uint64_t absent_ms);
void attendance_set_count(struct attendance *attendance, uint32_t present, uint32_t needed);

/* attendance_describe_need: "1 more member: 2 of at least 3 are here".
 * attendance_describe_absence: "; ben left 0:10 ago", `elapsed_ms` after it was written.
 * limits  needed > present */
void attendance_describe_need(const struct attendance *attendance, struct text *text);
void attendance_describe_absence(const struct attendance *attendance, int64_t elapsed_ms,
                                 struct text *text);

/* The changes of the attendance, and what the tracker has logged of them. */
struct attendance_watch {
    struct attendance state; /* as of counted_ms */
    uint32_t version;        /* increases with every change; 0: members have never been missing */
    int64_t counted_ms;      /* when the members were last counted; 0: never */
    int64_t begun_ms;        /* since when members have been missing */
    int64_t logged_ms;       /* last log line; 0: none */
    bool is_logged;          /* that line has the present state */
};

/* attendance_watch_update: note what was counted now, and log a lack of members when it begins and
 * at intervals that grow from 10 s to 10 minutes. */
void attendance_watch_update(struct attendance_watch *watch, const struct attendance *counted,
                             int64_t now_ms);

#endif
