#include "models.h"
#include "runtime/model/families/families.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

void model_open(const char *name, struct region *region, struct blueprint *blueprint) {
    char path[512];
    char folder[PATH_BYTES];
    struct fault fault;
    snprintf(path, sizeof path, "%s/%s.json", CONFIGS, name);
    if (blueprint_open(path, region, blueprint, folder, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}

void model_units(const struct blueprint *blueprint, struct unit_options options,
                 struct region *region, struct unit_table *table) {
    struct fault fault;
    if (unit_table_init(blueprint, &options, region, table, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}
