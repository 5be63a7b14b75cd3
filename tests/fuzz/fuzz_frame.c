/* fuzz_frame: any bytes as a message are refused, or give a frame that writes the same header. */
#include "transport/messages/frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint64_t KNOWN[4] = {0x00000000ffffffff, 0, 0, 1};
    uint8_t header[FRAME_HEADER_BYTES];
    struct frame frame;
    memset(&frame, 0xa5, sizeof frame);
    const struct frame before = frame;
    if (frame_read(data, size, KNOWN, &frame) != FRAME_OK) {
        ASSERT(memcmp(&frame, &before, sizeof frame) == 0);
        return 0;
    }
    ASSERT(frame.length == size - FRAME_HEADER_BYTES && (frame.kind < 32 || frame.kind == 192));
    frame_write(&frame, header);
    ASSERT(memcmp(header, data, sizeof header) == 0);
    return 0;
}
