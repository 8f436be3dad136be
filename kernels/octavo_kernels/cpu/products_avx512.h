// Products of tiers 1 and 2, of bf16 by vectors: vdpbf16ps has 16 lanes, each adds two bf16 products to an fp32 sum. Included by products.h.
// Tier 2 takes them for what is no whole tile.

#pragma once

namespace {

typedef bf16 Operand;
typedef bf16 Factor;      // what rows are multiplied with weights as
constexpr int SPAN = 32;  // what their terms are padded to: a tile

constexpr int BLOCK_ROWS = 12, MOST_SUMS = 24;

template <int ROWS, int PANELS>
void block(const bf16* x, size_t x_stride, const bf16* panels, size_t panel_stride, int pairs, bool add, float* out, size_t out_stride) {
    __m512 total[ROWS][PANELS];
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < PANELS; c++) total[r][c] = add ? _mm512_loadu_ps(out + r * out_stride + 16 * c) : _mm512_setzero_ps();
    for (int pair = 0; pair < pairs; pair++) {
        __m512i w[PANELS];
        UNROLL
        for (int c = 0; c < PANELS; c++) w[c] = _mm512_loadu_si512(panels + c * panel_stride + pair * 2 * WIDTH);
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            int32_t both;
            memcpy(&both, x + r * x_stride + 2 * pair, 4);
            const __m512i xr = _mm512_set1_epi32(both);
            UNROLL
            for (int c = 0; c < PANELS; c++) total[r][c] = _mm512_dpbf16_ps(total[r][c], (__m512bh)xr, (__m512bh)w[c]);
        }
    }
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < PANELS; c++) _mm512_storeu_ps(out + r * out_stride + 16 * c, total[r][c]);
}

#if OCTAVO_TIER == 1
constexpr int ITEM_ROWS = 24;           // rows of an item of work
constexpr int WEIGHT_ROWS = ITEM_ROWS;  // where it multiplies with a weight
void prepare_thread() { tiles_ready = true; }
#endif

}  // namespace
