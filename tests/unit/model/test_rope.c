/* test_rope: inverse frequencies against the bits that transformers computes. */
#include "runtime/model/families/families.h"
#include "runtime/model/model.h"
#include "runtime/model/rope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAIRS_MAX = 64, ULP_MAX = 2 };

/* The bits of inv_freq of transformers 5.23.0 with torch 2.15.0, made from the same files. */
struct golden {
    const char *name;
    int pairs;
    uint32_t bits[PAIRS_MAX];
};

static const struct golden GOLDENS[] = {
    {"llama-2-7b",
     64,
     {0x3f800000u, 0x3f5dafd7u, 0x3f3ff911u, 0x3f263de0u, 0x3f0ff59au, 0x3ef953cfu, 0x3ed7e89bu,
      0x3ebaf81bu, 0x3ea1e89bu, 0x3e8c3504u, 0x3e72d423u, 0x3e5247edu, 0x3e361887u, 0x3e1db040u,
      0x3e088d77u, 0x3dec7fd6u, 0x3dcccccdu, 0x3db15978u, 0x3d99940du, 0x3d84fe4du, 0x3d6655c2u,
      0x3d47763fu, 0x3d2cba15u, 0x3d159348u, 0x3d0186e3u, 0x3ce054d2u, 0x3cc2434fu, 0x3ca8398bu,
      0x3c91ad39u, 0x3c7c4d33u, 0x3c5a7bf2u, 0x3c3d3311u, 0x3c23d70au, 0x3c0de12du, 0x3bf5b9b0u,
      0x3bd4ca15u, 0x3bb8449cu, 0x3b9f91ccu, 0x3b8a2e77u, 0x3b6f520eu, 0x3b4f3e38u, 0x3b33770fu,
      0x3b1b690du, 0x3b06946fu, 0x3ae91528u, 0x3ac9d75cu, 0x3aaec98eu, 0x3a975c0eu, 0x3a83126fu,
      0x3a6301e2u, 0x3a44948cu, 0x3a2a3b44u, 0x3a136a16u, 0x39ff4facu, 0x39dd1725u, 0x39bf74d7u,
      0x39a5cb60u, 0x398f9272u, 0x3978a815u, 0x395753e4u, 0x393a7753u, 0x39217916u, 0x390bd472u,
      0x38f22ce2u}},
    {"llama-3.1-8b",
     64,
     {0x3f800000u, 0x3f508ac1u, 0x3f29e1c6u, 0x3f0a6384u, 0x3ee177bcu, 0x3eb7ab7du, 0x3e959ee3u,
      0x3e73c461u, 0x3e4693b0u, 0x3e21c3a0u, 0x3e03c6a0u, 0x3dd6b19cu, 0x3daee4adu, 0x3d8e7898u,
      0x3d681e67u, 0x3d3d1684u, 0x3d1a08c8u, 0x3cfaf53fu, 0x3ccc6f49u, 0x3ca68939u, 0x3c87a9c3u,
      0x3c5d06ecu, 0x3c340d6du, 0x3c12ac7fu, 0x3beef74fu, 0x3bc2aa76u, 0x3b9e9402u, 0x3b812e35u,
      0x3b527720u, 0x3b0dfd06u, 0x3ab3d11du, 0x3a60979eu, 0x3a0995d2u, 0x39a3f108u, 0x393b2dd2u,
      0x38c86886u, 0x38a3418du, 0x3884fdbfu, 0x3858ac81u, 0x38308199u, 0x380fc8f8u, 0x37ea426fu,
      0x37bed4f4u, 0x379b7475u, 0x377d45c3u, 0x374e51f5u, 0x3728126bu, 0x3708ea0fu, 0x36df10c4u,
      0x36b5b687u, 0x369406cbu, 0x36712b80u, 0x36447610u, 0x36200a69u, 0x36025f34u, 0x35d46808u,
      0x35ad07a7u, 0x358cf400u, 0x3565a54du, 0x353b12c7u, 0x351864a7u, 0x34f848c2u, 0x34ca41b0u,
      0x34a4c2ffu}},
    {"llama-3.2-1b",
     32,
     {0x3f800000u, 0x3f29e1c6u, 0x3ee177bcu, 0x3e959ee3u, 0x3e4693b0u, 0x3e03c6a0u, 0x3daee4adu,
      0x3d681e67u, 0x3d1a08c8u, 0x3ccc6f49u, 0x3c87a9c3u, 0x3c340d6du, 0x3beef74fu, 0x3b9e9402u,
      0x3b527720u, 0x3aa9279bu, 0x39e13620u, 0x38cb98f7u, 0x37a3418du, 0x3758ac81u, 0x370fc8f8u,
      0x36bed4f4u, 0x367d45c3u, 0x3628126bu, 0x35df10c4u, 0x359406cbu, 0x35447610u, 0x35025f34u,
      0x34ad07a7u, 0x3465a54du, 0x341864a7u, 0x33ca41b0u}},
    {"vicuna-7b-16k",
     64,
     {0x3e800000u, 0x3e5dafd7u, 0x3e3ff911u, 0x3e263de0u, 0x3e0ff59au, 0x3df953cfu, 0x3dd7e89bu,
      0x3dbaf81bu, 0x3da1e89bu, 0x3d8c3504u, 0x3d72d423u, 0x3d5247edu, 0x3d361887u, 0x3d1db040u,
      0x3d088d77u, 0x3cec7fd6u, 0x3ccccccdu, 0x3cb15978u, 0x3c99940du, 0x3c84fe4du, 0x3c6655c2u,
      0x3c47763fu, 0x3c2cba15u, 0x3c159348u, 0x3c0186e3u, 0x3be054d2u, 0x3bc2434fu, 0x3ba8398bu,
      0x3b91ad39u, 0x3b7c4d33u, 0x3b5a7bf2u, 0x3b3d3311u, 0x3b23d70au, 0x3b0de12du, 0x3af5b9b0u,
      0x3ad4ca15u, 0x3ab8449cu, 0x3a9f91ccu, 0x3a8a2e77u, 0x3a6f520eu, 0x3a4f3e38u, 0x3a33770fu,
      0x3a1b690du, 0x3a06946fu, 0x39e91528u, 0x39c9d75cu, 0x39aec98eu, 0x39975c0eu, 0x3983126fu,
      0x396301e2u, 0x3944948cu, 0x392a3b44u, 0x39136a16u, 0x38ff4facu, 0x38dd1725u, 0x38bf74d7u,
      0x38a5cb60u, 0x388f9272u, 0x3878a815u, 0x385753e4u, 0x383a7753u, 0x38217916u, 0x380bd472u,
      0x37f22ce2u}},
    {"mistral-nemo-12b",
     64,
     {0x3f800000u, 0x3f4e4badu, 0x3f263de0u, 0x3f05f6efu, 0x3ed7e89bu, 0x3eadfcffu, 0x3e8c3504u,
      0x3e61f835u, 0x3e361887u, 0x3e12bd91u, 0x3dec7fd6u, 0x3dbe94c6u, 0x3d99940du, 0x3d778513u,
      0x3d47763fu, 0x3d20bc1du, 0x3d0186e3u, 0x3cd0c1a8u, 0x3ca8398bu, 0x3c879008u, 0x3c5a7bf2u,
      0x3c301052u, 0x3c0de12du, 0x3be4aa46u, 0x3bb8449cu, 0x3b947daeu, 0x3b6f520eu, 0x3b40dac5u,
      0x3b1b690du, 0x3afa78f0u, 0x3ac9d75cu, 0x3aa2a6f7u, 0x3a83126fu, 0x3a533f28u, 0x3a2a3b44u,
      0x3a092e02u, 0x39dd1725u, 0x39b229fbu, 0x398f9272u, 0x39676492u, 0x393a7753u, 0x39164324u,
      0x38f22ce2u, 0x38c327b5u, 0x389d43a4u, 0x387d75d4u, 0x384c3fbeu, 0x382497abu, 0x3804a2b2u,
      0x37d5c441u, 0x37ac431du, 0x378ad0edu, 0x375fba4fu, 0x37344a0eu, 0x371148e3u, 0x36ea2732u,
      0x36bcb0c1u, 0x36980e02u, 0x36751070u, 0x36457babu, 0x361f23e4u, 0x36003decu, 0x35ceaf79u,
      0x35a68e4cu}},
    {"qwen3-4b-new-spelling",
     64,
     {0x3f800000u, 0x3f492c28u, 0x3f1e165du, 0x3ef875a7u, 0x3ec33f3au, 0x3e996e52u, 0x3e712429u,
      0x3e3d7efcu, 0x3e14e963u, 0x3dea09dbu, 0x3db7ea1au, 0x3d908687u, 0x3d63251bu, 0x3d327f50u,
      0x3d0c44bfu, 0x3cdc7456u, 0x3cad3d5eu, 0x3c88230fu, 0x3c55f605u, 0x3c282311u, 0x3c042088u,
      0x3bcfa8a9u, 0x3ba32f3eu, 0x3b803c3du, 0x3b498ad3u, 0x3b1e60c3u, 0x3af8ea93u, 0x3ac39b1cu,
      0x3a99b686u, 0x3a7195a5u, 0x3a3dd829u, 0x3a152f76u, 0x39ea77ffu, 0x39b840a8u, 0x3990ca8bu,
      0x39639000u, 0x3932d34fu, 0x390c86c1u, 0x38dcdc14u, 0x38ad8ee4u, 0x38886320u, 0x38565ab5u,
      0x38287230u, 0x38045eb6u, 0x37d00a62u, 0x37a37c09u, 0x37807896u, 0x3749e9abu, 0x371eab4bu,
      0x36f95fb6u, 0x36c3f72au, 0x3699fedcu, 0x36720755u, 0x363e3180u, 0x361575abu, 0x35eae655u,
      0x35b8975du, 0x35910eaeu, 0x3563fb18u, 0x35332777u, 0x350cc8e3u, 0x34dd4405u, 0x34ade091u,
      0x3488a34fu}},
    {"smollm2-1.7b",
     32,
     {0x3f800000u, 0x3f312f9au, 0x3ef545b6u, 0x3ea9c2cdu, 0x3e6afe80u, 0x3e22a5a8u, 0x3de1258eu,
      0x3d9bd4d3u, 0x3d57b640u, 0x3d154d1du, 0x3cceac27u, 0x3c8f0b75u, 0x3c460309u, 0x3c090ceau,
      0x3bbdb6d2u, 0x3b834eadu, 0x3b35c3a0u, 0x3afb9c1au, 0x3aae25b6u, 0x3a7110e9u, 0x3a26d984u,
      0x39e6f6d3u, 0x399fdb9au, 0x395d491cu, 0x391928b1u, 0x38d4033au, 0x3892bda6u, 0x384b20d1u,
      0x380c9775u, 0x37c29db8u, 0x3786b33cu, 0x373a75efu}},
};

static void frequencies_equal_those_of_transformers(void **state) {
    (void)state;
    int64_t worst = 0;
    for (size_t i = 0; i < ARRAY_COUNT(GOLDENS); i++) {
        struct region region = {0};
        struct blueprint blueprint;
        struct fault fault;
        char path[512];
        char folder[PATH_BYTES];
        float frequencies[PAIRS_MAX];
        snprintf(path, sizeof path, "%s/%s.json", CONFIGS, GOLDENS[i].name);
        assert_int_equal(blueprint_open(path, &region, &blueprint, folder, &fault), OK);
        assert_int_equal(blueprint.head_dim / 2, GOLDENS[i].pairs);
        blueprint_rope_frequencies(&blueprint, frequencies);
        for (int p = 0; p < GOLDENS[i].pairs; p++) {
            uint32_t bits;
            memcpy(&bits, &frequencies[p], sizeof bits);
            int64_t ulp = llabs((int64_t)bits - (int64_t)GOLDENS[i].bits[p]);
            if (ulp > ULP_MAX) {
                fail_msg("%s pair %d: %08x, wanted %08x", GOLDENS[i].name, p, bits,
                         GOLDENS[i].bits[p]);
            }
            worst = ulp > worst ? ulp : worst;
        }
        region_finish(&region);
    }
    print_message("largest distance: %lld ulp\n", (long long)worst);
}

/* Numbers small enough to follow by hand: old / low = 8192, old / high = 2048. */
static void llama3_scaling_keeps_divides_and_blends(void **state) {
    (void)state;
    const struct blueprint blueprint = {.rope = {.kind = ROPE_LLAMA3,
                                                 .factor = 8,
                                                 .low_freq_factor = 1,
                                                 .high_freq_factor = 4,
                                                 .original_positions = 8192}};
    const float two_pi = 6.2831853f;
    assert_float_equal(rope_scale_llama3(&blueprint.rope, two_pi / 2000), two_pi / 2000, 1e-9f);
    assert_float_equal(rope_scale_llama3(&blueprint.rope, two_pi / 9000), two_pi / 72000, 1e-9f);
    /* Wavelength 4096: smooth = (2 - 1) / (4 - 1), so (2/3 / 8 + 1/3) of it stays. */
    assert_float_equal(rope_scale_llama3(&blueprint.rope, two_pi / 4096),
                       two_pi / 4096 * (5.0f / 12.0f), 1e-9f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_equal_those_of_transformers),
        cmocka_unit_test(llama3_scaling_keeps_divides_and_blends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
