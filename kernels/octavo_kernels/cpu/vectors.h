// Vectors of a tier's width and what is computed with them: loads, masks, sums, 2^x, SiLU, the rounding to bf16. Included first.
// Activations are fp32, so this is most of what is not a product.

#pragma once

namespace {

typedef uint16_t bf16;

// A vector of a tier's width; gcc and clang turn arithmetic on it into the tier's instructions.
constexpr int LANES = OCTAVO_TIER ? 16 : 8;
typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef int32_t Integers __attribute__((vector_size(LANES * 4)));
typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));

Vector load(const float* from) { Vector v; memcpy(&v, from, sizeof v); return v; }
void store(float* to, Vector v) { memcpy(to, &v, sizeof v); }
Vector splat(float x) { return Vector{} + x; }
Vector select(Integers mask, Vector yes, Vector no) { return (Vector)((mask & (Integers)yes) | (~mask & (Integers)no)); }
Vector largest(Vector a, Vector b) { return select(a > b, a, b); }

bool any(Integers mask) {
    uint64_t words[LANES / 2], found = 0;
    memcpy(words, &mask, sizeof words);
    for (int i = 0; i < LANES / 2; i++) found |= words[i];
    return found;
}

float sum(Vector v) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += v[i];
    return total;
}

float largest_lane(Vector v) {
    float best = v[0];
    for (int i = 1; i < LANES; i++) best = v[i] > best ? v[i] : best;
    return best;
}

// 2^x to 2 units in the last place, 0 below 2^-126. x = n + f with |f| <= 1/2; a polynomial for 2^f, n goes into the exponent's bits.
Vector exp2v(Vector x) {
    const Vector rounder = splat(12582912.0f);  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
    const Integers tiny = x < splat(-126.0f);
    const Vector bounded = select(x > splat(127.0f), splat(127.0f), select(tiny, splat(-126.0f), x));
    const Vector shifted = bounded + rounder;
    const Vector f = bounded - (shifted - rounder);
    Vector p = splat(1.5403530394e-4f);  // ln(2)^k / k!
    p = p * f + 1.3333558146e-3f;
    p = p * f + 9.6181291076e-3f;
    p = p * f + 5.5504108665e-2f;
    p = p * f + 2.4022650696e-1f;
    p = p * f + 6.9314718056e-1f;
    p = p * f + 1.0f;
    const Vector scaled = (Vector)((Integers)p + (((Integers)shifted - (Integers)rounder) << 23));
    return select(tiny, splat(0.0f), scaled);
}

constexpr float LOG2_E = 1.4426950408889634f;
Vector silu(Vector x) { return x / (1.0f + exp2v(x * -LOG2_E)); }

// Nearest bf16, ties to even. What is not finite stays so.
Halves to_bf16(Vector v) {
    typedef uint32_t Words __attribute__((vector_size(LANES * 4)));
    const Words bits = (Words)v;
    const Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Integers nan = v != v;
    return __builtin_convertvector((Words)((Integers)rounded & ~nan) | ((Words)nan & 0x7fc0), Halves);
}

bf16 to_bf16(float x) { return to_bf16(splat(x))[0]; }

float to_float(bf16 x) {
    const uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

// Bring what is needed soon from memory, while something else is computed.
void fetch(const void* from, size_t bytes) {
    for (size_t line = 0; line < bytes; line += 64) _mm_prefetch((const char*)from + line, _MM_HINT_T1);
}

}  // namespace
