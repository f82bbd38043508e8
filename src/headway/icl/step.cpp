// A whole training step of one-layer attention, natively: draw, forward, backward, optimizer.
//
// Every head is collapsed at the start of a step to its circuits, QK (of which only the d_x columns that meet x_q
// matter, since the query's y is 0) and OV. Prompts lie side by side in the lanes, a block of W at a time, and all that
// touches them is two kinds of sums over columns: of a token (`dots`) and of all tokens (`sums`). The gradients of the
// circuits are pulled back to Q, K, V and O once per step.
#include "columns.hpp"
#include "draws.hpp"

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
                Float sum = same(0.0f);
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
        const float scale = float(1 / sqrt(double(width)));
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t r = 0; r < width; r++)
                for (int64_t c = 0; c < d_x; c++)
                    dqk[r * stride + c] = dqk_t[c * stride + r] = scale * total(*qk_sums++);
            for (int64_t k = 0; k < d_y; k++)
                for (int64_t c = 0; c < width; c++) dov[k * stride + c] = total(*ov_sums++);
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
    Room<Float> u, s, difference;     // coefficients and sums of dots and sums; dLoss/dPrediction
    Room<Float> qk_sums, ov_sums;

    explicit Batch(Model& m)
        : model(m), run(m.run), d_x(m.d_x), d_y(m.d_y), width(m.width), heads(m.heads), length(run.task.n_pairs),
          block(run.task.room()), weight(heads * length), work(HEADS * length), mean(heads * width), scale(heads),
          u(HEADS * width), s(HEADS * width), difference(d_y), qk_sums(heads * width * d_x), ov_sums(heads * d_y * width) {}

    Tokens tokens() const { return {block.data + run.task.pairs_row(), length, width}; }
    const Float* query() const { return block.data + run.task.query_row(); }

    // u = QK x_q, row by row.
    void dots_with_query(const float* qk, int64_t rows) {
        with_constant<8>(d_x, [&](auto n) {
            Float x[n.value];
            for (int c = 0; c < n.value; c++) x[c] = query()[c];
            for (int64_t r = 0; r < rows; r++, qk += model.stride) {
                Float sum = qk[0] * x[0];
                for (int c = 1; c < n.value; c++) sum += qk[c] * x[c];
                for (int64_t c = n.value; c < d_x; c++) sum += qk[c] * query()[c];
                u.data[r] = sum;
            }
        });
    }

    // Adds s x_q^T to a matrix.
    void outer_with_query(int64_t rows, Float* to) {
        with_constant<8>(d_x, [&](auto n) {
            Float x[n.value];
            for (int c = 0; c < n.value; c++) x[c] = query()[c];
            for (int64_t r = 0; r < rows; r++, to += d_x) {
                const Float factor = s.data[r];
                for (int c = 0; c < n.value; c++) to[c] += factor * x[c];
                for (int64_t c = n.value; c < d_x; c++) to[c] += factor * query()[c];
            }
        });
    }

    // Weights of G heads from h on, and the tokens they attend to.
    template <int G>
    void attend(int64_t h) {
        const float* qk = Model::floats(model.qk) + h * model.square;
        dots_with_query(qk, G * width);
        Float *w = weight.data + h * length, *to = mean.data + h * width;
        Float largest[G], sum[G], factor[G];
        for (int g = 0; g < G; g++) {
            largest[g] = same(-INFINITY), sum[g] = same(0.0f);
            factor[g] = same(run.attention == linear_mean ? 1.0f / float(length) : 1.0f);
        }
        if (run.attention == softmax) {
            dots<G>(tokens(), u.data, work.data, [&](int g, int64_t i, Float logit) {
                w[g * length + i] = logit;
                largest[g] = larger(logit, largest[g]);
            });
            for (int64_t i = 0; i < length; i++)
                for (int g = 0; g < G; g++) sum[g] += w[g * length + i] = exp2_of(w[g * length + i] - largest[g]);
            for (int g = 0; g < G; g++) factor[g] = 1.0f / sum[g];
        } else {
            dots<G>(tokens(), u.data, work.data, [&](int g, int64_t i, Float logit) { w[g * length + i] = logit; });
        }
        sums<G>(tokens(), w, to);
        for (int g = 0; g < G; g++) {
            for (int64_t c = 0; c < width; c++) to[g * width + c] *= factor[g];
            scale.data[h + g] = factor[g];
        }
    }

    // The squared errors of the first `filled` lanes; difference becomes dLoss/dPrediction.
    Float predict(int filled) {
        const float* ov = Model::floats(model.ov);
        const Float* y = query() + d_x;
        Int in_use = {};
        for (int l = 0; l < filled; l++) in_use[l] = -1;
        Float squares = same(0.0f);
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

    // Adds the gradients of the circuits of G heads from h on.
    template <int G>
    void backward(int64_t h) {
        // The mean over tokens, which softmax takes away. It is summed as `dots` sums, column by column, so that a token
        // that gets all attention gets a gradient of exactly 0 and not its rounding, which Adam would enlarge.
        Float along[G];
        for (int g = 0; g < G; g++) along[g] = back_to_token(h + g, u.data + g * width);
        Float *w = weight.data + h * length, *d_logit = work.data;
        if (run.attention == softmax)
            dots<G>(tokens(), u.data, d_logit, [&](int g, int64_t i, Float v) {
                d_logit[g * length + i] = w[g * length + i] * (v - along[g]);
            });
        else
            dots<G>(tokens(), u.data, d_logit, [&](int g, int64_t i, Float v) { d_logit[g * length + i] = v; });
        sums<G>(tokens(), d_logit, s.data);
        outer_with_query(G * width, qk_sums.data + h * width * d_x);
    }

    // Adds the gradient of head h's OV; g = scale * dLoss/d(token that the head attends to), returns g . that token.
    Float back_to_token(int64_t h, Float* g) {
        const float* ov = Model::floats(model.ov) + h * d_y * model.stride;
        const Float* to = mean.data + h * width;
        Float along = same(0.0f);
        for (int64_t c = 0; c < width; c++) {
            Float sum = same(0.0f);
            for (int64_t k = 0; k < d_y; k++) {
                sum += difference.data[k] * ov[k * model.stride + c];
                ov_sums.data[(h * d_y + k) * width + c] += difference.data[k] * to[c];
            }
            g[c] = sum * scale.data[h];
            along += g[c] * to[c];
        }
        return along;
    }

    template <class Body>
    void for_heads(Body body) {
        int64_t h = 0;
        for (; h + HEADS <= heads; h += HEADS) body(h, Constant<HEADS>());
        if (h < heads) body(h, Constant<1>());
    }

    // Draws the batch of a step; returns its loss and leaves the gradients in the model.
    double run_step(int64_t step) {
        model.collapse();
        memset(static_cast<void*>(qk_sums.data), 0, heads * width * d_x * sizeof(Float));
        memset(static_cast<void*>(ov_sums.data), 0, heads * width * d_y * sizeof(Float));
        double squares = 0;
        for (int64_t first = 0; first < run.batch_size; first += W) {
            draw_block(run.task, run.key, uint32_t(step), uint32_t(first), block.data);
            for_heads([&](int64_t h, auto n) { attend<n.value>(h); });
            squares += total(predict(run.batch_size - first < W ? int(run.batch_size - first) : W));
            for_heads([&](int64_t h, auto n) { backward<n.value>(h); });
        }
        model.pull_back(qk_sums.data, ov_sums.data);
        return squares / double(run.batch_size * d_y);
    }
};

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

}  // namespace HEADWAY_SET
