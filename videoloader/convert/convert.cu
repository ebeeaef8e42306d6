// One decoded picture to RGB, cropped, resized, scaled and written into a batch slot.
//
// The kernel works in the picture's own orientation: rotation, mirroring and flip are only the strides of the
// slot. A block makes ROWS output rows by at most MAX_TILE output columns. It walks over the source columns they
// need in chunks of two columns a thread: each thread converts its two columns to RGB, row by row, summing the
// rows with the vertical filter's weights; then each output pixel sums the columns. So a source pixel is converted
// once for each pair of output rows (instead of once for each of its four output pixels), and no picture is stored.
//
// Source samples are codes; the matrix `m` and offset `b` turn them into RGB in [0, 1]. A code that stands s bits
// up in its sample is 2^s times larger, which the matrix has divided out. Other colour models are other matrices.

constexpr int THREADS = 128;
constexpr int CHUNK = 2 * THREADS;
constexpr int ROWS = 2;
constexpr int MAX_TILE = 256;
constexpr int MAX_PICTURES = 16;

enum Filter { LINEAR, CUBIC, CUBIC_EDGES, NEAREST };

// Rows or columns: what is resized, and how.
struct Axis {
    int start, size;               // the crop
    int resized_start, out_size;   // what is put out of that to which the crop is resized
    int mirror;                    // nearest: last pixel of that, if the picture is shown from its far end; else -1
    float scale, support, slope;   // source pixels for an output pixel, on each side of it, and weight lost per pixel
};

struct Plan {
    long long out, out_c, out_y, out_x;   // slot: of the first element and between neighbours, elements
    int pitch, chroma_pitch, chroma_step; // samples
    int cb, cr;                           // from the first luma sample to the first of each chroma, samples
    int width, height;                    // of the whole picture: chroma is interpolated across the crop's border
    int tile;                             // output columns of a block
    int lead_y;                           // luma rows that have the next chroma row below them, of four that share one
    Axis x, y;
    float beside_x[4];                    // by luma column: weight of the chroma sample before (negative) or after
    float below_y[4];                     // by luma row: weight of the lower of the two chroma rows around it
    float m[9], b[3];                     // row by row: R, G, B from Y, Cb, Cr
    float gain[3], bias[3];               // output = RGB * gain + bias
};

// Keys, "Cubic convolution interpolation for digital image processing" (1981), with his parameter a.
__device__ inline float cubic(float x, float a) {
    x = fabsf(x);
    if (x < 1.0f) return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
    return x < 2.0f ? (((x - 5.0f) * x + 8.0f) * x - 4.0f) * a : 0.0f;
}

// The source pixels of an output pixel and their weights, not yet normalised, as PyTorch's `interpolate` has them.
// LINEAR and CUBIC are cut off at the border (for LINEAR without antialias that equals repeating the edge);
// CUBIC_EDGES repeats the edge, whose pixel gets the weights of the two beyond it.
template <Filter FILTER>
struct Taps {
    int first, last, edge;
    float center, slope;

    __device__ Taps(int output, const Axis &axis) {
        edge = axis.size - 1;
        slope = axis.slope;
        if constexpr (FILTER == NEAREST) {
            const bool mirrored = axis.mirror >= 0;
            const int pixel = min(int((mirrored ? axis.mirror - output : output) * axis.scale), edge);
            first = mirrored ? edge - pixel : pixel;
            last = first + 1;
        } else {
            center = axis.scale * (output + 0.5f);
            first = max(int(center - axis.support + 0.5f), 0);
            last = min(int(center + axis.support + 0.5f), axis.size);
        }
    }

    __device__ float weight(int i) const {
        if constexpr (FILTER == NEAREST) {
            return i == first ? 1.0f : 0.0f;
        } else {
            const float distance = i + 0.5f - center;
            if constexpr (FILTER == LINEAR) return fmaxf(1.0f - fabsf(distance * slope), 0.0f);
            if constexpr (FILTER == CUBIC) return cubic(distance * slope, -0.5f);
            float sum = cubic(distance, -0.75f);
            if (i == 0) sum += cubic(distance - 1.0f, -0.75f) + cubic(distance - 2.0f, -0.75f);
            if (i == edge) sum += cubic(distance + 1.0f, -0.75f) + cubic(distance + 2.0f, -0.75f);
            return sum;
        }
    }
};

struct Rgb {
    float r, g, b;
};

struct Weighted {
    Rgb sum;
    float weight;
};

// Half precision by its bits, so that no header is needed.
struct Half {
    unsigned short bits;
};

struct BFloat16 {
    unsigned short bits;
};

__device__ inline void store(unsigned char *out, float value) { *out = (unsigned char)value; }
__device__ inline void store(float *out, float value) { *out = value; }
__device__ inline void store(Half *out, float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out->bits) : "f"(value));
}
// To nearest, ties to even, by hand: the instruction for it came with compute capability 8.0.
__device__ inline void store(BFloat16 *out, float value) {
    const unsigned bits = __float_as_uint(value);
    out->bits = (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ inline Rgb scaled(Rgb a, float f) { return {a.r * f, a.g * f, a.b * f}; }

__device__ inline Rgb saturated(Rgb a) { return {__saturatef(a.r), __saturatef(a.g), __saturatef(a.b)}; }

__device__ inline Rgb mix(Rgb a, Rgb b, float t) {
    return {a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t};
}

// All that chroma adds to R, G and B. It is linear, so it may be interpolated in place of Cb and Cr.
template <typename Sample>
__device__ inline Rgb chroma(const Plan &p, const Sample *surface, int at) {
    float cb = __ldg(surface + p.cb + at), cr = __ldg(surface + p.cr + at);
    return {p.m[1] * cb + p.m[2] * cr + p.b[0], p.m[4] * cb + p.m[5] * cr + p.b[1], p.m[7] * cb + p.m[8] * cr + p.b[2]};
}

// What chroma adds to the luma columns x (even) and x + 1 in one row of chroma; rows and columns outside repeat the
// edge. A chroma sample stands for 2^SUB_X columns and 2^SUB_Y rows of luma.
template <typename Sample, int SUB_X, int SUB_Y>
struct ChromaPair {
    Rgb even, odd;

    __device__ ChromaPair(const Plan &p, const Sample *surface, int x, int row) {
        const int line = SUB_Y ? min(max(row, 0), (p.height - 1) >> SUB_Y) * p.chroma_pitch : row * p.chroma_pitch;
        if constexpr (SUB_X > 0) {
            const int column = x >> SUB_X, last = (p.width - 1) >> SUB_X, phase = SUB_X == 2 ? x & 2 : 0;
            const Rgb here = chroma(p, surface, line + p.chroma_step * min(column, last));
            const float t = p.beside_x[phase], u = p.beside_x[phase + 1];
            even = odd = here;
            // Of two columns the even one never lies after its chroma sample and the odd one never before it.
            const int before = SUB_X == 1 || t < 0.0f ? -1 : 1, after = SUB_X == 1 || u > 0.0f ? 1 : -1;
            if (t != 0.0f)
                even = mix(here, chroma(p, surface, line + p.chroma_step * min(max(column + before, 0), last)), fabsf(t));
            if (u != 0.0f)
                odd = mix(here, chroma(p, surface, line + p.chroma_step * min(max(column + after, 0), last)), fabsf(u));
        } else {
            even = chroma(p, surface, line + p.chroma_step * min(x, p.width - 1));
            odd = chroma(p, surface, line + p.chroma_step * min(x + 1, p.width - 1));
        }
    }
};

__device__ inline void add(Rgb &sum, Rgb value, float weight) {
    sum.r += value.r * weight;
    sum.g += value.g * weight;
    sum.b += value.b * weight;
}

__device__ inline Rgb convert_pixel(const Plan &p, float y, Rgb chroma) {
    return saturated({p.m[0] * y + chroma.r, p.m[3] * y + chroma.g, p.m[6] * y + chroma.b});
}

// Several pictures of one clip at once: each block's z tells which.
template <typename Sample, typename Output>
struct Pictures {
    const Sample *surface[MAX_PICTURES];
    Output *slot[MAX_PICTURES];
};

template <typename Sample, int SUB_X, int SUB_Y, Filter FILTER, typename Output>
__global__ void __launch_bounds__(THREADS)
convert(const Pictures<Sample, Output> pictures, const Plan p) {
    const Sample *surface = pictures.surface[blockIdx.z];
    Output *slot = pictures.slot[blockIdx.z];
    using Pair = ChromaPair<Sample, SUB_X, SUB_Y>;
    __shared__ Rgb column_sums[ROWS][CHUNK];
    __shared__ Weighted totals[ROWS][MAX_TILE];

    const int first_row = blockIdx.y * ROWS, rows = min(ROWS, p.y.out_size - first_row);
    const int first_column = blockIdx.x * p.tile, columns = min(p.tile, p.x.out_size - first_column);
    const int row_of_resized = first_row + p.y.resized_start, column_of_resized = first_column + p.x.resized_start;
    const Taps<FILTER> vertical[ROWS] = {{row_of_resized, p.y}, {row_of_resized + rows - 1, p.y}};
    const int y_begin = p.y.start + vertical[0].first, y_end = p.y.start + vertical[ROWS - 1].last;
    const int x_begin = (p.x.start + Taps<FILTER>(column_of_resized, p.x).first) & ~1;
    const int x_end = p.x.start + Taps<FILTER>(column_of_resized + columns - 1, p.x).last;
    // Luma rows whose number plus `lead` has the same quotient lie between the same two rows of chroma.
    constexpr int SHARING = 1 << SUB_Y;
    const int lead = SUB_Y == 2 ? p.lead_y : SUB_Y;

    for (int i = threadIdx.x; i < rows * columns; i += THREADS) totals[i / columns][i % columns] = {};
    for (int chunk = x_begin; chunk < x_end; chunk += CHUNK) {
        const int x = chunk + 2 * threadIdx.x, x_odd = min(x + 1, p.width - 1);
        if (x < x_end) {
            Weighted even[ROWS] = {}, odd[ROWS] = {};
            Pair above(p, surface, x, SUB_Y ? ((y_begin + lead) >> SUB_Y) - 1 : y_begin);
            Pair below(p, surface, x, (y_begin + lead) >> SUB_Y);
            for (int y = y_begin; y < y_end; ++y) {
                if (y > y_begin && ((y + lead) & (SHARING - 1)) == 0) {
                    above = below;
                    below = Pair(p, surface, x, (y + lead) >> SUB_Y);
                }
                const float t = SUB_Y == 1 ? (y & 1 ? p.below_y[1] : p.below_y[0]) : p.below_y[y & (SHARING - 1)];
                const Rgb chroma_even = SUB_Y ? mix(above.even, below.even, t) : below.even;
                const Rgb chroma_odd = SUB_Y ? mix(above.odd, below.odd, t) : below.odd;
                const Rgb at_even = convert_pixel(p, __ldg(surface + y * p.pitch + x), chroma_even);
                const Rgb at_odd = convert_pixel(p, __ldg(surface + y * p.pitch + x_odd), chroma_odd);
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const float weight = vertical[row].weight(y - p.y.start);
                    add(even[row].sum, at_even, weight);
                    add(odd[row].sum, at_odd, weight);
                    even[row].weight += weight;
                }
            }
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                const float norm = 1.0f / even[row].weight;
                column_sums[row][2 * threadIdx.x] = scaled(even[row].sum, norm);
                column_sums[row][2 * threadIdx.x + 1] = scaled(odd[row].sum, norm);
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < rows * columns; i += THREADS) {
            const int row = i / columns, column = i % columns, offset = p.x.start - chunk;
            const Taps<FILTER> taps(column_of_resized + column, p.x);
            const int first = max(taps.first, -offset), last = min(taps.last, CHUNK - offset);
            Weighted total = totals[row][column];
            for (int j = first; j < last; ++j) {
                const float weight = taps.weight(j);
                add(total.sum, column_sums[row][j + offset], weight);
                total.weight += weight;
            }
            totals[row][column] = total;
        }
        __syncthreads();
    }

    for (int i = threadIdx.x; i < rows * columns; i += THREADS) {
        const int row = i / columns, column = i % columns;
        const Weighted total = totals[row][column];
        Rgb value = scaled(total.sum, 1.0f / total.weight);
        // Cubic weights may be negative, so their sums may leave the range of the pixels.
        if constexpr (FILTER == CUBIC || FILTER == CUBIC_EDGES) value = saturated(value);
        Output *out = slot + p.out + (first_row + row) * p.out_y + (first_column + column) * p.out_x;
        store(out, value.r * p.gain[0] + p.bias[0]);
        store(out + p.out_c, value.g * p.gain[1] + p.bias[1]);
        store(out + 2 * p.out_c, value.b * p.gain[2] + p.bias[2]);
    }
}
