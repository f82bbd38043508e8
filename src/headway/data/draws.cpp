// Drawing prompts, natively: the operations of `regression.py`, in its order, so that the bits are the same on every
// machine. It must be compiled with -ffp-contract=off: a fused multiply-add rounds once where the definition rounds twice.
#include "draws.hpp"

namespace HEADWAY_SET {

template <int by>
static inline Word rotated(Word x) {
    return x << by | x >> (32 - by);
}

struct Generator {  // xoshiro128+ (Blackman and Vigna 2021), one in each lane
    Word s0, s1, s2, s3;

    // Six ChaCha quarter rounds over (key, step, example).
    Generator(uint64_t key, uint32_t step, uint32_t first) {
        Word lane = {};
        for (int l = 0; l < W; l++) lane[l] = l;
        Word a = same(0x61707865 ^ uint32_t(key)), b = same(0x3320646e ^ uint32_t(key >> 32));
        Word c = same(0x79622d32 ^ step), d = 0x6b206574 ^ (first + lane);
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

// Box-Muller in three parts, each a chain of operations: two words of the generator, the square of the radius, the two
// normals. `draw_normals` works on three pairs at once, one in each part, so that no chain is waited for.
struct Words {
    Float f, exponent, angle;  // u = (1 + f) 2^exponent, exponent already times -2 log 2; angle in units of pi/2
    Word sign;
};

struct Polar {
    Float squared, angle;
    Word sign;
};

static inline Words words_of(Generator& generator) {
    const Word u = bits<Word>(to_float(bits<Int>(generator.next() | 1)));
    const Float angle = to_float(bits<Int>(generator.next())) * 0x1p-31f;
    const Int k = bits<Int>(u & 0x7fffffffu) - (0x3f3504f3 + (31 << 23));
    const Float exponent = to_float(k >> 23) * -1.3862943649291992f;
    const Float f = bits<Float>((k & 0x7fffff) + 0x3f3504f3) - 1.0f;
    return {f, exponent, angle, u & 0x80000000u};
}

static inline Polar polar(const Words& words) {
    const Float f = words.f, f2 = f * f;
    const Float high = f * 0.28584155440330505f + -0.4411188066005707f;
    const Float middle = f * 0.508065402507782f + -0.6651604771614075f;
    const Float low = f * 0.9998043775558472f + -2.000009059906006f;
    return {f * ((high * f2 + middle) * f2 + low) + words.exponent, words.angle, words.sign};
}

static inline void normals(const Polar& polar, Float* out) {
    const Float radius = bits<Float>(bits<Word>(root(polar.squared)) ^ polar.sign), q = polar.angle, q2 = q * q;
    Float sine = q2 * -0.004362468607723713f + 0.07948765158653259f;
    Float cosine = q2 * -0.019095733761787415f + 0.2525802254676819f;
    sine = sine * q2 + -0.645920991897583f;
    cosine = cosine * q2 + -1.2334845066070557f;
    sine = sine * q2 + 1.5707948207855225f;
    cosine = cosine * q2 + 0.9999933242797852f;
    out[0] = radius * cosine;
    out[1] = radius * (q * sine);
}

static void draw_normals(const Task& task, uint64_t key, uint32_t step, uint32_t first, Float* block) {
    Generator generator(key, step, first);
    Polar now = polar(words_of(generator));
    Words words = words_of(generator);
    const int64_t rows = task.rows();
    for (int64_t row = 0; row < rows; row += 2) {
        const Words after_next = words_of(generator);
        const Polar next = polar(words);
        normals(now, block + row);
        now = next;
        words = after_next;
    }
}

static void correlate(const Task& task, Float* token) {
    for (int64_t j = task.d_x - 1; j >= 0; j--) {  // from the last, since x_j is made of n_0 ... n_j
        Float x = task.cholesky[j * task.d_x] * token[0];
        for (int64_t k = 1; k <= j; k++) x = x + task.cholesky[j * task.d_x + k] * token[k];
        token[j] = x;
    }
}

// Output k of every token, y = beta . x + noise, coordinates in order; C is d_x, or what of it stays in registers.
template <int C>
static inline void respond(const Task& task, Float* block, int64_t k) {
    Float beta[C];
    for (int j = 0; j < C; j++) beta[j] = block[k * task.d_x + j];
    Float* x = block + task.query_row();
    for (int64_t t = 0; t <= task.n_pairs; t++, x += task.d_token()) {
        Float y = beta[0] * x[0];
        for (int j = 1; j < C; j++) y = y + beta[j] * x[j];
        for (int64_t j = C; j < task.d_x; j++) y = y + block[k * task.d_x + j] * x[j];
        x[task.d_x + k] = y + (t ? task.noise : task.query_noise) * x[task.d_x + k];
    }
}

void draw_block(const Task& task, uint64_t key, uint32_t step, uint32_t first, Float* block) {
    draw_normals(task, key, step, first, block);
    for (int64_t row = 0; row < task.query_row(); row++) block[row] = task.beta[row] * block[row];
    Float* query = block + task.query_row();
    for (int64_t t = 0; task.cholesky && t <= task.n_pairs; t++) correlate(task, query + t * task.d_token());
    for (int64_t k = 0; k < task.d_y; k++)
        with_constant<8>(task.d_x, [&](auto n) { respond<n.value>(task, block, k); });
}

EXPORT(void, draw)
(const Task* task, uint64_t key, uint32_t step, int64_t batch_size, float* x, float* y, float* x_query, float* y_query,
 float* beta) {
    const int64_t d_x = task->d_x, d_y = task->d_y;
    Room<Float> block(task->room());
    for (int64_t first = 0; first < batch_size; first += W) {
        draw_block(*task, key, step, uint32_t(first), block.data);
        const int filled = batch_size - first < W ? int(batch_size - first) : W;
        for (int l = 0; l < filled; l++) {
            const float* lane = reinterpret_cast<const float*>(block.data) + l;
            for (int64_t i = 0; i < d_x * d_y; i++, lane += W) *beta++ = *lane;
            for (int64_t j = 0; j < d_x; j++, lane += W) *x_query++ = *lane;
            for (int64_t k = 0; k < d_y; k++, lane += W) *y_query++ = *lane;
            for (int64_t i = 0; i < task->n_pairs; i++) {
                for (int64_t j = 0; j < d_x; j++, lane += W) *x++ = *lane;
                for (int64_t k = 0; k < d_y; k++, lane += W) *y++ = *lane;
            }
        }
    }
}

EXPORT(float, draw_only)
(const Task* task, uint64_t key, int64_t batch_size, int64_t steps) {
    Room<Float> block(task->room());
    Float sum = same(0.0f);
    for (int64_t step = 1; step <= steps; step++)
        for (int64_t first = 0; first < batch_size; first += W) {
            draw_normals(*task, key, uint32_t(step), uint32_t(first), block.data);
            sum += block.data[0];
        }
    return float(total(sum));
}

#if defined(HEADWAY_ONCE)
// Whether this machine runs an instruction set; compiled once, with the flags of base, so that it runs anywhere.
extern "C" __attribute__((visibility("default"))) int headway_supports(const char* instruction_set) {
    if (!strcmp(instruction_set, "base")) return 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!strcmp(instruction_set, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!strcmp(instruction_set, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return 0;
}
#endif

}  // namespace HEADWAY_SET
