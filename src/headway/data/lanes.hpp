// Vector lanes: W floats side by side, by the compiler's vector extensions. What those lack (square root, maximum)
// comes from intrinsics on x86 and from plain loops elsewhere.
//
// Each body of the library (base, avx2, avx512) is this same code in a namespace of its own, HEADWAY_SET, compiled with
// its own flags. Nothing here may come from the C++ library's templates: the linker would keep one copy of each for all
// bodies, possibly one that this machine cannot run.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace HEADWAY_SET {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float Float __attribute__((vector_size(4 * W)));
typedef int32_t Int __attribute__((vector_size(4 * W)));
typedef uint32_t Word __attribute__((vector_size(4 * W)));

static inline Float same(float x) { return Float{} + x; }
static inline Word same(uint32_t x) { return Word{} + x; }
static inline Float to_float(Int x) { return __builtin_convertvector(x, Float); }

// The bits of a vector as a vector of another type.
template <class To, class From>
static inline To bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "a vector keeps its size");
    return (To)x;
}

// The larger of a and b, lane by lane; b where either is NaN.
static inline Float larger(Float a, Float b) {
#if defined(__AVX512F__)
    return (Float)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (Float)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (Float)_mm_max_ps((__m128)a, (__m128)b);
#else
    for (int l = 0; l < W; l++) b[l] = a[l] > b[l] ? a[l] : b[l];
    return b;
#endif
}

static inline Float root(Float x) {
#if defined(__AVX512F__)
    return (Float)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (Float)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
    return (Float)_mm_sqrt_ps((__m128)x);
#else
    for (int l = 0; l < W; l++) x[l] = sqrtf(x[l]);
    return x;
#endif
}

// The sum of all lanes.
static inline float total(Float x) {
    typedef float Four __attribute__((vector_size(16)));
    Four quarters[W / 4];
    memcpy(quarters, &x, sizeof x);
    for (int n = W / 8; n; n /= 2)
        for (int i = 0; i < n; i++) quarters[i] += quarters[i + n];
    const Four sum = quarters[0];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

template <int n>
struct Constant {
    static constexpr int value = n;
};

// body(Constant<n>()), n between 1 and most: loops over a constant unroll and stay in registers. A larger n is `most`.
template <int most, class Body>
static inline void with_constant(int64_t n, Body body) {
    if constexpr (most > 1)
        if (n < most) return with_constant<most - 1>(n, body);
    body(Constant<most>());
}

// Zeroed room for n values, aligned for vectors.
template <class T>
struct Room {
    T* data = nullptr;

    explicit Room(int64_t n) {
        const size_t bytes = size_t(n) * sizeof(T);
        if (posix_memalign(reinterpret_cast<void**>(&data), 64, bytes)) abort();
        memset(static_cast<void*>(data), 0, bytes);
    }
    ~Room() { free(data); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
};

}  // namespace HEADWAY_SET

// A function that Python calls: headway_NAME_SET.
#define HEADWAY_JOIN(name, set) headway_##name##_##set
#define HEADWAY_NAME(name, set) HEADWAY_JOIN(name, set)
#define EXPORT(result, name) \
    extern "C" __attribute__((visibility("default"))) result HEADWAY_NAME(name, HEADWAY_SET)
