// The two matrix products of attention, in blocks that stay in registers.
#pragma once

#include "vectors.h"

namespace graphut {

// The largest number of sources in a product with one vector of rows.
constexpr int SOURCES = ACCUMULATORS / 2;

// acc[k][g] = a[k] . b over `feats` features. `a` is stored row by row; `b` is transposed: each
// feature holds G vectors of rows.
template <class T, int K, int G>
INLINE void dots(const T* a, int64_t a_stride, const T* b, int64_t feats, Vec<T> (&acc)[K][G]) {
    constexpr int W = LANES<T>;
    for (int k = 0; k < K; ++k)
        for (int g = 0; g < G; ++g) acc[k][g] = Vec<T>{};
    for (int64_t d = 0; d < feats; ++d) {
        Vec<T> lanes[G];
        for (int g = 0; g < G; ++g) lanes[g] = load<T>(b + (d * G + g) * W);
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k)
#pragma GCC unroll 2
            for (int g = 0; g < G; ++g) acc[k][g] += a[k * a_stride + d] * lanes[g];
    }
}

// A matrix of weights with any strides: the factor of row k in the sum of row m.
template <class T>
struct Weights {
    const T* data;
    int64_t by_m, by_k;
};

// out[m] += sum over k of weights(m, k) x[k], for M rows of N vectors
template <class T, int M, int N>
INLINE void sum_block(Weights<T> w, const T* x, int64_t x_stride, int64_t count, T* out,
                      int64_t out_stride) {
    constexpr int W = LANES<T>;
    Vec<T> acc[M][N];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) acc[m][n] = load<T>(out + m * out_stride + n * W);
    for (int64_t k = 0; k < count; ++k) {
        Vec<T> row[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) row[n] = load<T>(x + k * x_stride + n * W);
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) acc[m][n] += w.data[m * w.by_m + k * w.by_k] * row[n];
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) store<T>(out + m * out_stride + n * W, acc[m][n]);
}

template <class T, int M, int N>
INLINE void sum_rows(Weights<T> w, const T* x, int64_t x_stride, int64_t count, T* out,
                     int64_t out_stride, int64_t rows) {
    for (; rows >= M; rows -= M, w.data += M * w.by_m, out += M * out_stride)
        sum_block<T, M, N>(w, x, x_stride, count, out, out_stride);
    if constexpr (M > 1)
        if (rows) sum_rows<T, M / 2, N>(w, x, x_stride, count, out, out_stride, rows);
}

template <class T, int N>
INLINE void sum_columns(Weights<T> w, const T* x, int64_t x_stride, int64_t count, T* out,
                        int64_t out_stride, int64_t rows, int64_t vectors) {
    constexpr int W = LANES<T>;
    for (; vectors >= N; vectors -= N, x += N * W, out += N * W)
        sum_rows<T, ACCUMULATORS / N, N>(w, x, x_stride, count, out, out_stride, rows);
    if constexpr (N > 1)
        if (vectors) sum_columns<T, N / 2>(w, x, x_stride, count, out, out_stride, rows, vectors);
}

// out[m] += sum over k of weights(m, k) x[k], for any number of rows and vectors
template <class T>
NOINLINE void weighted_sums(Weights<T> w, const T* x, int64_t x_stride, int64_t count, T* out,
                          int64_t out_stride, int64_t rows, int64_t vectors) {
    sum_columns<T, 4>(w, x, x_stride, count, out, out_stride, rows, vectors);
}

}  // namespace graphut
