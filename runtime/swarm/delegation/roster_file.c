#include "runtime/swarm/delegation/roster_file.h"

#include "base/file.h"
#include "base/text.h"
#include "runtime/swarm/delegation/delegation.h"

static const char REMEDY[] = "sign the allow-list again with `skep roster sign --roster FILE`";

const char *roster_file_path(const char *allow_list, char path[static ROSTER_PATH_BYTES]) {
    struct text text = text_over(path, ROSTER_PATH_BYTES);
    text_add(&text, "%s.signed", allow_list);
    ASSERT(!text.truncated);
    return path;
}

enum status roster_file_read(const char *path, const uint8_t operator_key[static KEY_BYTES],
                             struct known_roster *known, struct fault *fault) {
    static uint8_t bytes[ROSTER_FRAME_BYTES_MAX];
    static struct known_roster read;
    size_t count = 0;
    TRY(operator_file_read(path, bytes, sizeof bytes, &count, fault));
    const char *error = roster_epoch_read(bytes, count, &read.swarm, &read.epoch);
    if (error == NULL && !roster_epoch_is_signed(operator_key, &read.swarm, &read.epoch)) {
        error = "is signed with a key other than the operator's";
    }
    if (error != NULL) {
        return fault_set(fault, STATUS_INPUT, path, REMEDY, "the roster epoch %s", error);
    }
    *known = read;
    return OK;
}

enum status roster_file_write(const char *path, const struct known_roster *known,
                              struct fault *fault) {
    static uint8_t bytes[ROSTER_FRAME_BYTES_MAX];
    char temporary[ROSTER_PATH_BYTES + 8];
    struct text name = text_over(temporary, sizeof temporary);
    text_add(&name, "%s.new", path);
    ASSERT(!name.truncated);
    const size_t count = roster_epoch_write(&known->swarm, &known->epoch, bytes);
    return file_replace(path, temporary, bytes, count, fault);
}
