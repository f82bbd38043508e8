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

// Box-Muller, PAIRS times: a word for the radius and a word for the angle make two normals. Several at a time, written
// out side by side, since one alone is a long chain of operations that leaves the machine waiting.
#define EACH for (int i = 0; i < PAIRS; i++)

static inline void normals(Generator& generator, Float* out) {
    Word sign[PAIRS];
    Float f[PAIRS], log[PAIRS], radius[PAIRS], q[PAIRS], q2[PAIRS], sine[PAIRS], cosine[PAIRS];
    EACH {
        const Word u = bits<Word>(to_float(bits<Int>(generator.next() | 1)));
        q[i] = to_float(bits<Int>(generator.next())) * 0x1p-31f;
        sign[i] = u & 0x80000000u;
        const Int k = bits<Int>(u & 0x7fffffffu) - (0x3f3504f3 + (31 << 23));
        radius[i] = to_float(k >> 23) * -1.3862943649291992f;
        f[i] = bits<Float>((k & 0x7fffff) + 0x3f3504f3) - 1.0f;
    }
    EACH log[i] = f[i] * 0.28584155440330505f + -0.4411188066005707f;
    EACH log[i] = log[i] * f[i] + 0.508065402507782f;
    EACH log[i] = log[i] * f[i] + -0.6651604771614075f;
    EACH log[i] = log[i] * f[i] + 0.9998043775558472f;
    EACH log[i] = log[i] * f[i] + -2.000009059906006f;
    EACH radius[i] = root(f[i] * log[i] + radius[i]);
    EACH radius[i] = bits<Float>(bits<Word>(radius[i]) ^ sign[i]);
    EACH q2[i] = q[i] * q[i];
    EACH sine[i] = q2[i] * -0.004362468607723713f + 0.07948765158653259f;
    EACH cosine[i] = q2[i] * -0.019095733761787415f + 0.2525802254676819f;
    EACH sine[i] = sine[i] * q2[i] + -0.645920991897583f;
    EACH cosine[i] = cosine[i] * q2[i] + -1.2334845066070557f;
    EACH sine[i] = sine[i] * q2[i] + 1.5707948207855225f;
    EACH cosine[i] = cosine[i] * q2[i] + 0.9999933242797852f;
    EACH sine[i] = q[i] * sine[i];
    EACH out[2 * i] = radius[i] * cosine[i];
    EACH out[2 * i + 1] = radius[i] * sine[i];
}

static void draw_normals(const Task& task, uint64_t key, uint32_t step, uint32_t first, Float* block) {
    Generator generator(key, step, first);
    const int64_t rows = task.rows();
    for (int64_t row = 0; row < rows; row += 2 * PAIRS) normals(generator, block + row);
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

}  // namespace HEADWAY_SET

using namespace HEADWAY_SET;

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
    Float sum = same(0);
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
