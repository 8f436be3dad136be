// Products of tier 0, AVX2 with FMA. Included by products.h.
//
// There is no product of bf16, but one of 16-bit integers that adds neighbours (vpmaddwd), with 1.6 times the products of fp32's fused
// multiply-add in the same time here. So a weight is packed as 12-bit integers with one scale for 64 terms of a column, and rows become
// 15-bit integers with one scale for the same 64 terms: 64 products stay below 2^31, and what is rounded away is less than what bf16
// operands lose on the other tiers. Few rows are bound by memory, so the 12 bits lie in 12 bits and become 16-bit integers just before
// they are used. Attention is in fp32, to which bf16 comes by a shift or a mask as it is loaded.

#pragma once

namespace {

typedef float Operand;  // what rows are multiplied as

void prepare_thread() { tiles_ready = true; }

constexpr int ITEM_ROWS = 24;    // rows of an item of work
constexpr int WEIGHT_ROWS = 64;  // where it multiplies with a weight: more rows for each time that one is unpacked
constexpr int BLOCK_ROWS = 4, MOST_SUMS = 4;  // sums in units of a row of a panel

// ROWS x (PANELS * 16) sums in registers: at least 8, so that two fused multiply-adds can start in every cycle while each takes four. With
// 10 or 12 sums, gcc 12 keeps some in memory, which costs more than the loads that more rows save.
template <int ROWS, int PANELS>
void block(const float* x, size_t x_stride, const bf16* panels, size_t panel_stride, int pairs, bool add, float* out, size_t out_stride) {
    constexpr int COLUMNS = 2 * PANELS;  // vectors of 8
    __m256 total[ROWS][COLUMNS];
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < COLUMNS; c++) total[r][c] = add ? _mm256_loadu_ps(out + r * out_stride + 8 * c) : _mm256_setzero_ps();
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    for (int pair = 0; pair < pairs; pair++) {
        const bf16* terms = panels + pair * 2 * WIDTH;
        UNROLL
        for (int odd = 0; odd < 2; odd++) {  // the two terms of a column are the halves of a 32-bit word
            __asm__ volatile("" ::: "memory");  // loads of the next term may not come earlier: they would push sums out of registers
            __m256 w[COLUMNS];
            UNROLL
            for (int c = 0; c < COLUMNS; c++) {
                const __m256i both = _mm256_loadu_si256((const __m256i*)(terms + (c / 2) * panel_stride + (c % 2) * WIDTH));
                w[c] = _mm256_castsi256_ps(odd ? _mm256_and_si256(both, upper) : _mm256_slli_epi32(both, 16));
            }
            UNROLL
            for (int r = 0; r < ROWS; r++) {
                const __m256 xr = _mm256_broadcast_ss(x + r * x_stride + 2 * pair + odd);
                UNROLL
                for (int c = 0; c < COLUMNS; c++) total[r][c] = _mm256_fmadd_ps(xr, w[c], total[r][c]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < COLUMNS; c++) _mm256_storeu_ps(out + r * out_stride + 8 * c, total[r][c]);
}

// What rows are multiplied with weights as: integers, with a scale for each SPAN terms.
typedef int16_t Factor;
constexpr int SPAN = 64, MOST_WEIGHT = 2047, MOST_FACTOR = 16383;  // 64 * 2047 * 16383 < 2^31

// Four terms of a panel, that is two pairs of its 16 columns: 64 integers of 12 bits in 96 bytes. Of 16-bit words 0 to 47, the upper 12
// bits are integers 0 to 47 in the order of a panel; the lower four bits of words i, 16 + i and 32 + i are integer 48 + i, from its low end.
constexpr int GROUP_BYTES = 96, GROUPS = SPAN / 4;

void pack_group(const Factor* from, uint8_t* to) {
    uint16_t words[48];
    for (int i = 0; i < 48; i++) words[i] = (uint16_t)(from[i] << 4 | (from[48 + i % 16] >> (4 * (i / 16)) & 15));
    memcpy(to, words, GROUP_BYTES);
}

Factor packed_at(const uint8_t* group, int i) {
    uint16_t words[48];
    memcpy(words, group, GROUP_BYTES);
    if (i < 48) return (Factor)words[i] >> 4;
    return (Factor)((words[i - 48] & 15) << 4 | (words[i - 32] & 15) << 8 | words[i - 16] << 12) >> 4;
}

// Four terms of a panel as two pairs of vectors.
void unpack_group(const uint8_t* group, __m256i w[2][2]) {
    const __m256i low = _mm256_set1_epi16(15);
    const __m256i a = _mm256_loadu_si256((const __m256i*)group), b = _mm256_loadu_si256((const __m256i*)(group + 32)), c = _mm256_loadu_si256((const __m256i*)(group + 64));
    const __m256i lower = _mm256_or_si256(_mm256_slli_epi16(_mm256_and_si256(a, low), 4), _mm256_slli_epi16(_mm256_and_si256(b, low), 8));
    w[0][0] = _mm256_srai_epi16(a, 4), w[0][1] = _mm256_srai_epi16(b, 4), w[1][0] = _mm256_srai_epi16(c, 4);
    w[1][1] = _mm256_srai_epi16(_mm256_or_si256(lower, _mm256_slli_epi16(c, 12)), 4);
}

// Rows as integers and their scales, from some span on: those of rows `stride` and `scale_stride` apart.
struct IntegerRows {
    const Factor* terms;
    const float* scales;
    size_t stride, scale_stride;
    IntegerRows from(int row) const { return {terms + row * stride, scales + row * scale_stride, stride, scale_stride}; }
    __m256i pair(int row, int term) const {  // in every lane
        int32_t both;
        memcpy(&both, terms + row * stride + term, 4);
        return _mm256_set1_epi32(both);
    }
};

// out (+)= the sums of a span times its scales, those of the rows and the panel's [16].
template <int ROWS>
void add_span(const __m256i total[ROWS][2], const IntegerRows& x, int span, const float* scales, bool add, float* out, size_t out_stride) {
    UNROLL
    for (int r = 0; r < ROWS; r++)
        UNROLL
        for (int c = 0; c < 2; c++) {
            const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(scales + 8 * c), _mm256_broadcast_ss(x.scales + r * x.scale_stride + span));
            const __m256 before = add ? _mm256_loadu_ps(out + r * out_stride + 8 * c) : _mm256_setzero_ps();
            _mm256_storeu_ps(out + r * out_stride + 8 * c, _mm256_fmadd_ps(_mm256_cvtepi32_ps(total[r][c]), scale, before));
        }
}

// out (+)= ROWS rows times one packed panel, `spans` spans of terms with scales [spans][16]. The first rows that take a panel unpack it as
// they multiply, so that it comes from memory meanwhile, and fetch `next`, which this thread needs soon. KEEP: into `unpacked`, for others.
template <int ROWS, bool KEEP>
void packed_block(const IntegerRows& x, const uint8_t* panel, const float* scales, int spans, bool add, const uint8_t* next, Factor* unpacked, float* out, size_t out_stride) {
    for (int span = 0; span < spans; span++) {
        __m256i total[ROWS][2] = {};
        for (int group = 0; group < GROUPS; group++, panel += GROUP_BYTES, next += GROUP_BYTES, unpacked += 4 * WIDTH) {
            _mm_prefetch((const char*)next, _MM_HINT_T1);
            if (group % 2) _mm_prefetch((const char*)next + 64, _MM_HINT_T1);  // two groups are three lines
            __m256i w[2][2];
            unpack_group(panel, w);
            UNROLL
            for (int pair = 0; pair < 2; pair++) {
                UNROLL
                for (int c = 0; KEEP && c < 2; c++) _mm256_store_si256((__m256i*)(unpacked + (2 * pair + c) * WIDTH), w[pair][c]);
                UNROLL
                for (int r = 0; r < ROWS; r++) {
                    const __m256i xr = x.pair(r, span * SPAN + 4 * group + 2 * pair);
                    UNROLL
                    for (int c = 0; c < 2; c++) total[r][c] = _mm256_add_epi32(total[r][c], _mm256_madd_epi16(xr, w[pair][c]));
                }
            }
        }
        add_span<ROWS>(total, x, span, scales + span * WIDTH, add || span, out, out_stride);
    }
}

// The same with what packed_block kept.
template <int ROWS>
void integer_block(const IntegerRows& x, const Factor* panel, const float* scales, int spans, bool add, float* out, size_t out_stride) {
    for (int span = 0; span < spans; span++) {
        __m256i total[ROWS][2] = {};
        const Factor* terms = panel + span * SPAN * WIDTH;
        UNROLL_SOME  // gcc 12 gives each sum a new register and copies it back at the end: once for all of them
        for (int pair = 0; pair < SPAN / 2; pair++) {
            __m256i left = _mm256_load_si256((const __m256i*)(terms + pair * 2 * WIDTH));
            __m256i right = _mm256_load_si256((const __m256i*)(terms + pair * 2 * WIDTH + WIDTH));
            __asm__("" : "+x"(left), "+x"(right));  // or gcc loads them again for each row, more than a cycle can load
            UNROLL
            for (int r = 0; r < ROWS; r++) {
                const __m256i xr = x.pair(r, span * SPAN + 2 * pair);
                total[r][0] = _mm256_add_epi32(total[r][0], _mm256_madd_epi16(xr, left));
                total[r][1] = _mm256_add_epi32(total[r][1], _mm256_madd_epi16(xr, right));
            }
        }
        add_span<ROWS>(total, x, span, scales + span * WIDTH, add || span, out, out_stride);
    }
}

}  // namespace
