/* Tests of targets/machine and targets/process: made-up /proc and /sys trees, and the real ones. */
#include "base/file.h"
#include "targets/os/machine.h"
#include "targets/os/process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILES_MAX = 8, TREES_PATH_BYTES = 256 };

static char root[TREES_PATH_BYTES];
static struct fault fault;

struct tree_file {
    const char *path, *text;
};

static const char MEMINFO[] = "MemTotal:       16000000 kB\nMemFree:  1 kB\n"
                              "MemAvailable:   12000000 kB\n";

static void write_file(const char *path, const char *text) {
    char full[2 * TREES_PATH_BYTES];
    char folder[2 * TREES_PATH_BYTES];
    int fd;
    snprintf(full, sizeof full, "%s%s", root, path);
    file_parent_folder(full, folder, sizeof folder);
    assert_int_equal(file_make_folders(folder, &fault), OK);
    assert_int_equal(file_open_write(full, &fd, &fault), OK);
    assert_int_equal(file_write_at(fd, full, text, strlen(text), 0, &fault), OK);
    close(fd);
}

static int make_root(void **state) {
    (void)state;
    const char *folder = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/skep-machine-XXXXXX", folder != NULL ? folder : "/tmp");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state) {
    (void)state;
    char command[TREES_PATH_BYTES + 16];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static const struct {
    const char *name;
    struct tree_file files[FILES_MAX];
    uint64_t total, available;
    bool limited;
    int cpus; /* 0: as many as this process really may use */
} TREES[] = {
    {"no cgroups", {{"/proc/meminfo", MEMINFO}}, 16384000000, 12288000000, false, 0},
    {"version 2, limits in the parent",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/pod/box\n"},
      {"/sys/fs/cgroup/pod/box/memory.max", "max\n"},
      {"/sys/fs/cgroup/pod/memory.max", "4000000000\n"},
      {"/sys/fs/cgroup/pod/memory.current", "1500000000\n"},
      {"/sys/fs/cgroup/pod/memory.stat",
       "anon 1\nactive_file 300000000\ninactive_file 200000000\n"},
      {"/sys/fs/cgroup/pod/cpu.max", "100000 100000\n"}},
     4000000000,
     3000000000,
     true,
     1},
    {"version 2 inside a container: only its root is visible",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/host/path\n"},
      {"/sys/fs/cgroup/memory.max", "2000000000\n"},
      {"/sys/fs/cgroup/memory.current", "500000000\n"}},
     2000000000,
     1500000000,
     true,
     0},
    {"version 1, quota below one CPU",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b\n"},
      {"/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "3000000000\n"},
      {"/sys/fs/cgroup/memory/b/memory.usage_in_bytes", "1000000000\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n"},
      {"/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"}},
     3000000000,
     2000000000,
     true,
     1},
    {"version 1, no limits",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "4:memory:/\n3:cpu:/\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "15000000000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     16384000000,
     12288000000,
     false,
     0},
    {"usage above the limit, and files that are no numbers",
     {{"/proc/meminfo", MEMINFO},
      {"/proc/self/cgroup", "0::/x\nrubbish\n"},
      {"/sys/fs/cgroup/x/memory.max", "1000\n"},
      {"/sys/fs/cgroup/x/memory.current", "2000\n"},
      {"/sys/fs/cgroup/x/memory.stat", "rubbish"},
      {"/sys/fs/cgroup/x/cpu.max", "100000\n"}},
     1000,
     0,
     true,
     0},
};

static void read_applies_the_tightest_limit_of_each_tree(void **state) {
    (void)state;
    struct machine here;
    machine_read("", &here);
    for (size_t i = 0; i < ARRAY_COUNT(TREES); i++) {
        struct machine machine;
        assert_int_equal(make_root(NULL), 0);
        for (int f = 0; f < FILES_MAX && TREES[i].files[f].path != NULL; f++) {
            write_file(TREES[i].files[f].path, TREES[i].files[f].text);
        }
        machine_read(root, &machine);
        bool cpus_right = TREES[i].cpus == 0 ? machine.cpu_count >= here.cpu_count
                                             : machine.cpu_count == TREES[i].cpus;
        if (machine.memory_total_bytes != TREES[i].total ||
            machine.memory_available_bytes != TREES[i].available ||
            machine.is_memory_limited != TREES[i].limited || !cpus_right) {
            fail_msg("%s: total %llu, available %llu, limited %d, cpus %d", TREES[i].name,
                     (unsigned long long)machine.memory_total_bytes,
                     (unsigned long long)machine.memory_available_bytes, machine.is_memory_limited,
                     machine.cpu_count);
        }
        assert_int_equal(remove_root(NULL), 0);
    }
}

static void read_takes_name_and_clock_from_the_first_cpu(void **state) {
    (void)state;
    struct machine machine;
    write_file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU @ 3\ncpu MHz\t\t: 2500.5\n"
                                "model name\t: other\n");
    machine_read(root, &machine);
    assert_string_equal(machine.cpu_name, "Test CPU @ 3");
    assert_true(machine.clock_hz == 2500.5e6);
    write_file("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4000000\n");
    machine_read(root, &machine);
    assert_true(machine.clock_hz == 4e9);
}

static void read_survives_an_empty_tree(void **state) {
    (void)state;
    struct machine machine;
    machine_read(root, &machine);
    assert_int_equal(machine.memory_total_bytes, 0);
    assert_true(machine.cpu_count >= 1);
    assert_string_equal(machine.cpu_name, "unknown CPU");
}

static void read_sees_this_machine(void **state) {
    (void)state;
    struct machine machine;
    machine_read("", &machine);
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(machine.memory_total_bytes > 0 && machine.memory_total_bytes <= physical);
    assert_true(machine.is_memory_limited || machine.memory_total_bytes == physical);
    assert_true(machine.memory_available_bytes <= machine.memory_total_bytes);
    assert_true(machine.cpu_count <= sysconf(_SC_NPROCESSORS_CONF));
}

static void largest_processes_are_named_largest_first(void **state) {
    (void)state;
    char buffer[512];
    struct text text = text_over(buffer, sizeof buffer);
    write_file("/proc/7/status", "Name:\tsmall\nRssAnon:\t 1024 kB\nRssFile:\t 9999999 kB\n");
    write_file("/proc/8/status",
               "Name:\tlarge one\nRssAnon:\t 2097152 kB\nRssShmem:\t 1048576 kB\n");
    write_file("/proc/9/status", "Name:\tmiddle\nRssAnon:\t 1048576 kB\nRssShmem:\t 0 kB\n");
    write_file("/proc/10/status", "Name:\tkernel thread\n");
    write_file("/proc/notes/status", "Name:\tno process\nRssAnon:\t 99999999 kB\n");
    machine_list_largest_processes(root, 2, &text);
    assert_string_equal(buffer, "large one (pid 8) 3.00 GiB, middle (pid 9) 1.00 GiB");
    text = text_over(buffer, sizeof buffer);
    machine_list_largest_processes(root, 5, &text);
    assert_string_equal(buffer, "large one (pid 8) 3.00 GiB, middle (pid 9) 1.00 GiB, "
                                "small (pid 7) 1.00 MiB");
}

static void process_memory_counts_private_and_shared_pages_apart(void **state) {
    (void)state;
    static const size_t BYTES = 64 << 20;
    static const uint64_t SLACK = 2 << 20; /* the kernel counts pages in batches per CPU */
    struct process_memory before;
    struct process_memory after;
    assert_true(process_memory_read(&before));
    char *own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(own != MAP_FAILED);
    memset(own, 1, BYTES);
    assert_true(process_memory_read(&after));
    assert_in_range(after.anonymous_bytes - before.anonymous_bytes, BYTES - SLACK, BYTES + SLACK);
    assert_true(after.shared_bytes - before.shared_bytes <= SLACK);
    munmap(own, BYTES);
    assert_true(process_memory_read(&before));
    char *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    memset(shared, 1, BYTES);
    assert_true(process_memory_read(&after));
    assert_in_range(after.shared_bytes - before.shared_bytes, BYTES - SLACK, BYTES + SLACK);
    munmap(shared, BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_applies_the_tightest_limit_of_each_tree),
        cmocka_unit_test_setup_teardown(read_takes_name_and_clock_from_the_first_cpu, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(read_survives_an_empty_tree, make_root, remove_root),
        cmocka_unit_test(read_sees_this_machine),
        cmocka_unit_test_setup_teardown(largest_processes_are_named_largest_first, make_root,
                                        remove_root),
        cmocka_unit_test(process_memory_counts_private_and_shared_pages_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
