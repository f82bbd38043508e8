// A whole training step of one-layer attention, natively: draw, forward, backward, optimizer.
//
// Every head is collapsed at the start of a step to its circuits, QK (of which only the d_x columns that meet x_q
// matter, since the query's y is 0) and OV. Prompts lie side by side in the lanes, a block of W at a time, and all that
// touches them is two kinds of sums over columns: of a token (`dots`) and of all tokens (`sums`). The gradients of the
// circuits are pulled back to Q, K, V and O once per step.
#include "draws.hpp"

using namespace HEADWAY_SET;

namespace HEADWAY_SET {

// One run; mirrored by `_Run` of fused.py.
struct Run {
    Task task;
    uint64_t key;
    int64_t batch_size, n_heads, rows_out;  // rows_out: rows of W_O, of which the last d_y are read
    int64_t attention, optimizer;           // enums below
    double learning_rate, momentum, beta1, beta2, eps, weight_decay;
};
enum Attention { softmax, linear_mean, linear_sum };
enum Optimizer { sgd, adam, adamw };

// ---- Sums over columns, for any number of columns, in pieces of at most COLUMNS that stay in registers.

constexpr int COLUMNS = 8;

template <int n>
struct Constant {
    static constexpr int value = n;
};

template <class Body>
static inline void with_constant(int64_t n, Body body) {
    switch (n) {
        case 1: return body(Constant<1>());
        case 2: return body(Constant<2>());
        case 3: return body(Constant<3>());
        case 4: return body(Constant<4>());
        case 5: return body(Constant<5>());
        case 6: return body(Constant<6>());
        case 7: return body(Constant<7>());
        default: return body(Constant<COLUMNS>());
    }
}

struct Tokens {
    const Float* z;
    int64_t length, width;
};

// finish(i, u . z_i) for every token i; so_far: the sums over earlier columns, where there are any.
template <int C, bool onwards, class Finish>
static inline void dots_of(Tokens t, const Float* u, const Float* so_far, Finish finish) {
    Float column[C];
    for (int c = 0; c < C; c++) column[c] = u[c];
    const Float* z = t.z;
    for (int64_t i = 0; i < t.length; i++, z += t.width) {
        Float sum = onwards ? so_far[i] : same(0);
        for (int c = 0; c < C; c++) sum += column[c] * z[c];
        finish(i, sum);
    }
}

template <class Finish>
static inline void dots(Tokens t, const Float* u, Float* room, Finish finish) {
    if (t.width <= COLUMNS)
        return with_constant(t.width, [&](auto n) { dots_of<decltype(n)::value, false>(t, u, nullptr, finish); });
    const auto keep = [&](int64_t i, Float sum) { room[i] = sum; };
    dots_of<COLUMNS, false>(t, u, nullptr, keep);
    int64_t c = COLUMNS;
    for (; t.width - c > COLUMNS; c += COLUMNS)
        dots_of<COLUMNS, true>({t.z + c, t.length, t.width}, u + c, room, keep);
    with_constant(t.width - c, [&](auto n) {
        dots_of<decltype(n)::value, true>({t.z + c, t.length, t.width}, u + c, room, finish);
    });
}

template <int C>
static inline void sums_of(Tokens t, const Float* weight, Float* out) {
    constexpr int CHAINS = C <= 3 ? 4 : C <= 6 ? 2 : 1;  // enough independent sums to keep the multipliers busy
    Float sum[CHAINS][C] = {};
    const Float* z = t.z;
    int64_t i = 0;
    for (; i + CHAINS <= t.length; i += CHAINS)
        for (int chain = 0; chain < CHAINS; chain++, z += t.width)
            for (int c = 0; c < C; c++) sum[chain][c] += weight[i + chain] * z[c];
    for (; i < t.length; i++, z += t.width)
        for (int c = 0; c < C; c++) sum[0][c] += weight[i] * z[c];
    for (int c = 0; c < C; c++) {
        out[c] = sum[0][c];
        for (int chain = 1; chain < CHAINS; chain++) out[c] += sum[chain][c];
    }
}

// out = the sum over tokens of weight_i z_i.
static inline void sums(Tokens t, const Float* weight, Float* out) {
    for (int64_t c = 0; c < t.width; c += COLUMNS)
        with_constant(t.width - c, [&](auto n) {
            sums_of<decltype(n)::value>({t.z + c, t.length, t.width}, weight, out + c);
        });
}

// 2^x for x <= 0. Below 2^-92, which adds nothing to a sum that holds a 1, it stays there: nothing underflows.
static inline Float exp2_of(Float x) {
    x = larger(same(-92), x);  // NaN stays NaN
    const Float shifted = x + 12582912.0f, f = x - (shifted - 12582912.0f);
    Float value = f * 0.0013276472454890609f + 0.009675540961325169f;
    value = value * f + 0.05550713092088699f;
    value = value * f + 0.24022120237350464f;
    value = value * f + 0.6931469440460205f;
    value = value * f + 1.0f;
    return bits<Float>(bits<Int>(value) + (bits<Int>(shifted) << 23));
}

// ---- The model: rows of weights and circuits are padded with zeros to whole vectors.

struct Model {
    const Run& run;
    const int64_t d_x, d_y, width, heads, stride;  // stride: floats in a padded row
    const int64_t square, out, size;               // floats in a head's W_Q, W_K or W_V; in its W_O; in all weights
    Room<Float> weights, gradient, first, second;  // W_Q, W_K, W_V, W_O; first and second: what the optimizer keeps
    Room<Float> qk, ov, d_qk, d_qk_transposed, d_ov;

    static int64_t padded(int64_t n) { return (n + W - 1) / W * W; }

    explicit Model(const Run& r)
        : run(r), d_x(r.task.d_x), d_y(r.task.d_y), width(r.task.d_token()), heads(r.n_heads), stride(padded(width)),
          square(width * stride), out(r.rows_out * stride), size(heads * (3 * square + out)),
          weights(size / W), gradient(size / W), first(size / W), second(size / W),
          qk(heads * square / W), ov(heads * d_y * stride / W),
          d_qk(square / W), d_qk_transposed(square / W), d_ov(d_y * stride / W) {}

    static float* floats(const Room<Float>& room) { return reinterpret_cast<float*>(room.data); }
    int64_t tensor(int which, int64_t head) const { return which * heads * square + head * (which < 3 ? square : out); }
    int64_t read_rows(int64_t head) const { return tensor(3, head) + (run.rows_out - d_y) * stride; }

    // Copies between padded rows and Python's plain ones.
    void load(const Room<Float>& room, const float* plain) const {
        for (float *row = floats(room), *end = row + size; row < end; row += stride, plain += width)
            memcpy(row, plain, width * sizeof(float));
    }
    void store(const Room<Float>& room, float* plain) const {
        for (const float *row = floats(room), *end = row + size; row < end; row += stride, plain += width)
            memcpy(plain, row, width * sizeof(float));
    }

    // out row r = scale * sum over a < n of a_(r, a) * row a of b, with a_(r, a) = a[r * by_row + a * by_term].
    void product(float* to, int64_t rows, const float* a, int64_t by_row, int64_t by_term, int64_t n, const float* b,
                 float scale) const {
        const int64_t vectors = stride / W;
        const Float* b_rows = reinterpret_cast<const Float*>(b);
        Float* to_rows = reinterpret_cast<Float*>(to);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t v = 0; v < vectors; v++) {
                Float sum = same(0);
                for (int64_t t = 0; t < n; t++) sum += a[r * by_row + t * by_term] * b_rows[t * vectors + v];
                to_rows[r * vectors + v] = scale * sum;
            }
    }

    // QK = K^T Q / sqrt(width), for softmax in units of log 2; OV = the rows of O that are read, times V.
    void collapse() {
        const float* w = floats(weights);
        const float scale = float((run.attention == softmax ? 1.4426950408889634 : 1.0) / sqrt(double(width)));
        for (int64_t h = 0; h < heads; h++) {
            product(floats(qk) + h * square, width, w + tensor(1, h), 1, stride, width, w + tensor(0, h), scale);
            product(floats(ov) + h * d_y * stride, d_y, w + read_rows(h), stride, 1, width, w + tensor(2, h), 1);
        }
    }

    // Gradients of Q, K, V and O from those of the circuits, which are sums of lanes.
    void pull_back(const Float* qk_sums, const Float* ov_sums) {
        const float* w = floats(weights);
        float *g = floats(gradient), *dqk = floats(d_qk), *dqk_t = floats(d_qk_transposed), *dov = floats(d_ov);
        const double scale = 1 / sqrt(double(width));
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t r = 0; r < width; r++)
                for (int64_t c = 0; c < d_x; c++)
                    dqk[r * stride + c] = dqk_t[c * stride + r] = float(scale * total(*qk_sums++));
            for (int64_t k = 0; k < d_y; k++)
                for (int64_t c = 0; c < width; c++) dov[k * stride + c] = float(total(*ov_sums++));
            const int64_t q = tensor(0, h), key = tensor(1, h), v = tensor(2, h), o = read_rows(h);
            product(g + q, width, w + key, stride, 1, width, dqk, 1);
            product(g + key, width, w + q, stride, 1, d_x, dqk_t, 1);
            product(g + v, width, w + o, 1, stride, d_y, dov, 1);
            for (int64_t k = 0; k < d_y; k++)
                for (int64_t a = 0; a < width; a++) {
                    float sum = 0;
                    for (int64_t c = 0; c < width; c++) sum += dov[k * stride + c] * w[v + a * stride + c];
                    g[o + k * stride + a] = sum;
                }
        }
    }

    // torch.optim's SGD, Adam and AdamW, term by term.
    void update(int64_t step) {
        const float rate = float(run.learning_rate), decay = float(run.weight_decay);
        const float shrink = float(1 - run.learning_rate * run.weight_decay);
        const float momentum = float(run.momentum), eps = float(run.eps);
        const float beta2 = float(run.beta2), new1 = float(1 - run.beta1), new2 = float(1 - run.beta2);
        const float size1 = float(run.learning_rate / (1 - pow(run.beta1, double(step))));
        const float size2 = float(1 / sqrt(1 - pow(run.beta2, double(step))));
        for (int64_t i = 0; i < size / W; i++) {
            Float w = weights.data[i], g = gradient.data[i], m = first.data[i], v = second.data[i];
            if (run.optimizer == adamw) w *= shrink;
            else g += decay * w;
            if (run.optimizer == sgd) {
                m = momentum * m + g;
                weights.data[i] = w - rate * m;
            } else {
                m += new1 * (g - m);
                v = beta2 * v + new2 * (g * g);
                weights.data[i] = w - size1 * (m / (root(v) * size2 + eps));
            }
            first.data[i] = m, second.data[i] = v;
        }
    }
};

// ---- A batch: loss and the gradients of the circuits, block by block.

struct Batch {
    Model& model;
    const Run& run;
    const int64_t d_x, d_y, width, heads, length;
    Room<Float> block, weight, work;  // weight: exp(logit - largest) of each head and token
    Room<Float> mean, scale;          // attended token of each head; what its weights are multiplied by
    Room<Float> u, s, difference;     // a column and a gradient, width long; dLoss/dPrediction
    Room<Float> qk_sums, ov_sums;

    explicit Batch(Model& m)
        : model(m), run(m.run), d_x(m.d_x), d_y(m.d_y), width(m.width), heads(m.heads), length(run.task.n_pairs),
          block(run.task.room()), weight(heads * length), work(length), mean(heads * width), scale(heads),
          u(width), s(width), difference(d_y), qk_sums(heads * width * d_x), ov_sums(heads * d_y * width) {}

    Tokens tokens() const { return {block.data + run.task.pairs_row(), length, width}; }
    const Float* query() const { return block.data + run.task.query_row(); }

    // Weights of head h and the token they attend to.
    void attend(int64_t h) {
        const float* qk = Model::floats(model.qk) + h * model.square;
        for (int64_t r = 0; r < width; r++) {
            Float sum = qk[r * model.stride] * query()[0];
            for (int64_t c = 1; c < d_x; c++) sum += qk[r * model.stride + c] * query()[c];
            u.data[r] = sum;
        }
        Float *w = weight.data + h * length, *to = mean.data + h * width;
        Float factor = same(run.attention == linear_mean ? 1.0f / float(length) : 1.0f);
        if (run.attention == softmax) {
            Float largest = same(-INFINITY), sum = same(0);
            dots(tokens(), u.data, work.data, [&](int64_t i, Float logit) {
                w[i] = logit;
                largest = larger(logit, largest);
            });
            for (int64_t i = 0; i < length; i++) sum += w[i] = exp2_of(w[i] - largest);
            factor = 1.0f / sum;
        } else {
            dots(tokens(), u.data, work.data, [&](int64_t i, Float logit) { w[i] = logit; });
        }
        sums(tokens(), w, to);
        for (int64_t c = 0; c < width; c++) to[c] *= factor;
        scale.data[h] = factor;
    }

    // Adds the squared errors of the first `filled` lanes to loss; difference = dLoss/dPrediction.
    Float predict(int filled) {
        const float* ov = Model::floats(model.ov);
        const Float* y = query() + d_x;
        Int in_use = {};
        for (int l = 0; l < filled; l++) in_use[l] = -1;
        Float squares = same(0);
        for (int64_t k = 0; k < d_y; k++) {
            Float error = -y[k];
            for (int64_t h = 0; h < heads; h++)
                for (int64_t c = 0; c < width; c++) error += ov[(h * d_y + k) * model.stride + c] * mean.data[h * width + c];
            error = bits<Float>(bits<Int>(error) & in_use);
            squares += error * error;
            difference.data[k] = error * (2.0f / float(run.batch_size * d_y));
        }
        return squares;
    }

    // Adds the gradients of head h's circuits.
    void backward(int64_t h) {
        const float* ov = Model::floats(model.ov) + h * d_y * model.stride;
        const Float *w = weight.data + h * length, *to = mean.data + h * width;
        // The mean over tokens, which softmax takes away. It is summed as `dots` sums, column by column, so that a token
        // that gets all attention gets a gradient of exactly 0 and not its rounding, which Adam would enlarge.
        Float along = same(0);
        for (int64_t c = 0; c < width; c++) {
            Float g = same(0);
            for (int64_t k = 0; k < d_y; k++) {
                g += difference.data[k] * ov[k * model.stride + c];
                ov_sums.data[(h * d_y + k) * width + c] += difference.data[k] * to[c];
            }
            u.data[c] = g * scale.data[h];
            along += u.data[c] * to[c];
        }
        Float* d_logit = work.data;
        if (run.attention == softmax)
            dots(tokens(), u.data, d_logit, [&](int64_t i, Float v) { d_logit[i] = w[i] * (v - along); });
        else
            dots(tokens(), u.data, d_logit, [&](int64_t i, Float v) { d_logit[i] = v; });
        sums(tokens(), d_logit, s.data);
        Float* qk = qk_sums.data + h * width * d_x;
        for (int64_t r = 0; r < width; r++)
            for (int64_t c = 0; c < d_x; c++) qk[r * d_x + c] += s.data[r] * query()[c];
    }

    // Draws the batch of a step; returns its loss and leaves the gradients in the model.
    double run_step(int64_t step) {
        model.collapse();
        memset(static_cast<void*>(qk_sums.data), 0, heads * width * d_x * sizeof(Float));
        memset(static_cast<void*>(ov_sums.data), 0, heads * width * d_y * sizeof(Float));
        double squares = 0;
        for (int64_t first = 0; first < run.batch_size; first += W) {
            draw_block(run.task, run.key, uint32_t(step), uint32_t(first), block.data);
            for (int64_t h = 0; h < heads; h++) attend(h);
            squares += total(predict(run.batch_size - first < W ? int(run.batch_size - first) : W));
            for (int64_t h = 0; h < heads; h++) backward(h);
        }
        model.pull_back(qk_sums.data, ov_sums.data);
        return squares / double(run.batch_size * d_y);
    }
};

}  // namespace HEADWAY_SET

// Trains steps done + 1 ... done + n, as far as losses are finite; returns how many were done.
EXPORT(int64_t, train)
(const Run* run, float* weights, float* first, float* second, int64_t done, int64_t n, double* losses) {
    Model model(*run);
    Batch batch(model);
    model.load(model.weights, weights), model.load(model.first, first), model.load(model.second, second);
    int64_t i = 0;
    for (; i < n; i++) {
        losses[i] = batch.run_step(done + i + 1);
        if (!std::isfinite(losses[i])) break;
        model.update(done + i + 1);
    }
    model.store(model.weights, weights), model.store(model.first, first), model.store(model.second, second);
    return i;
}

// The loss of a step's batch, and its gradient.
EXPORT(double, gradient)
(const Run* run, const float* weights, int64_t step, float* gradient) {
    Model model(*run);
    Batch batch(model);
    model.load(model.weights, weights);
    const double loss = batch.run_step(step);
    model.store(model.gradient, gradient);
    return loss;
}
