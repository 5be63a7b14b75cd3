/* element_spans: loads and stores of consecutive elements by one thread, 16 bytes at a time, for
 * the memory-bound kernels. A span is whole when all its elements exist and its address is aligned
 * to 16 bytes, or to its size if that is less. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_ELEMENT_SPANS_H
#define SKEP_KERNELS_CUDA_DEVICE_ELEMENT_SPANS_H

#include "kernels/cuda/device/device.h"

/* ---- words ---- */

struct alignas(8) words2 {
    uint32_t word[2];
};

/* store_words: store to global memory in one access. For an assignment of the struct, the compiler
 * often emits one access per member. */
#ifdef SKEP_EMULATED
DEVICE void store_words(words2 *global, words2 words) {
    emulated_global(global);
    *global = words;
}
DEVICE void store_words(words4 *global, words4 words) {
    emulated_global(global);
    *global = words;
}
#else
DEVICE void store_words(words2 *global, words2 words) {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(global)),
                 "r"(words.word[0]), "r"(words.word[1])
                 : "memory");
}
DEVICE void store_words(words4 *global, words4 words) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(global)),
                 "r"(words.word[0]), "r"(words.word[1]), "r"(words.word[2]), "r"(words.word[3])
                 : "memory");
}
#endif

/* ---- elements in words ---- */

template <typename T> DEVICE float unpack_element(const uint32_t *words, int i) {
    return to_float(T{(uint16_t)(words[i / 2] >> i % 2 * 16)});
}
template <> DEVICE float unpack_element<float>(const uint32_t *words, int i) {
    return bits_to_float(words[i]);
}

/* Pack the values that form word `i`, each rounded once. */
template <typename T> DEVICE uint32_t pack_word(const float *values, int i);
template <> DEVICE uint32_t pack_word<float>(const float *values, int i) {
    return float_to_bits(values[i]);
}
template <> DEVICE uint32_t pack_word<bf16>(const float *values, int i) {
    return pack_bf16(values[2 * i], values[2 * i + 1]);
}
template <> DEVICE uint32_t pack_word<f16>(const float *values, int i) {
    return from_float<f16>(values[2 * i]).bits | (uint32_t)from_float<f16>(values[2 * i + 1]).bits
                                                     << 16;
}

/* ---- whole spans ---- */

template <int count> DEVICE void load_span_words(const void *at, uint32_t words[count]) {
    static_assert(count == 1 || count == 2 || count % 4 == 0,
                  "count must be 1, 2 or a multiple of 4 words");
    if (count == 1) {
        words[0] = *static_cast<const uint32_t *>(at);
    } else if (count == 2) {
        words2 pair = *static_cast<const words2 *>(at);
        words[0] = pair.word[0];
        words[1] = pair.word[1];
    }
    for (int i = 0; i + 3 < count; i += 4) {
        words4 four = static_cast<const words4 *>(at)[i / 4];
        for (int j = 0; j < 4; j++) {
            words[i + j] = four.word[j];
        }
    }
}

template <int count> DEVICE void store_span_words(void *at, const uint32_t words[count]) {
    static_assert(count == 1 || count == 2 || count % 4 == 0,
                  "count must be 1, 2 or a multiple of 4 words");
    if (count == 1) {
        *static_cast<uint32_t *>(at) = words[0];
    } else if (count == 2) {
        store_words(static_cast<words2 *>(at), words2{{words[0], words[1]}});
    }
    for (int i = 0; i + 3 < count; i += 4) {
        store_words(static_cast<words4 *>(at) + i / 4,
                    words4{{words[i], words[i + 1], words[i + 2], words[i + 3]}});
    }
}

/* load_span: load the span at `at` as floats. If it is not whole, load `count` elements one by one
 * and set the others to 0. */
template <typename T, int width>
DEVICE void load_span(const T *at, bool whole, int64_t count, float values[width]) {
    constexpr int words_of_run = (int)sizeof(T) * width / 4;
    if constexpr (words_of_run > 0) {
        if (whole) {
            uint32_t words[words_of_run];
            load_span_words<words_of_run>(at, words);
            for (int i = 0; i < width; i++) {
                values[i] = unpack_element<T>(words, i);
            }
            return;
        }
    }
    for (int i = 0; i < width; i++) {
        values[i] = i < count ? to_float(at[i]) : 0;
    }
}

/* store_span: the inverse of load_span; rounds each element once. */
template <typename T, int width>
DEVICE void store_span(T *at, bool whole, int64_t count, const float values[width]) {
    constexpr int words_of_run = (int)sizeof(T) * width / 4;
    if constexpr (words_of_run > 0) {
        if (whole) {
            uint32_t words[words_of_run];
            for (int i = 0; i < words_of_run; i++) {
                words[i] = pack_word<T>(values, i);
            }
            store_span_words<words_of_run>(at, words);
            return;
        }
    }
    for (int i = 0; i < width; i++) {
        if (i < count) {
            at[i] = from_float<T>(values[i]);
        }
    }
}

#endif
