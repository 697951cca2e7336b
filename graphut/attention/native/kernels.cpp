// The entry points, with C linkage, independent of torch and Python.
#include "kernels.h"

extern "C" {

using namespace graphut;

enum Dtype { FLOAT32 = 0, FLOAT64 = 1, BFLOAT16 = 2 };

// The number of lanes of a vector. Gradient buffers of keys and values have multiples of it.
int graphut_lanes(int dtype) { return dtype == FLOAT64 ? LANES<double> : LANES<float>; }

int graphut_call_size() { return sizeof(Call); }

int graphut_multiplies_pairs() { return multiplies_pairs(); }

// Returns whether the output is finite.
int graphut_forward(const Call* call, int dtype) {
    if (dtype == FLOAT64) return Kernels<double, double>::forward(*call);
    if (dtype == BFLOAT16) return Kernels<bfloat16, float>::forward(*call);
    return Kernels<float, float>::forward(*call);
}

void graphut_backward(const Call* call, int dtype) {
    if (dtype == FLOAT64) return Kernels<double, double>::backward(*call);
    if (dtype == BFLOAT16) return Kernels<bfloat16, float>::backward(*call);
    return Kernels<float, float>::backward(*call);
}

// Sorts edges by destination, then by source, with a stable sort. Writes the first edge of each
// destination to `start`, and sources and original indices to `source` and `order`. A counting sort
// by destination, followed by a sort within each.
void graphut_sort_edges(const int64_t* src, const int64_t* dst, int64_t edges, int64_t num_dst,
                        int64_t* start, int64_t* source, int64_t* order) {
    std::fill(start, start + num_dst + 1, int64_t(0));
    for (int64_t e = 0; e < edges; ++e) ++start[dst[e] + 1];
    for (int64_t i = 0; i < num_dst; ++i) start[i + 1] += start[i];
    std::vector<int64_t> free(start, start + num_dst);
    for (int64_t e = 0; e < edges; ++e) {
        const int64_t at = free[dst[e]]++;
        source[at] = src[e], order[at] = e;
    }
    std::vector<std::pair<int64_t, int64_t>> row;
    for (int64_t i = 0; i < num_dst; ++i) {
        if (std::is_sorted(source + start[i], source + start[i + 1])) continue;
        row.clear();
        for (int64_t at = start[i]; at < start[i + 1]; ++at) row.push_back({source[at], order[at]});
        std::sort(row.begin(), row.end());
        for (int64_t at = start[i]; at < start[i + 1]; ++at)
            source[at] = row[at - start[i]].first, order[at] = row[at - start[i]].second;
    }
}
}
