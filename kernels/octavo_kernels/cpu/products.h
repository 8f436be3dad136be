// Rows times panels, the one product of layers and attention, by the instructions of the tier. Included behind the threads.
//
// Everything that is multiplied with has one layout, the *panel*: 16 columns (output features, tokens, or dimensions) of all K terms, two
// terms of a column side by side:
//
//   panel[K / 2][16][2]        the order that vdpbf16ps and tdpbf16ps take (Intel calls it VNNI)
//
// A weight [N, K] is N / 16 panels. A page of keys is page / 16 panels of K = D terms, a page of values D / 16 panels of K = page terms,
// so that q·kᵀ, p·v and every linear layer are the same function, `multiply`; only tier 0 has one of its own for weights.
//
// Each sum runs over its terms in one fixed order, whatever else is in the batch: what a row gives never depends on its company.

#pragma once

namespace {

constexpr int WIDTH = 16;      // columns of a panel
constexpr int MOST_ROWS = 32;  // rows of one call

int over(int count, int by) { return (count + by - 1) / by; }

}  // namespace

#if OCTAVO_TIER == 0
#include "products_avx2.h"
#else
#include "products_avx512.h"
#endif
#if OCTAVO_TIER == 2
#include "products_amx.h"
#endif

namespace {

// rows <= BLOCK_ROWS: the number becomes a constant, and few rows take more panels at once, for sums to wait on that are not the last one.
template <int ROWS>
void blocks(const Operand* x, size_t x_stride, int rows, const bf16* panels, size_t panel_stride, int count, int pairs, bool add, float* out, size_t out_stride) {
    if constexpr (ROWS > 1) {
        if (rows < ROWS) return blocks<ROWS - 1>(x, x_stride, rows, panels, panel_stride, count, pairs, add, out, out_stride);
    }
    constexpr int WIDE = ROWS * 4 <= MOST_SUMS ? 4 : ROWS * 2 <= MOST_SUMS ? 2 : 1;
    int c = 0;
    for (; c + WIDE <= count; c += WIDE)
        block<ROWS, WIDE>(x, x_stride, panels + c * panel_stride, panel_stride, pairs, add, out + c * WIDTH, out_stride);
    for (; c < count; c++)
        block<ROWS, 1>(x, x_stride, panels + c * panel_stride, panel_stride, pairs, add, out + c * WIDTH, out_stride);
}

void multiply_by_vectors(const Operand* x, size_t x_stride, int rows, const bf16* panels, size_t panel_stride, int count, int pairs, bool add, float* out, size_t out_stride) {
    for (int r = 0; r < rows; r += BLOCK_ROWS) {
        const int some = rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS;
        blocks<BLOCK_ROWS>(x + r * x_stride, x_stride, some, panels, panel_stride, count, pairs, add, out + r * out_stride, out_stride);
    }
}

// out[rows, count * 16] (+)= x[rows, 2 * pairs] times `count` panels, `panel_stride` elements apart. rows <= MOST_ROWS. On tier 2, x and
// out have room for a multiple of 16 rows.
void multiply(const Operand* x, size_t x_stride, int rows, const bf16* panels, size_t panel_stride, int count, int pairs, bool add, float* out, size_t out_stride) {
#if OCTAVO_TIER == 2
    if (pairs % TILE_PAIRS == 0) return multiply_by_tiles(x, x_stride, rows, panels, panel_stride, count, pairs, add, out, out_stride);
#endif
    multiply_by_vectors(x, x_stride, rows, panels, panel_stride, count, pairs, add, out, out_stride);
}

void to_operands(const float* from, size_t count, float factor, Operand* to) {
    size_t i = 0;
    for (; i + LANES <= count; i += LANES) {
#if OCTAVO_TIER == 0
        store(to + i, load(from + i) * factor);
#else
        const Halves halves = to_bf16(load(from + i) * factor);
        memcpy(to + i, &halves, sizeof halves);
#endif
    }
#if OCTAVO_TIER == 0
    for (; i < count; i++) to[i] = from[i] * factor;
#else
    for (; i < count; i++) to[i] = to_bf16(from[i] * factor);
#endif
}

}  // namespace
