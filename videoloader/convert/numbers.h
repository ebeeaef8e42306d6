// Numbers as CUDA and C++ store them, with the same rounding on both.

#ifdef __CUDACC__
#define PIXELS __device__ inline
PIXELS unsigned bits_of(float x) { return __float_as_uint(x); }
#else
#include <cmath>
#include <cstring>
#define PIXELS [[gnu::always_inline]] inline
PIXELS unsigned bits_of(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}
#endif

// Half precision made from bits, so that no header is needed.
struct Half {
    unsigned short bits;
};

struct BFloat16 {
    unsigned short bits;
};

PIXELS void store(unsigned char *out, float value) { *out = (unsigned char)value; }
PIXELS void store(float *out, float value) { *out = value; }
PIXELS void store(Half *out, float value) {
#ifdef __CUDACC__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out->bits) : "f"(value));
#else
    // Below 2^-14 the sum with 0.5 has the bits of half precision at its end; above, 13 bits are rounded off.
    const unsigned bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const unsigned small = bits_of(std::fabs(value) + 0.5f) - 0x3f000000;
    const unsigned large = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const unsigned finite = magnitude < 0x38800000 ? small : large;
    out->bits = (unsigned short)(sign | (magnitude < 0x47800000 ? finite : 0x7c00));
#endif
}
// Rounds to nearest, ties to even, by hand, since the instruction for it needs compute capability 8.0.
PIXELS void store(BFloat16 *out, float value) {
    const unsigned bits = bits_of(value);
    out->bits = (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
