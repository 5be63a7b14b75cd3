/* old_driver: a libcuda.so.1 of long ago: it wakes, and has none of what came later. */
__attribute__((visibility("default"))) int cuInit(unsigned flags);

int cuInit(unsigned flags) {
    return (int)flags;
}
