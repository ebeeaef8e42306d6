// The operations of a step on all clips of a batch, one of them for each clip.
//
// `operate` carries them out: a block makes CHUNK pixels of one frame. For tables that follow from the pixels
// `statistics` counts what they need, and `tables` makes them of it, before. Arithmetic is that of cpu_operations.py, in
// the same order; compiled without fused multiply-add, so that both devices round alike.

constexpr int THREADS = 256;
constexpr int AT_ONCE = 4;           // neighbouring pixels that a thread makes together
constexpr int CHUNK = 4096;          // pixels of a block of `operate`
constexpr int COUNTED_CHUNK = 8192;  // and of one of `statistics`
constexpr int TABLE = 3 * 256;

// In the order of cuda_operations.py.
enum Operation { COPY, LOOK_UP, STATISTIC, COLOR_MATRIX, HUE_SHIFT, SHARPEN, WARP, ERASE };
enum Statistic { CONTRAST, AUTO_CONTRAST, EQUALIZE };
enum Interpolation { NEAREST, BILINEAR, BICUBIC };

typedef unsigned char Byte;
typedef unsigned long long Count;

// A clip and what to do to it. Arrays of the operation have one row, or one for each frame.
struct Clip {
    const Byte *source;        // [T, 3, height, width]
    void *target;              // the same, of its own size; or in the output's layout and number type, if `last`
    long long values;          // of the operation: bytes from Step::values, of a STATISTIC from Step::tables
    long long counts;          // of a STATISTIC: from Step::counts, elements
    long long factors;         // of a CONTRAST: bytes from Step::values
    int operation, variant;    // variant: the statistic, or the interpolation
    int height, width, out_height, out_width;
    int rows, count_rows, factor_rows;  // of the values; of a STATISTIC's table, counts and factors
    int last;
    int boxes, down, across;
    int extend;  // of a WARP: whether its border pixels go on outside, in place of the fill
    float fill[3];
};

struct Step {
    const Clip *clips;
    const Byte *values;
    Byte *tables;
    Count *counts;
    long long out_frame, out_channel, out_pixel;  // of the output, between neighbours: elements
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

// AT_ONCE pixels as they are read: a byte each.
struct Packed {
    unsigned word[3];

    __device__ Color color(int i) const {
        const int shift = 8 * i;
        return {(int)(word[0] >> shift & 255), (int)(word[1] >> shift & 255), (int)(word[2] >> shift & 255)};
    }
};

// Half precision by its bits, so that no header is needed.
struct Half {
    unsigned short bits;
};

struct BFloat16 {
    unsigned short bits;
};

template <typename Number>
struct alignas(AT_ONCE * sizeof(Number)) Numbers {
    Number n[AT_ONCE];
};

__device__ inline void convert(float value, float &out) { out = value; }
__device__ inline void convert(float value, Half &out) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value)); }
// To nearest, ties to even, by hand: the instruction for it came with compute capability 8.0.
__device__ inline void convert(float value, BFloat16 &out) {
    const unsigned bits = __float_as_uint(value);
    out.bits = (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ inline int rounded(float value) { return (int)(fminf(fmaxf(value, 0.0f), 255.0f) + 0.5f); }

__device__ inline int row_of(int rows, int frame) { return rows > 1 ? frame : 0; }

// Gray values of ITU-R BT.601 in Pillow's integers.
__device__ inline int gray(Color in) { return (19595 * in.c[0] + 38470 * in.c[1] + 7471 * in.c[2] + 32768) >> 16; }

// One frame that is read.
struct Picture {
    const Byte *first;
    int height, width, plane;

    __device__ Picture(const Clip &clip, int frame) : height(clip.height), width(clip.width) {
        plane = height * width;
        first = clip.source + 3LL * frame * plane;
    }

    __device__ int at(int channel, int pixel) const { return __ldg(first + (long long)channel * plane + pixel); }

    __device__ Color color(int pixel) const { return {at(0, pixel), at(1, pixel), at(2, pixel)}; }

    // AT_ONCE pixels, or as many as there are.
    __device__ Packed load(int pixel) const {
        Packed result = {};
        const bool whole = ((plane | (int)(unsigned long long)first) & (AT_ONCE - 1)) == 0;
#pragma unroll
        for (int channel = 0; channel < 3; ++channel) {
            if (whole) {
                result.word[channel] = __ldg((const unsigned *)(first + (long long)channel * plane + pixel));
            } else {
#pragma unroll
                for (int i = 0; i < AT_ONCE; ++i)
                    if (pixel + i < plane) result.word[channel] |= (unsigned)at(channel, pixel + i) << (8 * i);
            }
        }
        return result;
    }
};

// What operations make of a pixel by itself.

struct Same {
    __device__ Color operator()(Color in, int, int) const { return in; }
};

struct LookedUp {
    const Byte *table;  // shared

    __device__ Color operator()(Color in, int, int) const {
        return {table[in.c[0]], table[256 + in.c[1]], table[512 + in.c[2]]};
    }
};

struct Matrix {
    float m[12];

    __device__ explicit Matrix(const float *values) {
        for (int i = 0; i < 12; ++i) m[i] = __ldg(values + i);
    }

    __device__ Color operator()(Color in, int, int) const {
        const float r = in.c[0], g = in.c[1], b = in.c[2];
        Color out;
#pragma unroll
        for (int i = 0; i < 3; ++i)
            out.c[i] = rounded(m[4 * i] * r + m[4 * i + 1] * g + m[4 * i + 2] * b + m[4 * i + 3]);
        return out;
    }
};

// In HSV's hexcone largest and smallest component are value and what saturation leaves of it: a turn keeps both.
struct HueTurned {
    float sixths;

    __device__ static float part(float value) { return fminf(fmaxf(value, 0.0f), 1.0f); }

    __device__ Color operator()(Color in, int, int) const {
        const int r = in.c[0], g = in.c[1], b = in.c[2];
        const int most = max(max(r, g), b), least = min(min(r, g), b), range = most - least;
        if (range == 0) return in;
        float hue = most == r ? float(g - b) / float(range)
                    : most == g ? float(b - r) / float(range) + 2.0f
                                : float(r - g) / float(range) + 4.0f;
        hue = hue + sixths;
        hue = hue - 6.0f * floorf(hue / 6.0f);
        const float low = least, high = range;
        return {rounded(low + high * part(fabsf(hue - 3.0f) - 1.0f)), rounded(low + high * part(2.0f - fabsf(hue - 2.0f))),
                rounded(low + high * part(2.0f - fabsf(hue - 4.0f)))};
    }
};

struct Erased {
    const int *boxes;
    int count;
    Color fill;

    __device__ Color operator()(Color in, int x, int y) const {
        for (int i = 0; i < count; ++i) {
            const int down = y - __ldg(boxes + 4 * i), right = x - __ldg(boxes + 4 * i + 1);
            if (down >= 0 && right >= 0 && down < __ldg(boxes + 4 * i + 2) && right < __ldg(boxes + 4 * i + 3)) return fill;
        }
        return in;
    }
};

// What operations make of a pixel's neighbourhood, or of one elsewhere.

struct Sharpened {
    Picture picture;
    float factor;

    __device__ Color operator()(int x, int y) const {
        const int pixel = y * picture.width + x;
        Color out = picture.color(pixel);
        if (x == 0 || y == 0 || x == picture.width - 1 || y == picture.height - 1) return out;
#pragma unroll
        for (int channel = 0; channel < 3; ++channel) {
            int sum = 4 * out.c[channel];
#pragma unroll
            for (int row = -1; row <= 1; ++row) {
                const int left = pixel + row * picture.width - 1;
                sum += picture.at(channel, left) + picture.at(channel, left + 1) + picture.at(channel, left + 2);
            }
            const int smooth = (2 * sum + 13) / 26;
            out.c[channel] = rounded(float(smooth) + factor * float(out.c[channel] - smooth));
        }
        return out;
    }
};

// Keys, "Cubic convolution interpolation for digital image processing" (1981), a = -0.75: weights of the four pixels
// around a point that lies `t` after the second.
__device__ inline void cubic_weights(float t, float *weights) {
    const float a = -0.75f, before = t + 1.0f, after = 1.0f - t, last = after + 1.0f;
    weights[0] = ((a * before - 5.0f * a) * before + 8.0f * a) * before - 4.0f * a;
    weights[1] = ((a + 2.0f) * t - (a + 3.0f)) * t * t + 1.0f;
    weights[2] = ((a + 2.0f) * after - (a + 3.0f)) * after * after + 1.0f;
    weights[3] = ((a * last - 5.0f * a) * last + 8.0f * a) * last - 4.0f * a;
}

// SIMPLE: one sample, and nothing to divide by.
template <Interpolation INTERPOLATION, bool SIMPLE>
struct Warped {
    Picture picture;
    const double *m;
    const float *fill;
    int down, across;
    bool extend;

    // A pixel's values, or what is outside. There is no branch, so that many are read at a time.
    __device__ Floats tap(int x, int y) const {
        const bool inside =
            extend || ((unsigned)x < (unsigned)picture.width && (unsigned)y < (unsigned)picture.height);
        if (extend) x = min(max(x, 0), picture.width - 1), y = min(max(y, 0), picture.height - 1);
        const Color color = picture.color(inside ? y * picture.width + x : 0);
        Floats result;
#pragma unroll
        for (int i = 0; i < 3; ++i) result.c[i] = inside ? float(color.c[i]) : fill[i];
        return result;
    }

    // The value at a point of the input. A point whose taps all lie outside, or that is none (0 / 0), has the fill's.
    __device__ Floats at(double u, double v) const {
        constexpr int BEFORE = INTERPOLATION == NEAREST ? 0 : INTERPOLATION == BILINEAR ? 1 : 2;
        constexpr int AFTER = INTERPOLATION == BICUBIC ? 1 : 0;
        if constexpr (INTERPOLATION != NEAREST) u = u - 0.5, v = v - 0.5;
        // Further away nothing changes any more; fmin and fmax leave no point that is none (0 / 0).
        if (extend) {
            u = fmin(fmax(u, (double)-BEFORE), (double)(picture.width - 1 + AFTER));
            v = fmin(fmax(v, (double)-BEFORE), (double)(picture.height - 1 + AFTER));
        }
        const bool inside = u >= -BEFORE && v >= -BEFORE && u < picture.width + AFTER && v < picture.height + AFTER;
        const int outside = -8;  // no tap of it lies inside
        const int x = inside ? (int)floor(u) : outside, y = inside ? (int)floor(v) : outside;
        if constexpr (INTERPOLATION == NEAREST) return tap(x, y);
        const float right = (float)(u - x), below = (float)(v - y);
        Floats result = {};
        if constexpr (INTERPOLATION == BILINEAR) {
            const float left = 1.0f - right, above = 1.0f - below;
            const Floats taps[4] = {tap(x, y), tap(x + 1, y), tap(x, y + 1), tap(x + 1, y + 1)};
#pragma unroll
            for (int i = 0; i < 3; ++i) {
                const float upper = taps[0].c[i] * left + taps[1].c[i] * right;
                const float lower = taps[2].c[i] * left + taps[3].c[i] * right;
                result.c[i] = upper * above + lower * below;
            }
        }
        if constexpr (INTERPOLATION == BICUBIC) {
            float columns[4], rows[4];
            cubic_weights(right, columns);
            cubic_weights(below, rows);
#pragma unroll 1
            for (int row = 0; row < 4; ++row) {
                Floats line = {};
#pragma unroll
                for (int column = 0; column < 4; ++column) {
                    const Floats value = tap(x - 1 + column, y - 1 + row);
                    for (int i = 0; i < 3; ++i) line.c[i] = line.c[i] + value.c[i] * columns[column];
                }
                for (int i = 0; i < 3; ++i) result.c[i] = result.c[i] + line.c[i] * rows[row];
            }
        }
#pragma unroll
        for (int i = 0; i < 3; ++i) result.c[i] = inside ? result.c[i] : fill[i];
        return result;
    }

    __device__ Color operator()(int x, int y) const {
        if constexpr (SIMPLE) {
            const double right = x + 0.5, below = y + 0.5;
            const Floats value = at(m[0] * right + m[1] * below + m[2], m[3] * right + m[4] * below + m[5]);
            return {rounded(value.c[0]), rounded(value.c[1]), rounded(value.c[2])};
        }
        Floats sum = {};
#pragma unroll 1
        for (int row = 0; row < down; ++row) {
#pragma unroll 1
            for (int column = 0; column < across; ++column) {
                const double right = x + (column + 0.5) / across, below = y + (row + 0.5) / down;
                const double w = m[6] * right + m[7] * below + m[8];
                double u = m[0] * right + m[1] * below + m[2], v = m[3] * right + m[4] * below + m[5];
                if (w != 1.0) u = u / w, v = v / w;
                const Floats value = at(u, v);
                for (int i = 0; i < 3; ++i) sum.c[i] = sum.c[i] + value.c[i];
            }
        }
        const float count = down * across;
        return {rounded(sum.c[0] / count), rounded(sum.c[1] / count), rounded(sum.c[2] / count)};
    }
};

// How values are written.

// value / 255, correctly rounded for whole values up to 255; the division instruction's exceptions take many registers.
__device__ inline float unit(float value) {
    const float close = value * (1.0f / 255.0f);
    return __fmaf_rn(__fmaf_rn(-255.0f, close, value), 1.0f / 255.0f, close);
}

__device__ inline Byte number(const Step &, int, int value, Byte) { return (Byte)value; }

template <typename Number>
__device__ inline Number number(const Step &step, int channel, int value, Number) {
    Number result;
    convert(unit(float(value)) * step.scale[channel] + step.shift[channel], result);
    return result;
}

// `count` of AT_ONCE pixels to where the first one goes; `channel_step` and `pixel_step` lie between neighbours.
template <typename Number>
__device__ void store(const Step &step, Number *out, long long channel_step, long long pixel_step, int count, bool whole,
                      const Pixels &pixels) {
    Number values[3 * AT_ONCE];
    const bool planar = pixel_step == 1;
#pragma unroll
    for (int channel = 0; channel < 3; ++channel) {
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            values[AT_ONCE * channel + i] = number(step, channel, pixels.p[i].c[channel], Number());
    }
    if (whole && planar) {
#pragma unroll
        for (int channel = 0; channel < 3; ++channel) {
            Numbers<Number> four;
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) four.n[i] = values[AT_ONCE * channel + i];
            *(Numbers<Number> *)(out + channel * channel_step) = four;
        }
    } else if (whole && channel_step == 1) {
#pragma unroll
        for (int part = 0; part < 3; ++part) {
            Numbers<Number> four;
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i) {
                const int at = AT_ONCE * part + i;
                four.n[i] = values[AT_ONCE * (at % 3) + at / 3];
            }
            *(Numbers<Number> *)(out + AT_ONCE * part) = four;
        }
    } else {
#pragma unroll
        for (int channel = 0; channel < 3; ++channel) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                if (i < count) out[channel * channel_step + i * pixel_step] = values[AT_ONCE * channel + i];
        }
    }
}

// Pixels that are made of those in their place. All that a thread reads is under way before it makes any of it.
template <typename Output, typename Change>
__device__ void change_pixels(const Step &step, const Clip &clip, int frame, const Picture &picture, Change change) {
    constexpr int STRIDE = AT_ONCE * THREADS, ROUNDS = CHUNK / STRIDE;
    const int begin = blockIdx.x * CHUNK + AT_ONCE * threadIdx.x, plane = picture.plane, width = picture.width;
    Packed read[ROUNDS];
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round)
        if (begin + round * STRIDE < plane) read[round] = picture.load(begin + round * STRIDE);
#pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        const int first = begin + round * STRIDE;
        if (first >= plane) return;
        Pixels pixels;
        int y = first / width, x = first - y * width;
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            pixels.p[i] = change(read[round].color(i), x, y);
            if (++x == width) x = 0, ++y;
        }
        const int count = min(AT_ONCE, plane - first);
        const bool whole = plane % AT_ONCE == 0;
        if (clip.last) {
            Output *out = (Output *)clip.target + frame * step.out_frame + first * step.out_pixel;
            store(step, out, step.out_channel, step.out_pixel, count, whole, pixels);
        } else {
            Byte *out = (Byte *)clip.target + 3LL * frame * plane + first;
            store(step, out, plane, 1, count, whole, pixels);
        }
    }
}

// Pixels that are made of those elsewhere, each thread so many at a time. The threads of a warp make neighbours: they
// read near each other, too.
template <typename Output, int AT_A_TIME, typename Make>
__device__ void make_pixels(const Step &step, const Clip &clip, int frame, Make make) {
    const int width = clip.out_width, plane = clip.out_height * width;
    const int begin = blockIdx.x * CHUNK, end = min(begin + CHUNK, plane);
#pragma unroll 1
    for (int first = begin + threadIdx.x; first < end; first += AT_A_TIME * THREADS) {
        Color colors[AT_A_TIME];
#pragma unroll
        for (int i = 0; i < AT_A_TIME; ++i) {
            const int pixel = min(first + i * THREADS, end - 1), y = pixel / width;
            colors[i] = make(pixel - y * width, y);
        }
#pragma unroll
        for (int i = 0; i < AT_A_TIME; ++i) {
            const int pixel = first + i * THREADS;
            if (pixel >= end) return;
            if (clip.last) {
                Output *out = (Output *)clip.target + frame * step.out_frame + pixel * step.out_pixel;
#pragma unroll
                for (int c = 0; c < 3; ++c) out[c * step.out_channel] = number(step, c, colors[i].c[c], Output());
            } else {
                Byte *out = (Byte *)clip.target + 3LL * frame * plane + pixel;
#pragma unroll
                for (int c = 0; c < 3; ++c) out[c * (long long)plane] = (Byte)colors[i].c[c];
            }
        }
    }
}

template <typename Output, Interpolation INTERPOLATION, bool SIMPLE>
__device__ void warp(const Step &step, const Clip &clip, int frame, const Picture &picture, const double *m) {
    make_pixels<Output, SIMPLE ? 2 : 1>(
        step, clip, frame, Warped<INTERPOLATION, SIMPLE>{picture, m, clip.fill, clip.down, clip.across, clip.extend != 0});
}

// Grid: (chunks of the largest frame, frames, clips).
template <typename Output>
__global__ void __launch_bounds__(THREADS, 4) operate(const Step step) {
    __shared__ Byte table[TABLE];
    const Clip &clip = step.clips[blockIdx.z];
    const int frame = blockIdx.y;
    if ((long long)blockIdx.x * CHUNK >= (long long)clip.out_height * clip.out_width) return;
    const Picture picture(clip, frame);
    const int row = row_of(clip.rows, frame);
    const Byte *values = step.values + clip.values;

    switch (clip.operation) {
    case LOOK_UP:
    case STATISTIC: {
        const Byte *from = (clip.operation == STATISTIC ? step.tables + clip.values : values) + TABLE * row;
        for (int i = threadIdx.x; i < TABLE; i += THREADS) table[i] = from[i];
        __syncthreads();
        return change_pixels<Output>(step, clip, frame, picture, LookedUp{table});
    }
    case COLOR_MATRIX:
        return change_pixels<Output>(step, clip, frame, picture, Matrix((const float *)values + 12 * row));
    case HUE_SHIFT:
        return change_pixels<Output>(step, clip, frame, picture, HueTurned{6.0f * ((const float *)values)[row]});
    case ERASE: {
        const Erased erased = {(const int *)values + 4LL * clip.boxes * row, clip.boxes,
                               {rounded(clip.fill[0]), rounded(clip.fill[1]), rounded(clip.fill[2])}};
        return change_pixels<Output>(step, clip, frame, picture, erased);
    }
    case SHARPEN:
        return make_pixels<Output, 1>(step, clip, frame, Sharpened{picture, ((const float *)values)[row]});
    case WARP: {
        const double *m = (const double *)values + 9 * row;
        const bool simple = m[6] == 0.0 && m[7] == 0.0 && m[8] == 1.0 && clip.down * clip.across == 1;
        if (clip.variant == BICUBIC) return warp<Output, BICUBIC, false>(step, clip, frame, picture, m);
        if (clip.variant == BILINEAR)
            return simple ? warp<Output, BILINEAR, true>(step, clip, frame, picture, m)
                          : warp<Output, BILINEAR, false>(step, clip, frame, picture, m);
        return simple ? warp<Output, NEAREST, true>(step, clip, frame, picture, m)
                      : warp<Output, NEAREST, false>(step, clip, frame, picture, m);
    }
    default:
        return change_pixels<Output>(step, clip, frame, picture, Same());
    }
}

// The clips with a STATISTIC come first in a step; `counts` holds zeros. For each row of counts:
// CONTRAST: the sum of the gray values; AUTO_CONTRAST: for each channel the largest value and 255 less the smallest;
// EQUALIZE: the histograms of the channels.
__device__ inline int counts_of(int statistic) { return statistic == CONTRAST ? 1 : statistic == AUTO_CONTRAST ? 6 : TABLE; }

// Grid: (counted chunks of the largest frame, frames, clips with a STATISTIC).
__global__ void __launch_bounds__(THREADS) statistics(const Step step) {
    __shared__ unsigned shared[TABLE];
    const Clip &clip = step.clips[blockIdx.z];
    const Picture picture(clip, blockIdx.y);
    const long long begin = (long long)blockIdx.x * COUNTED_CHUNK;
    if (begin >= picture.plane) return;
    const int end = (int)min(begin + COUNTED_CHUNK, (long long)picture.plane), used = counts_of(clip.variant);
    for (int i = threadIdx.x; i < used; i += THREADS) shared[i] = 0;
    __syncthreads();

    unsigned sum = 0, most[6] = {};
    for (int first = (int)begin + AT_ONCE * threadIdx.x; first < end; first += AT_ONCE * THREADS) {
        const Packed pixels = picture.load(first);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
            if (first + i >= end) continue;
            const Color color = pixels.color(i);
            if (clip.variant == CONTRAST) sum += gray(color);
#pragma unroll
            for (int channel = 0; channel < 3; ++channel) {
                const unsigned value = color.c[channel];
                if (clip.variant == EQUALIZE) atomicAdd(shared + 256 * channel + value, 1u);
                most[2 * channel] = max(most[2 * channel], value);
                most[2 * channel + 1] = max(most[2 * channel + 1], 255 - value);
            }
        }
    }
    if (clip.variant == CONTRAST) atomicAdd(shared, sum);
    if (clip.variant == AUTO_CONTRAST) {
#pragma unroll
        for (int i = 0; i < 6; ++i) atomicMax(shared + i, most[i]);
    }
    __syncthreads();

    Count *counts = step.counts + clip.counts + (long long)used * row_of(clip.count_rows, blockIdx.y);
    for (int i = threadIdx.x; i < used; i += THREADS) {
        if (clip.variant == AUTO_CONTRAST)
            atomicMax(counts + i, (Count)shared[i]);
        else if (shared[i])
            atomicAdd(counts + i, (Count)shared[i]);
    }
}

// One channel of a table, one value a thread. Grid: (rows of the longest table, channels, clips with a STATISTIC).
__global__ void __launch_bounds__(256) tables(const Step step) {
    __shared__ Count below[256];
    __shared__ int largest;
    const Clip &clip = step.clips[blockIdx.z];
    const int row = blockIdx.x, channel = blockIdx.y, value = threadIdx.x;
    if (row >= clip.rows) return;
    const Count *counts = step.counts + clip.counts + (long long)counts_of(clip.variant) * row_of(clip.count_rows, row);
    const Count pixels = (Count)clip.height * clip.width * (clip.count_rows > 1 ? 1 : step.length);
    int result = value;
    if (clip.variant == CONTRAST) {
        const float factor = ((const float *)(step.values + clip.factors))[row_of(clip.factor_rows, row)];
        const float mean = (float)((double)counts[0] / (double)pixels);
        result = rounded(mean + factor * (float(value) - mean));
    } else if (clip.variant == AUTO_CONTRAST) {
        const int high = (int)counts[2 * channel], low = 255 - (int)counts[2 * channel + 1], range = high - low;
        if (range > 0) result = min(max((2 * 255 * (value - low) + range) / (2 * range), 0), 255);
    } else {
        const Count own = counts[256 * channel + value];
        if (value == 0) largest = 0;
        below[value] = own;
        __syncthreads();
        if (own) atomicMax(&largest, value);
        for (int distance = 1; distance < 256; distance *= 2) {
            const Count before = value >= distance ? below[value - distance] : 0;
            __syncthreads();
            below[value] += before;
            __syncthreads();
        }
        const Count equal_step = (pixels - counts[256 * channel + largest]) / 255;
        if (equal_step) result = (int)min((below[value] - own + equal_step / 2) / equal_step, (Count)255);
    }
    step.tables[clip.values + TABLE * row + 256 * channel + value] = (Byte)result;
}
