// What a page of keys and values holds, and how a token is written into it. Included behind products.h.
//
// A page has for each KV head its keys, [page / 16] panels of dim terms, then its values, [dim / 16] panels of page terms; keys and values
// are each of a kind. Behind all heads' panels lie the scales of what has 8 bits: for each KV head fp16 [page] of its keys, then of its
// values. A scale is written with its token and never changes, so pages are shared, copied and moved as bytes.
//
// The codes of both 8-bit kinds are exact in bf16. So a page's panels become bf16 ones, one head's at a time and in the first cache, and
// are multiplied as those are; what a token's scale does comes to its score or to its weight. Only tier 0 has something better for int8:
// 16-bit rows times codes, fewer instructions than bf16 takes there.

#pragma once

enum Kind { BF16 = 0, INT8 = 1, FP8 = 2 };  // FP8: e4m3 (1 sign, 4 exponent, 3 mantissa bits; bias 7, no infinities)

// How attention's tensors lie. dim is a multiple of 16 up to 256; page a power of two from 16 to 256.
struct Shape {
    int32_t heads, kv_heads, dim, page, keys, values;  // keys, values: kinds
    int64_t page_bytes;                                // from one page to the next

    size_t key_bytes() const { return (size_t)page * dim * (keys == BF16 ? 2 : 1); }
    size_t value_bytes() const { return (size_t)page * dim * (values == BF16 ? 2 : 1); }
};

namespace {

typedef uint8_t Bytes __attribute__((vector_size(LANES)));
typedef uint32_t Words __attribute__((vector_size(LANES * 4)));

// One KV head of one page; scales are null where the kind has none.
struct Head {
    uint8_t *keys, *values;
    uint16_t *key_scales, *value_scales;
};

Head head_of(const Shape& shape, uint8_t* kv, int64_t page, int head) {
    uint8_t* base = kv + page * shape.page_bytes;
    uint8_t* keys = base + head * (shape.key_bytes() + shape.value_bytes());
    const int scaled = (shape.keys != BF16) + (shape.values != BF16);
    uint16_t* scales = (uint16_t*)(base + shape.kv_heads * (shape.key_bytes() + shape.value_bytes())) + (size_t)head * scaled * shape.page;
    return {keys, keys + shape.key_bytes(), shape.keys == BF16 ? nullptr : scales, shape.values == BF16 ? nullptr : scales + (scaled - 1) * shape.page};
}

void load_scales(const uint16_t* halves, int count, float* to) {
    for (int i = 0; i < count; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(halves + i))));
}

// ---- Codes -------------------------------------------------------------------------------------------------------------------------

constexpr float MOST_INT8 = 127, MOST_FP8 = 448;
constexpr float LEAST_SCALE = 6.103515625e-5f, MOST_SCALE = 65504;  // normal fp16

// |x| <= 127 to the nearest, ties to even: adding 1.5 * 2^23 leaves the integer in the low bits.
Integers int8_codes(Vector x) {
    const Vector rounder = splat(12582912.0f);
    return (Integers)(x + rounder) - (Integers)rounder;
}

// |x| <= 448 to the nearest, ties to even.
Integers fp8_codes(Vector x) {
    const Words bits = (Words)x, magnitude = bits & 0x7fffffff;
    // Normal: 20 of 23 mantissa bits are rounded away (a carry goes into the exponent, as it should), the bias 127 becomes 7.
    const Words normal = ((magnitude + 0x7ffff + ((magnitude >> 20) & 1)) >> 20) - (120 << 3);
    // Below 2^-6 codes are multiples of 2^-9, which is the last bit of an fp32 at 2^14: the addition rounds.
    const Words subnormal = (Words)((Vector)magnitude + 16384.0f) & 0xf;
    const Integers small = (Vector)magnitude < splat(0.015625f);
    return (Integers)((((Words)small & subnormal) | (~(Words)small & normal)) | ((bits >> 24) & 0x80));
}

// A token's row of one head as codes; returns its scale, by which the greatest magnitude is the greatest code. NaN counts as 0.
uint16_t encode(const float* x, int dim, int kind, uint8_t* codes) {
    const float most_code = kind == INT8 ? MOST_INT8 : MOST_FP8;
    Vector most = {};
    for (int d = 0; d < dim; d += LANES) {
        const Vector v = select(load(x + d) == load(x + d), load(x + d), splat(0.0f));
        most = largest(most, largest(v, -v));
    }
    const float wanted = largest_lane(most) * (1.0f / most_code);
    const uint16_t scale = _cvtss_sh(wanted < LEAST_SCALE ? LEAST_SCALE : wanted > MOST_SCALE ? MOST_SCALE : wanted, 0);
    const Vector inverse = splat(1.0f / _cvtsh_ss(scale)), bound = splat(most_code);
    for (int d = 0; d < dim; d += LANES) {
        const Vector scaled = select(load(x + d) == load(x + d), load(x + d), splat(0.0f)) * inverse;
        const Vector v = select(scaled > bound, bound, select(scaled < -bound, -bound, scaled));
        const Bytes some = __builtin_convertvector(kind == INT8 ? int8_codes(v) : fp8_codes(v), Bytes);
        memcpy(codes + d, &some, sizeof some);
    }
    return scale;
}

// 16 codes as bf16.
__m256i widened_int8(__m128i codes) {
    const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)), high = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(codes, codes)));
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(_mm256_castps_si256(low), 16), _mm256_srli_epi32(_mm256_castps_si256(high), 16));
    return _mm256_permute4x64_epi64(packed, 0xd8);
}

__m256i widened_fp8(__m128i codes) {
    const __m256i wide = _mm256_cvtepu8_epi16(codes), magnitude = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
    const __m256i normal = _mm256_add_epi16(_mm256_slli_epi16(magnitude, 4), _mm256_set1_epi16(120 << 7));  // the bias 7 becomes 127
    // Subnormal, m * 2^-9 for m < 8, from a table: bytes 2m and 2m + 1.
    const __m256i table = _mm256_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60, 0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60);
    const __m256i subnormal = _mm256_shuffle_epi8(table, _mm256_add_epi16(_mm256_mullo_epi16(magnitude, _mm256_set1_epi16(0x0202)), _mm256_set1_epi16(0x0100)));
    const __m256i value = _mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi16(_mm256_set1_epi16(8), magnitude));
    return _mm256_or_si256(value, _mm256_slli_epi16(_mm256_sub_epi16(wide, magnitude), 8));
}

// `panels` panels of codes as bf16: the first `used` of each panel's `elements`.
template <int KIND>
void decode(const uint8_t* codes, int panels, size_t elements, size_t used, bf16* to) {
    for (int panel = 0; panel < panels; panel++)
        for (size_t i = panel * elements; i < panel * elements + used; i += 16) {
            const __m128i some = _mm_loadu_si128((const __m128i*)(codes + i));
            _mm256_storeu_si256((__m256i*)(to + i), KIND == INT8 ? widened_int8(some) : widened_fp8(some));
        }
}

// ---- The write of a token ------------------------------------------------------------------------------------------------------------

// What is stored stays finite: a page is read up to its end, and nothing that a zero weight hides may become NaN there.
bf16 finite(float x) {
    constexpr float MOST = 3.3895313892515355e38f;  // the greatest bf16
    return x != x ? 0 : to_bf16(x > MOST ? MOST : x < -MOST ? -MOST : x);
}

template <class T>
void place_key(const T* row, int offset, int dim, T* keys) {
    keys += (size_t)(offset / WIDTH) * dim * WIDTH + 2 * (offset % WIDTH);
    for (int d = 0; d < dim; d++) keys[d / 2 * 2 * WIDTH + d % 2] = row[d];
}

template <class T>
void place_value(const T* row, int offset, int dim, int page, T* values) {
    values += offset / 2 * 2 * WIDTH + offset % 2;
    for (int d = 0; d < dim; d++) values[(size_t)(d / WIDTH) * page * WIDTH + 2 * (d % WIDTH)] = row[d];
}

// Key and value [dim] of one head into slot `offset` of its page.
void write_token(const Shape& shape, const Head& head, int offset, const float* key, const float* value) {
    const int dim = shape.dim;
    bf16 wide[256];
    uint8_t codes[256];
    if (shape.keys == BF16) {
        for (int d = 0; d < dim; d++) wide[d] = finite(key[d]);
        place_key(wide, offset, dim, (bf16*)head.keys);
    } else {
        head.key_scales[offset] = encode(key, dim, shape.keys, codes);
        place_key(codes, offset, dim, head.keys);
    }
    if (shape.values == BF16) {
        for (int d = 0; d < dim; d++) wide[d] = finite(value[d]);
        place_value(wide, offset, dim, shape.page, (bf16*)head.values);
    } else {
        head.value_scales[offset] = encode(value, dim, shape.values, codes);
        place_value(codes, offset, dim, shape.page, head.values);
    }
}

}  // namespace
