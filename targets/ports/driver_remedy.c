/* driver_remedy: chooses the remedy by the ID of /etc/os-release. */
#include "targets/ports/driver_remedy.h"

#include "base/file.h"
#include "base/text.h"

#include "build_config.h"

#include <string.h>

/* Debian and Ubuntu have drivers of these branches in their own packages: 535 or newer in Debian 12
 * and Ubuntu 22.04. */
enum { DISTRIBUTION_BRANCH = 535, OS_RELEASE_BYTES = 4096, KERNEL_BYTES = 256 };

/* Whether `line` is KEY=VALUE with `word` among the words of VALUE, which may be in quotes. */
static bool line_has_word(const char *line, const char *key, const char *word) {
    static const char DELIMITERS[] = " \"'\n";
    size_t key_length = strlen(key);
    if (strncmp(line, key, key_length) != 0 || line[key_length] != '=') {
        return false;
    }
    const char *at = line + key_length + 1;
    while (*at != '\0' && *at != '\n') {
        size_t length = strcspn(at, DELIMITERS);
        if (length == strlen(word) && strncmp(at, word, length) == 0) {
            return true;
        }
        at += length;
        at += *at != '\0' && *at != '\n';
    }
    return false;
}

static bool has_word(const char *os_release, const char *key, const char *word) {
    for (const char *line = os_release; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (line_has_word(line, key, word)) {
            return true;
        }
    }
    return false;
}

/* The part of the remedy in parentheses; "" for any other distribution. */
static const char *find_commands(const char *os_release, int branch) {
    bool has_package = branch <= DISTRIBUTION_BRANCH;
    if (has_word(os_release, "ID", "ubuntu") || has_word(os_release, "ID_LIKE", "ubuntu")) {
        return has_package ? " (Ubuntu: ubuntu-drivers install)"
                           : " (Ubuntu: apt install nvidia-driver-580)";
    }
    if (has_word(os_release, "ID", "debian")) {
        return has_package
                   ? " (Debian: add non-free to apt's sources, then apt install nvidia-driver)"
                   : " (Debian: add NVIDIA's repository to apt's sources, then apt install "
                     "nvidia-open)";
    }
    return has_word(os_release, "ID", "fedora")
               ? " (Fedora: enable RPM Fusion, then dnf install akmod-nvidia)"
               : "";
}

void driver_remedy_format(const struct driver_host *host, int branch,
                          char remedy[static DRIVER_REMEDY_BYTES]) {
    struct text text = text_over(remedy, DRIVER_REMEDY_BYTES);
    text_add(&text, "install NVIDIA's driver %d or newer", branch);
    if (host->is_wsl) {
        text_add(&text, " in Windows, not in WSL2, then run wsl --shutdown");
    } else if (host->is_container) {
        text_add(&text, " on the container's host, and start the container with --gpus all");
    } else {
        text_add(&text, "%s and restart", find_commands(host->os_release, branch));
    }
}

static bool read_text(const char *path, char *text, size_t bytes) {
    size_t length;
    struct fault unseen;
    bool is_read = file_read_text(path, text, bytes, &length, &unseen) == OK;
    text[0] = is_read ? text[0] : '\0';
    return is_read;
}

void driver_remedy_read(char remedy[static DRIVER_REMEDY_BYTES]) {
    char os_release[OS_RELEASE_BYTES];
    char kernel[KERNEL_BYTES];
    (void)read_text("/etc/os-release", os_release, sizeof os_release);
    (void)read_text("/proc/sys/kernel/osrelease", kernel, sizeof kernel);
    const struct driver_host host = {
        .os_release = os_release,
        .is_wsl = strstr(kernel, "microsoft") != NULL || strstr(kernel, "Microsoft") != NULL,
        .is_container = file_exists("/.dockerenv") || file_exists("/run/.containerenv")};
    driver_remedy_format(&host, CUDA_DRIVER_BRANCH_MIN, remedy);
}
