// The kernels of one dtype. Each dtype has a source of its own: they compile at the same time.
#include "interval.h"
#include "kernels.h"
#include "rows.h"

namespace graphut {
namespace {

enum Kernel { FASTEST = 0, INTERVAL = 1, ROWS = 2, PAIRS = 3 };

// Measured costs of the kernels, in units of one entry of a block of the interval kernel. They affect
// the speed, but not the result.
constexpr int64_t BLOCK_COST = 150, BLOCK_ROW_COST = 48, ROW_COST = 40;
constexpr int64_t FORWARD_EDGE_COST = 2, BACKWARD_EDGE_COST = 4;

bool by_interval(const Call& call, int64_t lanes, int64_t edge_cost) {
    int64_t blocks = 0, rows = 0;
    for (const Tile& tile : make_tiles(call))
        for (int64_t row = tile.first; row < tile.last; row += 2 * lanes) {
            const int64_t count = std::min(2 * lanes, tile.last - row);
            int64_t low = tile.high, high = tile.low;
            for (int64_t r = row; r < row + count; ++r) {
                const int64_t node = call.node(r);
                if (!call.degree(node)) continue;
                low = std::min(low, call.start[node]);
                high = std::max(high, call.stop[node]);
                rows += edge_cost * call.degree(node) + ROW_COST;
            }
            blocks += std::max<int64_t>(0, high - low) * round_up(count, lanes);
            blocks += BLOCK_COST + BLOCK_ROW_COST * count;
        }
    return blocks <= rows;
}

template <class S>
Kernel choose(const Call& call, int64_t lanes, int64_t edge_cost) {
    if (!call.rows) return INTERVAL;
    if (call.kernel != FASTEST) return static_cast<Kernel>(call.kernel);
    if (call.indices || !by_interval(call, lanes, edge_cost)) return ROWS;
    return std::is_same_v<S, bfloat16> && multiplies_pairs() ? PAIRS : INTERVAL;
}

}  // namespace

template <class S, class T>
int Kernels<S, T>::forward(const Call& call) {
    const Kernel kernel = choose<S>(call, LANES<T>, FORWARD_EDGE_COST);
#if defined(__AVX512BF16__)
    if constexpr (std::is_same_v<S, bfloat16>)
        if (kernel == PAIRS) return interval_forward<S, Pair>(call);
#endif
    return kernel == INTERVAL ? interval_forward<S, T>(call) : row_forward<S, T>(call);
}

template <class S, class T>
void Kernels<S, T>::backward(const Call& call) {
    const Kernel kernel = choose<S>(call, LANES<T>, BACKWARD_EDGE_COST);
#if defined(__AVX512BF16__)
    if constexpr (std::is_same_v<S, bfloat16>)
        if (kernel == PAIRS) return interval_backward<S, Pair>(call);
#endif
    kernel == INTERVAL ? interval_backward<S, T>(call) : row_backward<S, T>(call);
}

}  // namespace graphut
