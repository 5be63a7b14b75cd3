/* attendance: how many members are connected and how many a round needs, which the tracker sends to
 * its members while there are too few, and the text that the tracker and the members log. The
 * payload is one MessagePack map (packer.h): present, needed, name, absence, others, absent_ms,
 * are_electors. */
#ifndef SKEP_SWARM_WIRE_ATTENDANCE_H
#define SKEP_SWARM_WIRE_ATTENDANCE_H

#include "base/text.h"
#include "runtime/swarm/wire/wire.h"

#include <stdint.h>

/* How a member was lost. */
enum attendance_absence {
    ABSENCE_DISCONNECTED, /* the member disconnected or timed out */
    ABSENCE_LEFT,         /* the member left */
    ABSENCE_REMOVED,      /* the operator removed the member from the allow-list */
    ABSENCES              /* number of ways in which a member is lost */
};

struct attendance {
    uint32_t present; /* voters that are connected and not leaving */
    uint32_t needed;  /* voters that the round needs; 0: enough are present */
    /* the member that was lost last; "": no known member is absent */
    char name[WIRE_MEMBER_NAME_BYTES];
    uint32_t absence;   /* how `name` was lost: an attendance_absence */
    uint32_t others;    /* number of absent members besides `name` */
    uint64_t absent_ms; /* time from the last message of `name` to this count */
    /* 1: only electors of the newest state are counted, because too few electors can vote for this
     * tracker */
    uint32_t are_electors;
};

enum {
    /* Size of the longest ATTENDANCE payload. */
    ATTENDANCE_BYTES_MAX =
        PACKER_MAP_BYTES_MAX + 7 * PACKER_FIELD_BYTES_MAX + WIRE_MEMBER_NAME_BYTES,
};

/* attendance_write: write the payload. Returns its length. attendance_read: read a payload. Returns
 * NULL, or a text that describes the error; the output is then undefined.
 * limits  needed is 0 or above present; absence is below ABSENCES; are_electors is 0 or 1; the name
 *         has visible ASCII only */
size_t attendance_write(const struct attendance *attendance,
                        uint8_t payload[static ATTENDANCE_BYTES_MAX]);
MUST_CHECK const char *attendance_read(const uint8_t *payload, size_t count,
                                       struct attendance *attendance);

/* attendance_init: set the state in which no member is absent and enough are present.
 * attendance_add_absence: count one absent member. The attendance names the absent member with the
 * newest message.
 * attendance_set_counts: set `present` and `needed`, after all absent members were added. If
 * enough members are present, clears the attendance.
 * attendance_set_electors: set `present` and `needed` for electors, after all absent electors were
 * added. `present` is the number of connected electors, which is too few, and `electors` the number
 * of all. */
void attendance_init(struct attendance *attendance);
void attendance_add_absence(struct attendance *attendance, const char *name,
                            enum attendance_absence absence, uint64_t absent_ms);
void attendance_set_counts(struct attendance *attendance, uint32_t present, uint32_t needed);
void attendance_set_electors(struct attendance *attendance, uint32_t present, uint32_t electors);

/* attendance_describe_need: writes "1 more member: 2 of at least 3 are here".
 * attendance_describe_absence: writes "; ben left 0:10 ago", and what to do if only electors are
 * counted. `elapsed_ms` is the age of the attendance.
 * limits  needed > present */
void attendance_describe_need(const struct attendance *attendance, struct text *text);
void attendance_describe_absence(const struct attendance *attendance, int64_t elapsed_ms,
                                 struct text *text);

/* The newest attendance, and which state of it was logged last. */
struct attendance_watch {
    struct attendance state; /* the attendance at counted_ms */
    uint32_t version;        /* number of changes of `state`; 0: no member was missing yet */
    int64_t counted_ms;      /* when the members were last counted; 0: never */
    int64_t begun_ms;        /* when members began to be missing */
    int64_t logged_ms;       /* time of the last log line; 0: none */
    bool is_logged;          /* the last log line describes `state` */
};

/* attendance_watch_update: store the attendance that was counted now. Logs that members are
 * missing when that begins, and then at intervals that grow from 10 s to 10 minutes. */
void attendance_watch_update(struct attendance_watch *watch, const struct attendance *counted,
                             int64_t now_ms);

#endif
