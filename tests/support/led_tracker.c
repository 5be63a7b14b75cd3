/* led_tracker: `skep track`, but that it ends where it is told.
 *
 *     led_tracker --places                        all places, one a line
 *     led_tracker [--die PLACE TIMES] track ...   arguments of `skep track`
 *
 * It ends as SIGKILL ends it when it comes to the place for that time. The linker puts
 * __wrap_tracker_loop_open between the command and the loop (--wrap), so nothing of this is in the
 * program. */
#include "runtime/cli/cli.h"
#include "runtime/swarm/tracker/tracker.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status __real_tracker_loop_open(const struct tracker_loop_options *options,
                                     struct region *region, struct tracker_loop **loop,
                                     struct fault *fault);
enum status __wrap_tracker_loop_open(const struct tracker_loop_options *options,
                                     struct region *region, struct tracker_loop **loop,
                                     struct fault *fault);

struct leading {
    const char *place; /* NULL: it lives */
    int times;         /* that the place is still to be come to */
};

static struct leading leading;

static void reached(void *context, const char *place) {
    struct leading *own = context;
    if (strcmp(place, own->place) == 0 && --own->times == 0) {
        raise(SIGKILL);
    }
}

enum status __wrap_tracker_loop_open(const struct tracker_loop_options *options,
                                     struct region *region, struct tracker_loop **loop,
                                     struct fault *fault) {
    static struct tracker_loop_options led;
    led = *options;
    if (leading.place != NULL) {
        led.on_crash_point = reached;
        led.crash_point_context = &leading;
    }
    return __real_tracker_loop_open(&led, region, loop, fault);
}

static void print_places(void) {
    for (const char *const *place = tracker_crash_points(); *place != NULL; place++) {
        puts(*place);
    }
}

int main(int argument_count, char **arguments) {
    int at = 1;
    if (argument_count == 2 && strcmp(arguments[1], "--places") == 0) {
        print_places();
        return 0;
    }
    if (at + 2 < argument_count && strcmp(arguments[at], "--die") == 0) {
        leading.place = arguments[at + 1];
        leading.times = atoi(arguments[at + 2]);
        at += 3;
    }
    if (at >= argument_count || strcmp(arguments[at], "track") != 0) {
        fputs("usage: led_tracker [--die PLACE TIMES] track RUN.yaml ...\n", stderr);
        return 2;
    }
    return command_run(&COMMAND_TRACK, argument_count - at, arguments + at);
}
