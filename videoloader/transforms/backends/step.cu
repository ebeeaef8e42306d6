// The structures of a step, which the host fills in.
//
// The backend compiles numbers.h, step.cu, operations.cu, operate.cu and statistics.cu as one program. `operate`
// carries out the operations of a step, one for each clip: a block makes CHUNK pixels of one frame. For tables computed
// from pixels, `statistics` first counts what they need, and `tables` then makes them. Arithmetic is that of cpu.py, in
// the same order, and compiled without fused multiply-add, so that both devices round alike.

constexpr int THREADS = 256;
constexpr int AT_ONCE = 4;           // neighbouring pixels that a thread makes together
constexpr int CHUNK = 4096;          // pixels per block of `operate`
constexpr int COUNTED_CHUNK = 8192;  // pixels per block of `statistics`
constexpr int TABLE = 3 * 256;

// Operations are in the order of ``ARRAYS`` in operations.py, statistics and interpolations in that of cuda.py.
enum Operation { COPY, LOOK_UP, STATISTIC, COLOR_MATRIX, HUE_SHIFT, SHARPEN, WARP, ERASE };
enum Statistic { CONTRAST, AUTO_CONTRAST, EQUALIZE };
enum Interpolation { NEAREST, BILINEAR, BICUBIC };

typedef unsigned char Byte;
typedef unsigned long long Count;

// A clip and its operation. Arrays of the operation have one row, or one for each frame.
struct Clip {
    const Byte *source;        // [T, 3, height, width]
    void *target;              // the same with its own size; or if `last`, in the output's layout and type
    long long values;          // the operation's array: bytes from Step::values, for a STATISTIC from Step::tables
    long long counts;          // for a STATISTIC: elements from Step::counts
    long long factors;         // for a CONTRAST: bytes from Step::values
    int operation, variant;    // variant: the statistic, or the interpolation
    int height, width, out_height, out_width;
    int rows, count_rows, factor_rows;  // rows of the values, counts and factors
    int last;
    int boxes, down, across;
    int extend;  // for a WARP: whether its border pixels extend outside, instead of the fill
    float fill[3];
};

struct Step {
    const Clip *clips;
    const Byte *values;
    Byte *tables;
    Count *counts;
    long long out_frame, out_channel, out_pixel;  // strides of the output in elements
    float scale[3], shift[3];                     // output = value / 255 * scale + shift
    int length;                                   // T
};

struct Color {
    int c[3];
};

struct Floats {
    float c[3];
};

struct Pixels {
    Color p[AT_ONCE];
};

// AT_ONCE pixels as they are read, one byte each.
struct Packed {
    unsigned word[3];

    __device__ Color color(int i) const {
        const int shift = 8 * i;
        return {(int)(word[0] >> shift & 255), (int)(word[1] >> shift & 255), (int)(word[2] >> shift & 255)};
    }
};

template <typename Number>
struct alignas(AT_ONCE * sizeof(Number)) Numbers {
    Number n[AT_ONCE];
};

__device__ inline int rounded(float value) { return (int)(fminf(fmaxf(value, 0.0f), 255.0f) + 0.5f); }

__device__ inline int row_of(int rows, int frame) { return rows > 1 ? frame : 0; }

// Gray values of ITU-R BT.601 in Pillow's integers.
__device__ inline int gray(Color in) { return (19595 * in.c[0] + 38470 * in.c[1] + 7471 * in.c[2] + 32768) >> 16; }
