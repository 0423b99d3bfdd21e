// What device code sees when it is compiled for the host: CUDA's qualifiers, built-in variables and functions.
//
// Included before the first line of a kernel file, instead of what NVRTC defines by itself. It offers the part of
// the language that the kernels use; anything else fails to compile. Results are those of a device compiled with
// --fmad=false: the host's IEEE arithmetic without contraction, so the build must pass -ffp-contract=off.
//
// What differs from a device, on purpose:
//   - `__shared__` is memory of the host thread: it starts with what the block before left, never with zeros that
//     one may rely on; dynamic shared memory starts with the byte 0xA5.
//   - `__activemask()` names the calling lane alone, which the guide allows and which trusts nothing.
//   - the threads of a block take turns, so a race goes unseen.
#pragma once
#include <math.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "threads.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

#define threadIdx emulated::position().thread
#define blockIdx emulated::position().block
#define blockDim emulated::position().block_size
#define gridDim emulated::position().grid_size
constexpr int warpSize = 32;

// The place of a call, as the last parameters of what waits, and what becomes of them. (Default arguments of their
// own, because inside an initialiser the built-ins would name this file.)
#define EMULATED_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define EMULATED_WHERE \
    emulated::Where { file, line }

// ---- vectors --------------------------------------------------------------------------------------------------

#define EMULATED_VECTOR2(name, scalar)        \
    struct alignas(2 * sizeof(scalar)) name { \
        scalar x, y;                          \
    };                                        \
    inline name make_##name(scalar x, scalar y) { return {x, y}; }
#define EMULATED_VECTOR4(name, scalar, alignment) \
    struct alignas(alignment) name {              \
        scalar x, y, z, w;                        \
    };                                            \
    inline name make_##name(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

EMULATED_VECTOR2(char2, signed char)
EMULATED_VECTOR2(uchar2, unsigned char)
EMULATED_VECTOR2(short2, short)
EMULATED_VECTOR2(ushort2, unsigned short)
EMULATED_VECTOR2(int2, int)
EMULATED_VECTOR2(uint2, unsigned)
EMULATED_VECTOR2(float2, float)
EMULATED_VECTOR2(double2, double)
EMULATED_VECTOR2(longlong2, long long)
EMULATED_VECTOR2(ulonglong2, unsigned long long)
EMULATED_VECTOR4(char4, signed char, 4)
EMULATED_VECTOR4(uchar4, unsigned char, 4)
EMULATED_VECTOR4(short4, short, 8)
EMULATED_VECTOR4(ushort4, unsigned short, 8)
EMULATED_VECTOR4(int4, int, 16)
EMULATED_VECTOR4(uint4, unsigned, 16)
EMULATED_VECTOR4(float4, float, 16)
EMULATED_VECTOR4(double4, double, 16)
EMULATED_VECTOR4(ulonglong4, unsigned long long, 16)
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

// ---- bits of one value as another type --------------------------------------------------------------------------

namespace emulated {

template <class To, class From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the sizes must agree");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

template <class T>
uint64_t widen(T value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes exchange values of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <class T>
T narrow(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
}

// A parameter that takes its type from the others.
template <class T>
struct Same {
    using type = T;
};
template <class T>
using same = typename Same<T>::type;

}  // namespace emulated

inline int __float_as_int(float x) { return emulated::bits_as<int>(x); }
inline unsigned __float_as_uint(float x) { return emulated::bits_as<unsigned>(x); }
inline float __int_as_float(int x) { return emulated::bits_as<float>(x); }
inline float __uint_as_float(unsigned x) { return emulated::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return emulated::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return emulated::bits_as<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
    return emulated::bits_as<double>(static_cast<uint64_t>(static_cast<unsigned>(high)) << 32 |
                                     static_cast<unsigned>(low));
}

// ---- barriers and fences ----------------------------------------------------------------------------------------

inline void __syncthreads(EMULATED_HERE) { emulated::barrier(false, EMULATED_WHERE); }
inline int __syncthreads_count(int predicate, EMULATED_HERE) {
    return static_cast<int>(emulated::barrier(predicate != 0, EMULATED_WHERE).agreed);
}
inline int __syncthreads_or(int predicate, EMULATED_HERE) {
    return emulated::barrier(predicate != 0, EMULATED_WHERE).agreed != 0;
}
inline int __syncthreads_and(int predicate, EMULATED_HERE) {
    const emulated::Census census = emulated::barrier(predicate != 0, EMULATED_WHERE);
    return census.agreed == census.met;
}
inline void __syncwarp(unsigned mask = ~0u, EMULATED_HERE) {
    emulated::meet(emulated::WarpOperation::synchronise, mask, 0, 0, EMULATED_WHERE);
}
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap(EMULATED_HERE) { emulated::fail(EMULATED_WHERE, "__trap() was reached"); }

// ---- warps --------------------------------------------------------------------------------------------------------

// `width` is a power of two of at most 32 and cuts the warp into segments; a source outside the caller's segment
// (below it for `up`, above it for `down` and `xor`) gives the caller its own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, EMULATED_HERE) {
    const unsigned segment = emulated::lane() & ~static_cast<unsigned>(width - 1);
    const unsigned wanted = segment | (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1));
    return emulated::narrow<T>(
        emulated::meet(emulated::WarpOperation::shuffle, mask, emulated::widen(value), wanted, EMULATED_WHERE));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATED_HERE) {
    const unsigned me = emulated::lane(), inside = me & static_cast<unsigned>(width - 1);
    const unsigned wanted = inside >= delta ? me - delta : me;
    return emulated::narrow<T>(
        emulated::meet(emulated::WarpOperation::shuffle, mask, emulated::widen(value), wanted, EMULATED_WHERE));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, EMULATED_HERE) {
    const unsigned me = emulated::lane(), inside = me & static_cast<unsigned>(width - 1);
    const unsigned wanted = delta < static_cast<unsigned>(width) - inside ? me + delta : me;
    return emulated::narrow<T>(
        emulated::meet(emulated::WarpOperation::shuffle, mask, emulated::widen(value), wanted, EMULATED_WHERE));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, EMULATED_HERE) {
    const unsigned me = emulated::lane(), other = me ^ static_cast<unsigned>(lane_mask);
    const unsigned last = me | static_cast<unsigned>(width - 1);
    const unsigned wanted = other <= last ? other : me;
    return emulated::narrow<T>(
        emulated::meet(emulated::WarpOperation::shuffle, mask, emulated::widen(value), wanted, EMULATED_WHERE));
}

inline unsigned __activemask() { return 1u << emulated::lane(); }
inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATED_HERE) {
    return static_cast<unsigned>(
        emulated::meet(emulated::WarpOperation::ballot, mask, predicate != 0, 0, EMULATED_WHERE));
}
inline int __any_sync(unsigned mask, int predicate, EMULATED_HERE) {
    return emulated::meet(emulated::WarpOperation::ballot, mask, predicate != 0, 0, EMULATED_WHERE) != 0;
}
inline int __all_sync(unsigned mask, int predicate, EMULATED_HERE) {
    return static_cast<int>(emulated::meet(emulated::WarpOperation::all, mask, predicate != 0, 0, EMULATED_WHERE));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, EMULATED_HERE) {
    return static_cast<unsigned>(
        emulated::meet(emulated::WarpOperation::match, mask, emulated::widen(value), 0, EMULATED_WHERE));
}

#define EMULATED_REDUCE(name, operation)                                                         \
    inline unsigned __reduce_##name##_sync(unsigned mask, unsigned value, EMULATED_HERE) {       \
        return static_cast<unsigned>(                                                            \
            emulated::meet(emulated::WarpOperation::operation, mask, value, 0, EMULATED_WHERE)); \
    }
#define EMULATED_SIGNED_REDUCE(name, operation)                                                                        \
    inline int __reduce_##name##_sync(unsigned mask, int value, EMULATED_HERE) {                                       \
        return static_cast<int>(emulated::meet(emulated::WarpOperation::operation, mask, static_cast<unsigned>(value), \
                                               0, EMULATED_WHERE));                                                    \
    }
EMULATED_REDUCE(add, add)
EMULATED_REDUCE(min, minimum)
EMULATED_REDUCE(max, maximum)
EMULATED_REDUCE(and, bit_and)
EMULATED_REDUCE(or, bit_or)
EMULATED_REDUCE(xor, bit_xor)
EMULATED_SIGNED_REDUCE(add, add)
EMULATED_SIGNED_REDUCE(min, signed_minimum)
EMULATED_SIGNED_REDUCE(max, signed_maximum)

// ---- integers -----------------------------------------------------------------------------------------------------

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }

inline unsigned long long __brevll(unsigned long long x) {
    x = (x >> 1 & 0x5555555555555555ull) | (x & 0x5555555555555555ull) << 1;
    x = (x >> 2 & 0x3333333333333333ull) | (x & 0x3333333333333333ull) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0full) | (x & 0x0f0f0f0f0f0f0f0full) << 4;
    return __builtin_bswap64(x);
}
inline unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }

// Byte i of the result is the byte of {b, a} that the low three bits of nibble i name; with the nibble's high bit
// set, that byte's sign fills it.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned nibble = selector >> (4 * i) & 15;
        const unsigned byte = static_cast<unsigned>(bytes >> (8 * (nibble & 7))) & 255;
        result |= (nibble & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
    }
    return result;
}

inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __sad(int a, int b, unsigned sum) {
    return sum + (a < b ? static_cast<unsigned>(b) - static_cast<unsigned>(a)
                        : static_cast<unsigned>(a) - static_cast<unsigned>(b));
}
inline unsigned __usad(unsigned a, unsigned b, unsigned sum) { return sum + (a < b ? b - a : a - b); }

inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
    for (unsigned i = 0; i < 32; i += 8) sum += (a >> i & 255) * (b >> i & 255);
    return sum;
}
inline int __dp4a(int a, int b, int sum) {
    for (unsigned i = 0; i < 32; i += 8) sum += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
    return sum;
}

// Numbers only; the common type is C++'s, which is also what CUDA's overloads give.
template <class A, class B, class = std::enable_if_t<std::is_integral<A>::value && std::is_integral<B>::value>>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B, class = std::enable_if_t<std::is_integral<A>::value && std::is_integral<B>::value>>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// ---- floating point ------------------------------------------------------------------------------------------------

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline double __drcp_rn(double a) { return 1.0 / a; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

namespace emulated {

// As a device converts: NaN gives zero (32 bits) or the highest bit alone (64 bits); the rest saturates.
template <class To, class From>
To saturated(From value) {
    if (value != value) return sizeof(To) == 4 ? To{0} : static_cast<To>(uint64_t{1} << 63);
    const From end = static_cast<From>(ldexp(1.0, std::numeric_limits<To>::digits));
    if (value >= end) return std::numeric_limits<To>::max();
    if (value < (std::is_signed<To>::value ? -end : From{0})) return std::numeric_limits<To>::min();
    return static_cast<To>(value);
}

}  // namespace emulated

#define EMULATED_TO_INTEGER(name, from, to)                                   \
    inline to name##_rn(from x) { return emulated::saturated<to>(rint(x)); }  \
    inline to name##_rz(from x) { return emulated::saturated<to>(trunc(x)); } \
    inline to name##_ru(from x) { return emulated::saturated<to>(ceil(x)); }  \
    inline to name##_rd(from x) { return emulated::saturated<to>(floor(x)); }
EMULATED_TO_INTEGER(__float2int, float, int)
EMULATED_TO_INTEGER(__float2uint, float, unsigned)
EMULATED_TO_INTEGER(__float2ll, float, long long)
EMULATED_TO_INTEGER(__float2ull, float, unsigned long long)
EMULATED_TO_INTEGER(__double2int, double, int)
EMULATED_TO_INTEGER(__double2uint, double, unsigned)
EMULATED_TO_INTEGER(__double2ll, double, long long)
EMULATED_TO_INTEGER(__double2ull, double, unsigned long long)

inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __double2float_ru(double x) {
    const float near = static_cast<float>(x);
    return near < x ? nextafterf(near, INFINITY) : near;
}
inline float __double2float_rd(double x) {
    const float near = static_cast<float>(x);
    return near > x ? nextafterf(near, -INFINITY) : near;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

template <class T>
T __ldg(const T* address) {
    return *address;
}
template <class T>
T __ldcg(const T* address) {
    return *address;
}
template <class T>
T __ldcs(const T* address) {
    return *address;
}
template <class T>
void __stcg(T* address, T value) {
    *address = value;
}
template <class T>
void __stcs(T* address, T value) {
    *address = value;
}

namespace emulated {

// Replaces *address by change(*address) in one step and returns what was there.
template <class T, class Change>
T update(T* address, Change change) {
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
    static_assert(sizeof(T) == sizeof(Bits), "atomics take 2, 4 or 8 bytes");
    Bits* cell = reinterpret_cast<Bits*>(address);
    Bits old = __atomic_load_n(cell, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(cell, &old, bits_as<Bits>(static_cast<T>(change(bits_as<T>(old)))), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return bits_as<T>(old);
}

}  // namespace emulated

template <class T>
T atomicAdd(T* address, emulated::same<T> value) {
    if constexpr (std::is_integral<T>::value) {
        static_assert(sizeof(T) >= 4, "atomicAdd takes 4 or 8 bytes");
        return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
    } else {
        return emulated::update(address, [=](T old) { return old + value; });
    }
}
template <class T>
T atomicSub(T* address, emulated::same<T> value) {
    return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicAnd(T* address, emulated::same<T> value) {
    return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicOr(T* address, emulated::same<T> value) {
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicXor(T* address, emulated::same<T> value) {
    return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicMin(T* address, emulated::same<T> value) {
    return emulated::update(address, [=](T old) { return value < old ? value : old; });
}
template <class T>
T atomicMax(T* address, emulated::same<T> value) {
    return emulated::update(address, [=](T old) { return old < value ? value : old; });
}
template <class T>
T atomicExch(T* address, emulated::same<T> value) {
    return emulated::update(address, [=](T) { return value; });
}
inline unsigned atomicInc(unsigned* address, unsigned last) {
    return emulated::update(address, [=](unsigned old) { return old >= last ? 0 : old + 1; });
}
inline unsigned atomicDec(unsigned* address, unsigned last) {
    return emulated::update(address, [=](unsigned old) { return old == 0 || old > last ? last : old - 1; });
}
template <class T>
T atomicCAS(T* address, emulated::same<T> expected, emulated::same<T> value) {
    static_assert(std::is_integral<T>::value, "atomicCAS takes integers");
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

// ---- the kernels as the driver calls them -----------------------------------------------------------------------------

namespace emulated {

template <class... Parameters, size_t... Places>
__attribute__((always_inline)) inline void call(void (*kernel)(Parameters...), void** parameters,
                                                std::index_sequence<Places...>) {
    kernel(*static_cast<std::remove_cv_t<std::remove_reference_t<Parameters>>*>(parameters[Places])...);
}

template <class... Parameters>
__attribute__((always_inline)) inline void unpack(void (*kernel)(Parameters...), void** parameters) {
    call(kernel, parameters, std::index_sequence_for<Parameters...>{});
}

// One thread of `kernel`, with cuLaunchKernel's `kernelParams`.
template <auto kernel>
void thread_of(void** parameters) {
    unpack(kernel, parameters);
}

}  // namespace emulated
