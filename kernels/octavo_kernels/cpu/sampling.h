// What is drawn from logits: a token by noise that its seed and position give, or the greatest in order for a sampler that cuts them off.

#pragma once

namespace {

// Philox-4x32-10 of four counters (block, position, 0, 0) at once, each 32-bit word in a lane of 64 bits (philox.py has the source).
void philox(__m256i block, uint32_t position, uint64_t seed, __m256i words[4]) {
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57), low = _mm256_set1_epi64x(0xffffffff);
    __m256i c0 = block, c1 = _mm256_set1_epi64x(position), c2 = _mm256_setzero_si256(), c3 = c2;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        const __m256i first = _mm256_mul_epu32(c0, m0), second = _mm256_mul_epu32(c2, m1);
        c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(second, 32), c1), _mm256_set1_epi64x(k0));
        c1 = _mm256_and_si256(second, low);
        c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(first, 32), c3), _mm256_set1_epi64x(k1));
        c3 = _mm256_and_si256(first, low);
    }
    words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

// The upper 24 bits of the noise's word for each of `count` ids, a multiple of 16, from 0.
void uniform_bits(uint32_t position, uint64_t seed, int count, int32_t* bits) {
    for (int id = 0; id < count; id += 16) {
        __m256i words[4];
        philox(_mm256_set_epi64x(id / 4 + 3, id / 4 + 2, id / 4 + 1, id / 4), position, seed, words);
        for (int word = 0; word < 4; word++) {
            alignas(32) uint64_t lanes[4];
            _mm256_store_si256((__m256i*)lanes, _mm256_srli_epi64(words[word], 8));
            for (int lane = 0; lane < 4; lane++) bits[id + 4 * lane + word] = (int32_t)lanes[lane];
        }
    }
}

// ln x of positive normal x to 1e-6: x = 2^e * m, ln m = 2 artanh((m - 1) / (m + 1)).
Vector logv(Vector x) {
    const Integers bits = (Integers)x - 0x3f3504f3;  // of sqrt(1/2)
    const Vector m = (Vector)((bits & 0x007fffff) + 0x3f3504f3), s = (m - 1.0f) / (m + 1.0f), q = s * s;
    return __builtin_convertvector(bits >> 23, Vector) * 0.69314718f + 2.0f * s * (1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q / 7.0f)));
}

// -ln(-ln u) to 1e-4, u = (bits + 1/2) / 2^24. Near 1, ln u is taken from 1 - u, which fp32 holds.
Vector roughly_gumbel(Integers bits) {
    constexpr float UNIT = 1.0f / (1 << 24);
    const Vector u = (__builtin_convertvector(bits, Vector) + 0.5f) * UNIT;
    const Vector v = (__builtin_convertvector((1 << 24) - 1 - bits, Vector) + 0.5f) * UNIT;
    const Vector s = v / (2.0f - v), q = s * s;
    const Vector near = 2.0f * s * (1.0f + q * (1.0f / 3 + q * (1.0f / 5 + q * (1.0f / 7 + q / 9.0f))));
    return -logv(select(u < splat(0.5f), -logv(u), near));
}

// As philox.py's `gumbel`: in fp64, rounded once.
float gumbel(int32_t bits) { return (float)-log(-log((bits + 0.5) / (1 << 24))); }

// argmax of logits / temperature + noise: roughly over all, then exactly among those that the rough sum cannot tell from the greatest.
int64_t draw(const float* logits, int vocab, float temperature, uint64_t seed, uint32_t position) {
    constexpr float DOUBT = 1e-3f;
    const int padded = over(vocab, 16) * 16;
    int32_t* bits = own.get<int32_t>(2 * (size_t)padded);
    float* rough = (float*)(bits + padded);
    uniform_bits(position, seed, padded, bits);
    memcpy(rough, logits, vocab * sizeof(float));
    for (int i = vocab; i < padded; i++) rough[i] = -INFINITY;
    Vector most = splat(-INFINITY);
    for (int i = 0; i < padded; i += LANES) {
        Integers some;
        memcpy(&some, bits + i, sizeof some);
        const Vector total = load(rough + i) / temperature + roughly_gumbel(some);
        store(rough + i, total);
        most = largest(most, total);
    }
    const float bound = largest_lane(most), doubt = DOUBT + fabsf(bound) * 1e-6f;
    Best best = {-INFINITY, 0};
    for (int i = 0; i < vocab; i++)
        if (rough[i] >= bound - doubt) keep_best(best, logits[i] / temperature + gumbel(bits[i]), i);
    return best.index;
}

// Order of floats as order of integers.
uint32_t order(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

// The `wanted` greatest of a row, greatest first and of equal ones the lower index, into `ids`. A histogram of the upper bits finds
// where they begin, so that only they and their bin's neighbours are sorted.
void rank(const float* row, int vocab, int wanted, int32_t* ids) {
    constexpr int SHIFT = 18, BINS = 1 << (32 - SHIFT);
    int32_t* counts = own.get<int32_t>(BINS + 2 * (size_t)vocab);
    Best* chosen = (Best*)(counts + BINS);
    memset(counts, 0, BINS * sizeof *counts);
    for (int i = 0; i < vocab; i++) counts[order(row[i]) >> SHIFT]++;
    int bin = BINS - 1;
    for (int above = counts[bin]; above < wanted && bin > 0;) above += counts[--bin];
    int found = 0;
    for (int i = 0; i < vocab; i++)
        if ((int)(order(row[i]) >> SHIFT) >= bin) chosen[found++] = {row[i], i};
    std::sort(chosen, chosen + found, [](const Best& a, const Best& b) { return a.value > b.value || (a.value == b.value && a.index < b.index); });
    for (int i = 0; i < wanted; i++) ids[i] = chosen[i].index;
}

// Sum of exp((x - greatest) / temperature) over a row.
double mass(const float* row, int vocab, float greatest, float temperature) {
    const float factor = LOG2_E / temperature;
    double total = 0;
    int i = 0;
    for (; i + LANES <= vocab; i += LANES) total += sum(exp2v((load(row + i) - greatest) * factor));
    for (; i < vocab; i++) total += exp2v(splat((row[i] - greatest) * factor))[0];
    return total;
}

}  // namespace

// A request's draw: with noise of (seed, position) from row `row`.
struct Draw {
    uint64_t seed;
    int32_t row;
    uint32_t position;
    float temperature;
};

// out int64 [count]: the token of each draw from softmax(logits[row] / temperature), logits fp32 [rows, vocab]; banned ids are -inf.
EXPORT void octavo_draw(const float* logits, int vocab, const Draw* draws, int count, int64_t* out) {
    const Turn turn;
    parallel(count, [=](int i, int) {
        out[i] = draw(logits + (size_t)draws[i].row * vocab, vocab, draws[i].temperature, draws[i].seed, draws[i].position);
    });
}

// For each of `count` rows of logits fp32 [rows, vocab] its `wanted` <= vocab greatest, greatest first, into ids int32 [count, wanted],
// and into masses fp64 [count] what softmax(row / temperature) divides by, relative to the greatest.
EXPORT void octavo_rank(const float* logits, int vocab, const int32_t* rows, const float* temperatures, int count, int wanted, int32_t* ids, double* masses) {
    const Turn turn;
    parallel(count, [=](int i, int) {
        const float* row = logits + (size_t)rows[i] * vocab;
        rank(row, vocab, wanted, ids + (size_t)i * wanted);
        masses[i] = mass(row, vocab, row[ids[(size_t)i * wanted]], temperatures[i]);
    });
}
