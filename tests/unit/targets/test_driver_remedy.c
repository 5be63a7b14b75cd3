/* test_driver_remedy: each system gets its own way to install a driver. */
#include "targets/ports/driver_remedy.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    struct driver_host host;
    int branch;
    const char *remedy;
} CASES[] = {
    {{"NAME=x\nID=debian\nVERSION_ID=12\n", false, false},
     580,
     "install NVIDIA's driver 580 or newer (Debian: add NVIDIA's repository to apt's sources, then "
     "apt install nvidia-open) and restart"},
    {{"ID=debian\n", false, false},
     525,
     "install NVIDIA's driver 525 or newer (Debian: add non-free to apt's sources, then apt "
     "install "
     "nvidia-driver) and restart"},
    {{"PRETTY_NAME=\"Ubuntu 24.04\"\nID=ubuntu\nID_LIKE=debian\n", false, false},
     580,
     "install NVIDIA's driver 580 or newer (Ubuntu: apt install nvidia-driver-580) and restart"},
    {{"ID=linuxmint\nID_LIKE=\"ubuntu debian\"", false, false},
     525,
     "install NVIDIA's driver 525 or newer (Ubuntu: ubuntu-drivers install) and restart"},
    {{"ID=\"fedora\"\n", false, false},
     580,
     "install NVIDIA's driver 580 or newer (Fedora: enable RPM Fusion, then dnf install "
     "akmod-nvidia) and restart"},
    {{"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", false, false},
     580,
     "install NVIDIA's driver 580 or newer and restart"},
    {{"VARIANT_ID=debian\nID=debianish\n", false, false},
     580,
     "install NVIDIA's driver 580 or newer and restart"},
    {{"", false, false}, 580, "install NVIDIA's driver 580 or newer and restart"},
    {{"ID=ubuntu\n", true, false},
     580,
     "install NVIDIA's driver 580 or newer in Windows, not in WSL2, then run wsl --shutdown"},
    {{"ID=debian\n", false, true},
     580,
     "install NVIDIA's driver 580 or newer on the container's host, and start the container with "
     "--gpus all"},
};

static void each_system_has_its_remedy(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char remedy[DRIVER_REMEDY_BYTES];
        driver_remedy_format(&CASES[i].host, CASES[i].branch, remedy);
        assert_string_equal(remedy, CASES[i].remedy);
    }
}

static void this_machine_has_a_remedy(void **state) {
    (void)state;
    static const char START[] = "install NVIDIA's driver ";
    char remedy[DRIVER_REMEDY_BYTES];
    driver_remedy_read(remedy);
    assert_int_equal(strncmp(remedy, START, sizeof START - 1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_system_has_its_remedy),
        cmocka_unit_test(this_machine_has_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
