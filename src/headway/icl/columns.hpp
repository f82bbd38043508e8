// What touches every token of a block: sums over columns, and the exponential.
//
// For one or two heads at a time, which then share what is loaded; for any number of columns, in pieces whose
// coefficients or sums stay in registers (16, or 32 with AVX-512).
#pragma once
#include "lanes.hpp"

namespace HEADWAY_SET {

constexpr int HEADS = 2;
constexpr int COLUMNS = W == 16 ? 8 : 6;

struct Tokens {
    const Float* z;
    int64_t length, width;
    Tokens from(int64_t column) const { return {z + column, length, width}; }
};

// finish(head, i, u_head . z_i) for every token i; so_far: the sums over earlier columns, where there are any.
template <int G, int C, bool onwards, class Finish>
static inline void dots_of(Tokens t, const Float* u, const Float* so_far, Finish finish) {
    Float column[G][C];
    for (int g = 0; g < G; g++)
        for (int c = 0; c < C; c++) column[g][c] = u[g * t.width + c];
    const Float* z = t.z;
    for (int64_t i = 0; i < t.length; i++, z += t.width)
        for (int g = 0; g < G; g++) {
            Float sum = onwards ? so_far[g * t.length + i] : same(0.0f);
            for (int c = 0; c < C; c++) sum += column[g][c] * z[c];
            finish(g, i, sum);
        }
}

template <int G, class Finish>
static inline void dots(Tokens t, const Float* u, Float* room, Finish finish) {
    if (t.width <= COLUMNS)
        return with_constant<COLUMNS>(t.width, [&](auto n) { dots_of<G, n.value, false>(t, u, nullptr, finish); });
    const auto keep = [&](int g, int64_t i, Float sum) { room[g * t.length + i] = sum; };
    dots_of<G, COLUMNS, false>(t, u, nullptr, keep);
    int64_t c = COLUMNS;
    for (; t.width - c > COLUMNS; c += COLUMNS) dots_of<G, COLUMNS, true>(t.from(c), u + c, room, keep);
    with_constant<COLUMNS>(t.width - c, [&](auto n) { dots_of<G, n.value, true>(t.from(c), u + c, room, finish); });
}

template <int G, int C>
static inline void sums_of(Tokens t, const Float* weight, Float* out) {
    constexpr int CHAINS = G * C < 4 ? 4 : G * C < 8 ? 2 : 1;  // 8 independent sums keep the multipliers busy
    Float sum[CHAINS][G][C] = {};
    const Float* z = t.z;
    int64_t i = 0;
    for (; i + CHAINS <= t.length; i += CHAINS)
        for (int chain = 0; chain < CHAINS; chain++, z += t.width)
            for (int g = 0; g < G; g++)
                for (int c = 0; c < C; c++) sum[chain][g][c] += weight[g * t.length + i + chain] * z[c];
    for (; i < t.length; i++, z += t.width)
        for (int g = 0; g < G; g++)
            for (int c = 0; c < C; c++) sum[0][g][c] += weight[g * t.length + i] * z[c];
    for (int g = 0; g < G; g++)
        for (int c = 0; c < C; c++) {
            Float all = sum[0][g][c];
            for (int chain = 1; chain < CHAINS; chain++) all += sum[chain][g][c];
            out[g * t.width + c] = all;
        }
}

// out_head = the sum over tokens of weight_(head, i) z_i.
template <int G>
static inline void sums(Tokens t, const Float* weight, Float* out) {
    for (int64_t c = 0; c < t.width; c += COLUMNS)
        with_constant<COLUMNS>(t.width - c, [&](auto n) { sums_of<G, n.value>(t.from(c), weight, out + c); });
}

// 2^x for x <= 0. Below 2^-92, which adds nothing to a sum that holds a 1, it stays there: nothing underflows.
static inline Float exp2_of(Float x) {
    x = larger(same(-92.0f), x);  // NaN stays NaN
    const Float shifted = x + 12582912.0f, f = x - (shifted - 12582912.0f);
    const Float f2 = f * f;
    const Float high = f * 0.0013276472454890609f + 0.009675540961325169f;
    const Float middle = f * 0.05550713092088699f + 0.24022120237350464f;
    const Float low = f * 0.6931469440460205f + 1.0f;
    const Float value = (high * f2 + middle) * f2 + low;
    return bits<Float>(bits<Int>(value) + (bits<Int>(shifted) << 23));
}

}  // namespace HEADWAY_SET
