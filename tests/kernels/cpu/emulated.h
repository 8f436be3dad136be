// The instructions of tiers 1 and 2 in plain C++, one for one, for machines that lack them: -DOCTAVO_EMULATED.
// Included by octavo_cpu.cpp instead of what the compiler's header offers under these names; vectors of 512 bits become what there is.

#pragma once

namespace emulated {

typedef float Floats __attribute__((vector_size(64)));
typedef long long Words __attribute__((vector_size(64)));

inline float widened(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

// Two products of bf16 pairs are added to each fp32 lane, the upper one first (Intel SDM, VDPBF16PS).
inline Floats dpbf16(Floats total, Words a, Words b) {
    uint16_t x[32], y[32];
    memcpy(x, &a, 64);
    memcpy(y, &b, 64);
    for (int i = 0; i < 16; i++) {
        total[i] += widened(x[2 * i + 1]) * widened(y[2 * i + 1]);
        total[i] += widened(x[2 * i]) * widened(y[2 * i]);
    }
    return total;
}

inline Floats load(const float* from) { Floats v; memcpy(&v, from, 64); return v; }
inline Words load_words(const void* from) { Words v; memcpy(&v, from, 64); return v; }
inline void store(float* to, Floats v) { memcpy(to, &v, 64); }
inline Words repeat(int32_t x) {
    int32_t all[16];
    for (int32_t& one : all) one = x;
    return load_words(all);
}

struct Tile { uint8_t row[16][64]; };
inline thread_local Tile tiles[8];

inline void tile_load(int tile, const void* from, size_t stride) {
    for (int r = 0; r < 16; r++) memcpy(tiles[tile].row[r], (const char*)from + r * stride, 64);
}
inline void tile_store(int tile, void* to, size_t stride) {
    for (int r = 0; r < 16; r++) memcpy((char*)to + r * stride, tiles[tile].row[r], 64);
}
inline void tile_zero(int tile) { memset(&tiles[tile], 0, sizeof(Tile)); }

// Row i of `a` has 32 terms, row k of `b` the terms 2k and 2k + 1 of 16 columns (Intel SDM, TDPBF16PS).
inline void tile_multiply(int sums, int a, int b) {
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++) {
            int32_t pair;
            memcpy(&pair, tiles[a].row[i] + 4 * k, 4);
            store((float*)tiles[sums].row[i], dpbf16(load((const float*)tiles[sums].row[i]), repeat(pair), load_words(tiles[b].row[k])));
        }
}

}  // namespace emulated

#undef _tile_loadd  // gcc's header has these as macros
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define __m512 emulated::Floats
#define __m512i emulated::Words
#define __m512bh emulated::Words
#define _mm512_loadu_ps(from) emulated::load(from)
#define _mm512_storeu_ps(to, v) emulated::store(to, v)
#define _mm512_setzero_ps() emulated::Floats{}
#define _mm512_loadu_si512(from) emulated::load_words(from)
#define _mm512_set1_epi32(x) emulated::repeat(x)
#define _mm512_dpbf16_ps(total, a, b) emulated::dpbf16(total, a, b)
#define _tile_loadconfig(config) (void)(config)
#define _tile_loadd(tile, from, stride) emulated::tile_load(tile, from, stride)
#define _tile_stored(tile, to, stride) emulated::tile_store(tile, to, stride)
#define _tile_zero(tile) emulated::tile_zero(tile)
#define _tile_dpbf16ps(sums, a, b) emulated::tile_multiply(sums, a, b)
