// The kernels of tables of S, which compute in T.
#pragma once

#include "call.h"

namespace graphut {

template <class S, class T>
struct Kernels {
    static int forward(const Call& call);  // returns whether the output is finite
    static void backward(const Call& call);
};

// Whether this build and this processor multiply pairs of bfloat16.
inline bool multiplies_pairs() {
#if defined(__AVX512BF16__)
    static const bool supported = __builtin_cpu_supports("avx512bf16");
    return supported;
#else
    return false;
#endif
}

}  // namespace graphut
