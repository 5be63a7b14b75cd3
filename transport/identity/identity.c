/* identity: see identity.h. */
#include "transport/identity/identity.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file consists of FILE_HEADER, the text of the secrets and a line feed. */
static const char FILE_HEADER[] = "skep-identity-1 ";

enum {
    FILE_HEADER_BYTES = sizeof FILE_HEADER - 1, /* length of FILE_HEADER without its NUL */
    FILE_BYTES = FILE_HEADER_BYTES + KEYS_TEXT_LETTERS + 1, /* size of an identity file */
    IDENTITY_MODE = 0600,                 /* file mode: readable and writable by its owner only */
    ACCESS_BY_OTHERS = S_IRWXG | S_IRWXO, /* mode bits that an identity file must not have */
    TEMPORARY_NAME_DIGITS = 8             /* hex digits in the name of a temporary file */
};

enum status identity_path(const char *given, char path[static PATH_BYTES], struct fault *fault) {
    char buffer[PATH_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    if (given != NULL) {
        text_add(&text, "%s", given);
    } else if (config != NULL && config[0] == '/') {
        text_add(&text, "%s/skep/identity", config);
    } else if (home != NULL && home[0] != '\0') {
        text_add(&text, "%s/.config/skep/identity", home);
    } else {
        return fault_set(fault, STATUS_INPUT, "environment",
                         "set one of them, or pass a file with --identity",
                         "neither HOME nor XDG_CONFIG_HOME gives a folder for the identity");
    }
    if (text.truncated || text.length == 0) {
        return fault_set(fault, STATUS_INPUT, given != NULL ? "--identity" : "environment", NULL,
                         "the path of the identity file is %s",
                         text.truncated ? "too long" : "empty");
    }
    memcpy(path, buffer, text.length + 1);
    return OK;
}

static enum status set_damaged_fault(const char *path, const char *reason, struct fault *fault) {
    return fault_set(
        fault, STATUS_INPUT, path,
        "restore the file from a copy, or move it away: `skep keys` then creates a new "
        "identity, and operators must add its key to their allow-lists",
        "the identity file is damaged: %s", reason);
}

static enum status check_mode(int fd, const char *path, struct fault *fault) {
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot inspect", errno);
    }
    if ((info.st_mode & ACCESS_BY_OTHERS) != 0) {
        return fault_set(
            fault, STATUS_INPUT, path,
            "run `chmod 600` on it; if other users may have read it, create a new identity",
            "other users may read or write the identity file (mode %04o)",
            (unsigned)(info.st_mode & 07777));
    }
    return OK;
}

static enum status parse_identity(const char *path, const char line[static FILE_BYTES],
                                  struct key_pairs *keys, struct fault *fault) {
    char text[KEYS_TEXT_BYTES];
    if (memcmp(line, FILE_HEADER, FILE_HEADER_BYTES) != 0 || line[FILE_BYTES - 1] != '\n') {
        return set_damaged_fault(path, "it must be one line that begins with \"skep-identity-1 \"",
                                 fault);
    }
    memcpy(text, line + FILE_HEADER_BYTES, KEYS_TEXT_LETTERS);
    text[KEYS_TEXT_LETTERS] = '\0';
    const char *error = secret_keys_read(text, keys);
    explicit_bzero(text, sizeof text);
    if (error == NULL) {
        return OK;
    }
    char reason[128];
    struct text text_of_reason = text_over(reason, sizeof reason);
    text_add(&text_of_reason, "its key %s", error);
    return set_damaged_fault(path, reason, fault);
}

enum status identity_load(const char *path, struct key_pairs *keys, struct fault *fault) {
    char line[FILE_BYTES];
    int fd;
    int64_t bytes;
    TRY(file_open_read(path, &fd, &bytes, fault));
    enum status status = check_mode(fd, path, fault);
    if (status == OK && bytes != FILE_BYTES) {
        status = set_damaged_fault(
            path, "its key has a different length than the file format requires", fault);
    }
    if (status == OK) {
        status = file_read_at(fd, path, line, FILE_BYTES, 0, fault);
    }
    close(fd);
    if (status == OK) {
        status = parse_identity(path, line, keys, fault);
    }
    explicit_bzero(line, sizeof line);
    return status;
}

/* Write the name of a temporary file in the folder of `path`. It is derived from the new identity,
 * so no other process uses it. */
static enum status write_temporary_path(const char *path, const struct key_pairs *keys,
                                        char draft[static PATH_BYTES], struct fault *fault) {
    const struct hash hash = hash_of(keys->public_keys.sign, KEY_BYTES);
    char hex[HASH_HEX_BYTES];
    struct text text = text_over(draft, PATH_BYTES);
    text_add(&text, "%s.%.*s", path, TEMPORARY_NAME_DIGITS, hash_hex(&hash, hex));
    return text.truncated ? fault_set(fault, STATUS_INPUT, path, NULL, "the path is too long") : OK;
}

static enum status write_temporary_file(const char *draft, const struct key_pairs *keys,
                                        struct fault *fault) {
    char line[FILE_HEADER_BYTES + KEYS_TEXT_BYTES];
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, IDENTITY_MODE);
    /* fchmod, because the umask may have removed permissions of the owner. */
    if (fd < 0 || fchmod(fd, IDENTITY_MODE) != 0) {
        int failure = errno;
        if (fd >= 0) {
            close(fd);
        }
        return fault_set_errno(fault, STATUS_FAILED, draft, "cannot create", failure);
    }
    memcpy(line, FILE_HEADER, FILE_HEADER_BYTES);
    secret_keys_write(keys, line + FILE_HEADER_BYTES);
    line[FILE_BYTES - 1] = '\n';
    enum status status = file_write_at(fd, draft, line, FILE_BYTES, 0, fault);
    explicit_bzero(line, sizeof line);
    return file_close_written(fd, draft, status, fault);
}

/* Unlike rename(), link() fails if `path` exists. The second of two processes then uses the file of
 * the first. */
static enum status link_temporary_file(const char *draft, const char *path, bool *created,
                                       struct fault *fault) {
    char folder[PATH_BYTES];
    bool is_linked = link(draft, path) == 0;
    if (!is_linked && errno != EEXIST) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot create", errno);
    }
    file_parent_folder(path, folder, sizeof folder);
    enum status status = file_sync_folder(folder, fault);
    if (status == OK) {
        *created = is_linked;
    } else if (is_linked) {
        unlink(path);
    }
    return status;
}

static enum status create_identity(const char *path, struct key_pairs *keys, bool *created,
                                   struct fault *fault) {
    char folder[PATH_BYTES];
    char draft[PATH_BYTES];
    struct key_pairs fresh;
    file_parent_folder(path, folder, sizeof folder);
    keys_generate(&fresh);
    enum status status = write_temporary_path(path, &fresh, draft, fault);
    if (status == OK) {
        status = file_make_folders(folder, fault);
    }
    if (status == OK) {
        status = write_temporary_file(draft, &fresh, fault);
        if (status == OK) {
            status = link_temporary_file(draft, path, created, fault);
        }
        unlink(draft);
    }
    keys_wipe(&fresh);
    return status == OK ? identity_load(path, keys, fault) : status;
}

enum status identity_load_or_create(const char *path, struct key_pairs *keys, bool *created,
                                    struct fault *fault) {
    bool is_new = false;
    struct stat info;
    ASSERT(strlen(path) < PATH_BYTES);
    /* A dangling symbolic link counts as a file: it is not followed, and is rejected. */
    TRY(lstat(path, &info) == 0 || errno != ENOENT ? identity_load(path, keys, fault)
                                                   : create_identity(path, keys, &is_new, fault));
    *created = is_new;
    return OK;
}
