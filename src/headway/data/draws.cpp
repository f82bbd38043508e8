// Drawing prompts, natively: the operations of `regression.py`, in its order, so that the bits are the same on every
// machine. It must be compiled with -ffp-contract=off: a fused multiply-add rounds once where the definition rounds twice.
#include "draws.hpp"

#include <cstdlib>

namespace HEADWAY_SET {

template <int by>
static inline Word rotated(Word x) {
    return x << by | x >> (32 - by);
}

struct Generator {  // xoshiro128+ (Blackman and Vigna 2021), one in each lane
    Word s0, s1, s2, s3;

    // Six ChaCha quarter rounds over (key, step, example).
    Generator(uint64_t key, uint32_t step, uint32_t first) {
        Word lane;
        for (int l = 0; l < W; l++) lane[l] = l;
        Word a = words(0x61707865 ^ uint32_t(key)), b = words(0x3320646e ^ uint32_t(key >> 32));
        Word c = words(0x79622d32 ^ step), d = 0x6b206574 ^ (first + lane);
        for (int round = 0; round < 6; round++) {
            a += b, d = rotated<16>(d ^ a);
            c += d, b = rotated<12>(b ^ c);
            a += b, d = rotated<8>(d ^ a);
            c += d, b = rotated<7>(b ^ c);
        }
        s0 = a, s1 = b, s2 = c, s3 = d;
    }

    Word next() {
        const Word word = s0 + s3, shifted = s1 << 9;
        s2 ^= s0, s3 ^= s1, s1 ^= s2, s0 ^= s3, s2 ^= shifted;
        s3 = rotated<11>(s3);
        return word;
    }
};

// Box-Muller: one word for the radius, one for the angle.
static inline void normal_pair(Word radius_bits, Word angle_bits, Float* out) {
    const Int k = bits<Int>(to_float(bits<Int>(radius_bits >> 1)) + 0.5f) - 0x3f3504f3;
    const Float exponent = to_float((k >> 23) - 31);
    const Float f = bits<Float>((k & 0x7fffff) + 0x3f3504f3) - 1.0f;
    Float log = f * -0.23792220652103424f + 0.3733571767807007f;
    log = log * f + -0.4099265933036804f;
    log = log * f + 0.4981948733329773f;
    log = log * f + -0.6662901639938354f;
    log = log * f + 1.000022292137146f;
    log = log * f + -2.000001907348633f;
    Float radius = root(f * log + exponent * -1.3862943649291992f);
    radius = bits<Float>(bits<Word>(radius) ^ (angle_bits & 0x80000000u));
    const Float q = to_float(bits<Int>(angle_bits << 1)) * 0x1p-31f;
    const Float q2 = q * q;
    Float sine = q2 * -0.004362468607723713f + 0.07948765158653259f;
    sine = sine * q2 + -0.645920991897583f;
    sine = sine * q2 + 1.5707948207855225f;
    Float cosine = q2 * 0.0008581905858591199f + -0.020810628309845924f;
    cosine = cosine * q2 + 0.2536507546901703f;
    cosine = cosine * q2 + -1.2336982488632202f;
    cosine = cosine * q2 + 0.9999999403953552f;
    out[0] = radius * cosine;
    out[1] = radius * (q * sine);
}

static void draw_normals(const Task& task, uint64_t key, uint32_t step, uint32_t first, Float* block) {
    Generator generator(key, step, first);
    const int64_t rows = task.rows();
    for (int64_t row = 0; row < rows; row += 2) {
        const Word radius_bits = generator.next(), angle_bits = generator.next();
        normal_pair(radius_bits, angle_bits, block + row);
    }
}

static void correlate(const Task& task, Float* token) {
    for (int64_t j = task.d_x - 1; j >= 0; j--) {  // from the last, since x_j is made of n_0 ... n_j
        Float x = task.cholesky[j * task.d_x] * token[0];
        for (int64_t k = 1; k <= j; k++) x = x + task.cholesky[j * task.d_x + k] * token[k];
        token[j] = x;
    }
}

void draw_block(const Task& task, uint64_t key, uint32_t step, uint32_t first, Float* block) {
    draw_normals(task, key, step, first, block);
    for (int64_t row = 0; row < task.query_row(); row++) block[row] = task.beta[row] * block[row];
    for (int64_t t = 0; t <= task.n_pairs; t++) {
        Float* token = block + task.query_row() + t * task.d_token();
        if (task.cholesky) correlate(task, token);
        for (int64_t k = 0; k < task.d_y; k++) {
            const Float* beta = block + k * task.d_x;
            Float y = beta[0] * token[0];
            for (int64_t j = 1; j < task.d_x; j++) y = y + beta[j] * token[j];
            token[task.d_x + k] = y + (t ? task.noise : task.query_noise) * token[task.d_x + k];
        }
    }
}

}  // namespace HEADWAY_SET

using namespace HEADWAY_SET;

#define JOIN(a, b) a##_##b
#define NAME(a, b) JOIN(a, b)
#define EXPORT(name) extern "C" __attribute__((visibility("default"))) auto NAME(headway_##name, HEADWAY_SET)
