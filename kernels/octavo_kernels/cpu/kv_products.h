// Products with keys and values as pages hold them. Included behind products.h and kv_pages.h.

#pragma once

namespace {

#if OCTAVO_TIER == 0

constexpr float MOST_INTEGER = 32767;  // times 127, times 256 terms: below 2^31

// `count` terms, a multiple of 8, times `factor` as integers up to MOST_INTEGER; what to multiply them with. What is not finite makes
// that NaN, so that it is not lost.
float to_integers(const float* from, int count, float factor, int16_t* to) {
    Vector most = {}, poison = {};
    for (int i = 0; i < count; i += LANES) {
        const Vector x = load(from + i);
        most = largest(most, largest(x, -x));
        poison += x * 0.0f;
    }
    const float size = largest_lane(most);
    const Vector scale = splat(size > 1e-30f && size < INFINITY ? MOST_INTEGER / size : 0);  // smaller ones have no factor in fp32
    for (int i = 0; i < count; i += LANES) {
        const __m256i wide = _mm256_cvtps_epi32((__m256)(load(from + i) * scale));
        _mm_storeu_si128((__m128i*)(to + i), _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
    }
    return size / MOST_INTEGER * factor + sum(poison);
}

// ROWS rows of integers times PANELS panels of int8 codes: out = or += the sum times the row's factor.
template <int ROWS, int PANELS>
void code_block(const int16_t* x, size_t x_stride, const float* factors, const uint8_t* panels, size_t panel_stride, int pairs, bool add, float* out, size_t out_stride) {
    constexpr int COLUMNS = 2 * PANELS;  // vectors of 8
    __m256i total[ROWS][COLUMNS];
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < COLUMNS; c++) total[r][c] = _mm256_setzero_si256();
    for (int pair = 0; pair < pairs; pair++) {
        __m256i w[COLUMNS];
        UNROLL
        for (int c = 0; c < COLUMNS; c++) {
            w[c] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i*)(panels + (c / 2) * panel_stride + pair * 2 * WIDTH + (c % 2) * WIDTH)));
            __asm__("" : "+x"(w[c]));  // or gcc widens them again for each row
        }
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            int32_t both;
            memcpy(&both, x + r * x_stride + 2 * pair, 4);
            const __m256i xr = _mm256_set1_epi32(both);
            UNROLL
            for (int c = 0; c < COLUMNS; c++) total[r][c] = _mm256_add_epi32(total[r][c], _mm256_madd_epi16(xr, w[c]));
        }
    }
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < COLUMNS; c++) {
            float* to = out + r * out_stride + 8 * c;
            const __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(total[r][c]), _mm256_broadcast_ss(factors + r));
            _mm256_storeu_ps(to, add ? _mm256_add_ps(_mm256_loadu_ps(to), product) : product);
        }
}

template <int ROWS>
void code_blocks(const int16_t* x, size_t x_stride, const float* factors, int rows, const uint8_t* panels, size_t panel_stride, int count, int pairs, bool add, float* out, size_t out_stride) {
    if constexpr (ROWS > 1) {
        if (rows < ROWS) return code_blocks<ROWS - 1>(x, x_stride, factors, rows, panels, panel_stride, count, pairs, add, out, out_stride);
    }
    constexpr int WIDE = MOST_SUMS / ROWS;  // few rows take more panels at once, for sums to wait on that are not the last one
    int c = 0;
    for (; c + WIDE <= count; c += WIDE)
        code_block<ROWS, WIDE>(x, x_stride, factors, panels + c * panel_stride, panel_stride, pairs, add, out + c * WIDTH, out_stride);
    for (; c < count; c++)
        code_block<ROWS, 1>(x, x_stride, factors, panels + c * panel_stride, panel_stride, pairs, add, out + c * WIDTH, out_stride);
}

#endif

// Rows as they are multiplied with what is stored as `kind`: on tier 0 with int8 as integers, with a factor for each row.
struct Rows {
    void* terms;
    float* factors;
    size_t stride;  // in terms
    int kind;

    void set(int row, const float* from, int count, float factor) const {
#if OCTAVO_TIER == 0
        if (kind == INT8) {
            factors[row] = to_integers(from, count, factor, (int16_t*)terms + row * stride);
            return;
        }
#endif
        to_operands(from, count, factor, (Operand*)terms + row * stride);
    }
};

// out[rows, count * 16] (+)= the rows' terms from `first` on times `count` panels of `elements`, of whose terms `pairs` pairs count.
void multiply_stored(const Rows& x, int first, int rows, const uint8_t* panels, size_t elements, int count, int pairs, bool add, float* out, size_t out_stride, bf16* decoded) {
#if OCTAVO_TIER == 0
    if (x.kind == INT8) {
        for (int r = 0; r < rows; r += BLOCK_ROWS) {
            const int some = rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS;
            code_blocks<BLOCK_ROWS>((const int16_t*)x.terms + r * x.stride + first, x.stride, x.factors + r, some, panels, elements, count, pairs, add, out + r * out_stride, out_stride);
        }
        return;
    }
#endif
    const bf16* wide = (const bf16*)panels;
    if (x.kind != BF16) {
        const auto call = x.kind == INT8 ? decode<INT8> : decode<FP8>;
        call(panels, count, elements, (size_t)pairs * 2 * WIDTH, decoded);
        wide = decoded;
    }
    multiply((const Operand*)x.terms + first, x.stride, rows, wide, elements, count, pairs, add, out, out_stride);
}

}  // namespace
