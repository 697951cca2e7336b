// Forward and backward of all kernels on four threads, for the thread sanitizer.
#include <cstdio>
#include <vector>

#include "interval.h"
#include "openmp.h"
#include "rows.h"

using namespace graphut;

namespace {

constexpr int64_t HEADS = 3, FEATS = 16, NODES = 640;

template <class S>
struct Tables {
    std::vector<S> query, key, value, out, out_grad, query_grad;
    std::vector<float> softmax, key_grad, value_grad;
    Tables() {
        for (auto* table : {&query, &key, &value, &out, &out_grad, &query_grad})
            table->assign(NODES * HEADS * FEATS, narrow<S>(0.5f));
        for (auto* table : {&key_grad, &value_grad}) table->assign(NODES * HEADS * FEATS, 0.5f);
        softmax.assign(2 * NODES * HEADS, 0.0f);
        for (std::size_t i = 0; i < query.size(); ++i)
            query[i] = narrow<S>(static_cast<float>(i % 7) / 7);
    }
};

template <class S>
Rows rows_of(std::vector<S>& table) {
    return {table.data(), HEADS * FEATS, FEATS};
}

template <class S>
Call call_of(Tables<S>& t, const std::vector<int64_t>& start, const std::vector<int64_t>& stop) {
    Call call{};
    call.rows = call.nodes = call.sources = NODES;
    call.heads = HEADS, call.key_feats = call.value_feats = FEATS, call.threads = 4;
    call.start = start.data(), call.stop = stop.data(), call.first_edge = start.data();
    call.query = rows_of(t.query), call.key = rows_of(t.key), call.value = rows_of(t.value);
    call.out = rows_of(t.out), call.softmax = t.softmax.data(), call.out_grad = rows_of(t.out_grad);
    call.query_grad = rows_of(t.query_grad), call.key_grad = rows_of(t.key_grad);
    call.value_grad = rows_of(t.value_grad);
    call.scale = 0.25, call.keep = 1.0;
    return call;
}

// Every node sees the nodes at most `reach` before and after it, in sentences of `length`.
void try_runs(int64_t length, int64_t reach) {
    std::vector<int64_t> start(NODES), stop(NODES), first_edge(NODES + 1, 0);
    for (int64_t i = 0; i < NODES; ++i) {
        const int64_t first = i / length * length, last = std::min(first + length, NODES);
        start[i] = std::max(first, i - reach), stop[i] = std::min(last, i + reach + 1);
        first_edge[i + 1] = first_edge[i] + stop[i] - start[i];
    }
    Tables<float> tables;
    Call call = call_of(tables, start, stop);
    call.first_edge = first_edge.data();
    interval_forward<float, float>(call);
    interval_backward<float, float>(call);
    row_forward<float, float>(call);
    row_backward<float, float>(call);
#if defined(__AVX512BF16__)
    if (!__builtin_cpu_supports("avx512bf16")) return;
    Tables<bfloat16> narrow_tables;
    call = call_of(narrow_tables, start, stop);
    call.first_edge = first_edge.data();
    interval_forward<bfloat16, Pair>(call);
    interval_backward<bfloat16, Pair>(call);
#endif
}

// Every node sees node 0 and some others; backward without the transposed layout, and with it.
void try_rows() {
    constexpr int64_t DEGREE = 80;
    std::vector<int64_t> start(NODES), stop(NODES), indices(NODES * DEGREE);
    for (int64_t i = 0; i < NODES; ++i) {
        start[i] = i * DEGREE, stop[i] = start[i] + DEGREE;
        for (int64_t e = 0; e < DEGREE; ++e) indices[i * DEGREE + e] = e * (i * 31 + 7) % NODES;
    }
    Tables<float> tables;
    Call call = call_of(tables, start, stop);
    call.indices = indices.data();
    row_forward<float, float>(call);
    row_backward<float, float>(call);

    std::vector<int64_t> first{0}, node, edge;
    for (int64_t source = 0; source < NODES; ++source) {
        for (int64_t e = 0; e < NODES * DEGREE; ++e)
            if (indices[e] == source) node.push_back(e / DEGREE), edge.push_back(e);
        first.push_back(static_cast<int64_t>(node.size()));
    }
    call.column_start = first.data(), call.column_node = node.data();
    call.column_edge = edge.data();
    row_backward<float, float>(call);
}

}  // namespace

int main() {
    try_runs(20, NODES);
    try_runs(NODES, 30);
    try_runs(NODES, NODES);
    try_rows();
    std::puts("done");
}
