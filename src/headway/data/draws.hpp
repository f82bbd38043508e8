// Drawing prompts of in-context regression, W at a time. `regression.py` defines the bits.
#pragma once
#include "lanes.hpp"

namespace HEADWAY_SET {

// What is drawn; mirrored by `Task` of native.py.
struct Task {
    int64_t d_x, d_y, n_pairs;
    float noise, query_noise;  // standard deviations
    const float* beta;         // (d_y, d_x): standard deviation of each coefficient, 0 where it is not read
    const float* cholesky;     // (d_x, d_x): lower factor of the covariance of x; null: identity

    // W prompts lie in a block, a row of W lanes for each number: beta, the query token, the token of each pair.
    int64_t d_token() const { return d_x + d_y; }
    int64_t query_row() const { return d_y * d_x; }
    int64_t pairs_row() const { return query_row() + d_token(); }
    int64_t rows() const { return pairs_row() + n_pairs * d_token(); }
    int64_t room() const { return rows() + 1; }  // normals come in pairs
};

// Fills block with prompts first, ..., first + W - 1 of a batch.
void draw_block(const Task& task, uint64_t key, uint32_t step, uint32_t first, Float* block);

}  // namespace HEADWAY_SET
