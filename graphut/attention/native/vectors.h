// Vectors of the width of the registers, by the vector extensions of compilers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace graphut {

#if defined(__AVX512F__)
constexpr int BYTES = 64;
constexpr int ACCUMULATORS = 16;  // of 32 registers
#elif defined(__AVX2__)
constexpr int BYTES = 32;
constexpr int ACCUMULATORS = 8;  // of 16
#else
constexpr int BYTES = 16;
constexpr int ACCUMULATORS = 8;
#endif

struct bfloat16 {
    uint16_t bits;
};

// Two numbers whose products with those of another pair are added to a sum in float32.
struct Pair {
    bfloat16 low, high;
};

template <class T>
struct Simd;

template <>
struct Simd<float> {
    using Int = int32_t;
    using Sum = float;
    typedef float V __attribute__((vector_size(BYTES)));
    typedef int32_t I __attribute__((vector_size(BYTES)));
    typedef uint32_t U __attribute__((vector_size(BYTES)));
};

template <>
struct Simd<double> {
    using Int = int64_t;
    using Sum = double;
    typedef double V __attribute__((vector_size(BYTES)));
    typedef int64_t I __attribute__((vector_size(BYTES)));
    typedef uint64_t U __attribute__((vector_size(BYTES)));
};

template <>
struct Simd<Pair> {
    using Int = int32_t;
    using Sum = float;
    typedef int32_t V __attribute__((vector_size(BYTES)));
    typedef int32_t I __attribute__((vector_size(BYTES)));
};

template <class T>
using Vec = typename Simd<T>::V;
template <class T>
using IntVec = typename Simd<T>::I;
template <class T>
using Int = typename Simd<T>::Int;
template <class T>
using Sum = typename Simd<T>::Sum;
template <class T>
constexpr int LANES = BYTES / static_cast<int>(sizeof(T));
template <class T>
constexpr int TERMS = std::is_same_v<T, Pair> ? 2 : 1;  // numbers in a lane

#define INLINE inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

template <class T>
INLINE Vec<T> splat(T x) {
    return x - Vec<T>{};  // x + 0 would lose the sign of -0
}

template <class T>
INLINE IntVec<T> splat_int(Int<T> x) {
    return x - IntVec<T>{};
}

// Load and store vectors of T. If `count` is less than the number of lanes, the rest is zero.

template <class T, class S>
INLINE T widen(S x) {
    if constexpr (std::is_same_v<S, bfloat16>) {
        const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
        float wide;
        std::memcpy(&wide, &bits, sizeof wide);
        return wide;
    } else {
        return x;
    }
}

template <class S, class T>
INLINE S narrow(T x) {
    if constexpr (std::is_same_v<S, bfloat16>) {
        uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        if (x != x) return bfloat16{0x7fc0};
        return bfloat16{static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
    } else {
        return x;
    }
}

typedef uint16_t Halves __attribute__((vector_size(BYTES / 2)));

INLINE Vec<float> widen(Halves halves) {
    typedef uint32_t Wide __attribute__((vector_size(BYTES)));
    return (Vec<float>)(__builtin_convertvector(halves, Wide) << 16);
}

template <class T, class S>
INLINE Vec<T> load(const S* from) {
    if constexpr (std::is_same_v<S, bfloat16>) {
        Halves halves;
        std::memcpy(&halves, from, sizeof halves);
        return widen(halves);
    } else {
        Vec<T> v;
        std::memcpy(&v, from, sizeof v);
        return v;
    }
}

template <class T, class S>
INLINE Vec<T> load(const S* from, int64_t count) {
#if defined(__AVX512F__)
    const uint32_t lanes = count >= LANES<T> ? ~0u : (1u << count) - 1;
    if constexpr (std::is_same_v<S, float>) return (Vec<T>)_mm512_maskz_loadu_ps(lanes, from);
    if constexpr (std::is_same_v<S, double>) return (Vec<T>)_mm512_maskz_loadu_pd(lanes, from);
    if constexpr (std::is_same_v<S, bfloat16>)
        return widen((Halves)_mm256_maskz_loadu_epi16(lanes, from));
#else
    if (count >= LANES<T>) return load<T>(from);
#if defined(__AVX2__)
    IntVec<T> lane{};
    for (int l = 0; l < LANES<T>; ++l) lane[l] = l;
    const __m256i inside = (__m256i)(lane < static_cast<Int<T>>(count));
    if constexpr (std::is_same_v<S, float>) return (Vec<T>)_mm256_maskload_ps(from, inside);
    if constexpr (std::is_same_v<S, double>) return (Vec<T>)_mm256_maskload_pd(from, inside);
#endif
    T lanes[LANES<T>] = {};
    for (int64_t l = 0; l < count; ++l) lanes[l] = widen<T>(from[l]);
    return load<T>(lanes);
#endif
}

template <class T>
INLINE void store(T* to, Vec<T> v) {
    std::memcpy(to, &v, sizeof v);
}

template <class S, class T>
INLINE void store(S* to, const T* from, int64_t count) {
    int64_t l = 0;
    if constexpr (std::is_same_v<S, T>)
        for (; l + LANES<T> <= count; l += LANES<T>) store<T>(to + l, load<T>(from + l));
    for (; l < count; ++l) to[l] = narrow<S>(from[l]);
}

template <class T>
INLINE Vec<T> larger(Vec<T> a, Vec<T> b) {
    return a > b ? a : b;
}

// The largest score of a row for `exp(score - top)`. It is finite also if all scores are -inf, so
// that their exponentials are zero, not NaN.
template <class T>
INLINE Vec<T> above_nothing(Vec<T> top) {
    return larger<T>(top, splat<T>(std::numeric_limits<T>::lowest()));
}

// exp(x) = 2^n p(r), with x = n ln 2 + r. Denormal results are replaced by zero, because later
// operations on denormal numbers are ten times as slow. NaN stays NaN.
template <class T>
INLINE Vec<T> exp(Vec<T> x) {
    constexpr bool single = std::is_same_v<T, float>;
    constexpr T lowest = single ? T(-87.3) : T(-708.3);
    constexpr T round = single ? T(12582912.0) : T(6755399441055744.0);  // 1.5 * 2^(digits - 1)
    constexpr int mantissa = single ? 23 : 52;
    const Vec<T> bound = splat<T>(lowest), whole = x;
    x = x < bound ? bound : x;
    const Vec<T> shifted = x * T(1.4426950408889634074) + round;
    const Vec<T> n = shifted - round;
    constexpr T high = single ? T(0.693359375) : T(6.93145751953125e-1);
    constexpr T low = single ? T(-2.12194440e-4) : T(1.42860682030941723212e-6);
    const Vec<T> r = x - n * high - n * low;
    Vec<T> p;
    if constexpr (single) {  // Cephes, expf
        p = r * T(1.9875691500e-4) + T(1.3981999507e-3);
        p = p * r + T(8.3334519073e-3);
        p = p * r + T(4.1665795894e-2);
        p = p * r + T(1.6666665459e-1);
        p = p * r + T(5.0000001201e-1);
    } else {  // Taylor: |r| is at most ln(2) / 2
        p = r * T(1.0 / 6227020800.0) + T(1.0 / 479001600.0);
        p = p * r + T(1.0 / 39916800.0);
        p = p * r + T(1.0 / 3628800.0);
        p = p * r + T(1.0 / 362880.0);
        p = p * r + T(1.0 / 40320.0);
        p = p * r + T(1.0 / 5040.0);
        p = p * r + T(1.0 / 720.0);
        p = p * r + T(1.0 / 120.0);
        p = p * r + T(1.0 / 24.0);
        p = p * r + T(1.0 / 6.0);
        p = p * r + T(0.5);
    }
    p = p * (r * r) + (r + T(1));
    // The low bits of `shifted` are n, which is added to the exponent of p. The numbers are unsigned
    // because they may overflow in unused lanes.
    using Bits = typename Simd<T>::U;
    const Vec<T> scaled = (Vec<T>)((Bits)p + ((Bits)shifted << mantissa));
    return whole < bound ? Vec<T>{} : scaled;
}

// Permute the lanes of two vectors: lane l of the result is lane F::at(l) of a followed by b.
template <class T, class F, std::size_t... L>
INLINE Vec<T> shuffle(Vec<T> a, Vec<T> b, std::index_sequence<L...>) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, F::at(L)...);
#else
    return __builtin_shuffle(a, b, IntVec<T>{F::at(L)...});
#endif
}

template <class T, class F>
INLINE Vec<T> shuffle(Vec<T> a, Vec<T> b) {
    return shuffle<T, F>(a, b, std::make_index_sequence<LANES<T>>());
}

template <int W, bool HIGH>
struct Interleave {
    static constexpr int at(int l) { return (l & 1) * W + HIGH * W / 2 + l / 2; }
};

// Transpose a square matrix of as many vectors as lanes.
template <class T>
INLINE void transpose(Vec<T> (&rows)[LANES<T>]) {
    constexpr int W = LANES<T>;
#pragma GCC unroll 8
    for (int step = 1; step < W; step *= 2) {
        Vec<T> next[W];
#pragma GCC unroll 16
        for (int i = 0; i < W / 2; ++i) {
            next[2 * i] = shuffle<T, Interleave<W, false>>(rows[i], rows[i + W / 2]);
            next[2 * i + 1] = shuffle<T, Interleave<W, true>>(rows[i], rows[i + W / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) rows[i] = next[i];
    }
}

template <int W, int HALF>
struct Kept {
    static constexpr int at(int l) { return l & HALF ? W + l : l; }
};

template <int W, int HALF>
struct Swapped {
    static constexpr int at(int l) { return (l & HALF ? W + l : l) ^ HALF; }
};

// Lane r of the result is the sum of the lanes of the vector row(r), for as many rows as lanes.
template <class T, int ROWS = LANES<T>, class F>
INLINE Vec<T> row_sums(F row, int first = 0) {
    constexpr int W = LANES<T>, HALF = ROWS / 2;
    if constexpr (ROWS == 1) {
        return row(first);
    } else {
        const Vec<T> a = row_sums<T, HALF>(row, first), b = row_sums<T, HALF>(row, first + HALF);
        return shuffle<T, Kept<W, HALF>>(a, b) + shuffle<T, Swapped<W, HALF>>(a, b);
    }
}

// Combine each lane with all lanes at a distance of a multiple of `period`, a power of two.
template <class T, int HALF = LANES<T> / 2, class F>
INLINE Vec<T> fold(Vec<T> v, int64_t period, F combine) {
    if constexpr (HALF == 0) {
        return v;
    } else {
        if (HALF < period) return v;
        v = combine(v, shuffle<T, Swapped<LANES<T>, HALF>>(v, v));
        return fold<T, HALF / 2>(v, period, combine);
    }
}

template <class T>
INLINE T lane_sum(Vec<T> v) {
    T sum = 0;
    for (int l = 0; l < LANES<T>; ++l) sum += v[l];
    return sum;
}

template <class T>
INLINE void add_product(Vec<T>& sum, T factor, Vec<T> v) {
    sum += factor * v;
}

#if defined(__AVX512BF16__)

INLINE void add_product(Vec<float>& sum, Pair factor, Vec<Pair> v) {
    int32_t bits;
    std::memcpy(&bits, &factor, sizeof bits);
    sum = (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)splat_int<Pair>(bits), (__m512bh)v);
}

// Round the lanes of `low`, and after them the lanes of `high`.
INLINE Vec<Pair> narrow(Vec<float> low, Vec<float> high) {
    return (Vec<Pair>)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
}

// Pair the first half of the numbers with the second half.
INLINE Vec<Pair> pair_halves(Vec<Pair> v) {
    typedef int16_t Shorts __attribute__((vector_size(BYTES)));
    Shorts order;
    for (int l = 0; l < 32; ++l) order[l] = static_cast<int16_t>((l & 1) * 16 + l / 2);
    return (Vec<Pair>)_mm512_permutexvar_epi16((__m512i)order, (__m512i)v);
}

#endif

}  // namespace graphut
