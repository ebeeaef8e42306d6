// One decoded surface to RGB, cropped, resized with antialiasing, scaled and written into a batch slot.
//
// The kernel works in the picture's own orientation: rotation, mirroring and flip are only the strides of the
// slot. A block makes ROWS output rows by at most MAX_TILE output columns. It walks over the source columns they
// need in chunks of two columns a thread: each thread converts its two columns to RGB, row by row, summing the
// rows with the vertical filter's weights; then each output pixel sums the columns. So a source pixel is converted
// once for each pair of output rows (instead of once for each of its four output pixels), and no picture is stored.
//
// Source samples are codes; the matrix `m` and offset `b` turn them into RGB in [0, 1]. The code of an n-bit sample
// in the high bits of 16 is 2^(16-n) times larger, which the matrix has divided out.

constexpr int THREADS = 128;
constexpr int CHUNK = 2 * THREADS;
constexpr int ROWS = 2;
constexpr int MAX_TILE = 256;

struct Plan {
    long long out, out_c, out_y, out_x;  // slot: of the first element and between neighbours, elements
    int pitch;                           // samples
    int cb, cr;                          // from the first luma sample to the first of each chroma, samples
    int width, height;                   // of the whole picture: chroma is interpolated across the crop's border
    int left, top, columns, rows;        // the crop
    int resized_left, resized_top;       // first pixel put out of what the crop is resized to
    int out_width, out_height;           // pixels put out
    int tile;                            // output columns of a block
    float even_x, odd_x, even_y, odd_y;  // weight of the chroma sample before an even, after an odd luma sample
    float scale_x, scale_y;              // source pixels for one output pixel
    float m[9], b[3];                    // row by row: R, G, B from Y, Cb, Cr
    float gain[3], bias[3];              // output = RGB * gain + bias
};

// The source pixels of an output pixel and their weights, not yet normalised, as PyTorch defines them for
// antialias=True: a triangle as wide as the scale, at least one pixel, cut off at the border.
struct Taps {
    int first, last;
    float center, slope;

    __device__ Taps(int output, float scale, int size) {
        const float support = fmaxf(scale, 1.0f);
        center = scale * (output + 0.5f);
        slope = 1.0f / support;
        first = max(int(center - support + 0.5f), 0);
        last = min(int(center + support + 0.5f), size);
    }

    __device__ float weight(int i) const { return fmaxf(1.0f - fabsf((i + 0.5f - center) * slope), 0.0f); }
};

struct Rgb {
    float r, g, b;
};

struct Weighted {
    Rgb sum;
    float weight;
};

__device__ inline void store(unsigned char *out, float value) { *out = (unsigned char)value; }
__device__ inline void store(float *out, float value) { *out = value; }
// Half precision by its bits, so that no header is needed.
__device__ inline void store(unsigned short *out, float value) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(*out) : "f"(value));
}

__device__ inline Rgb scaled(Rgb a, float f) { return {a.r * f, a.g * f, a.b * f}; }

__device__ inline Rgb mix(Rgb a, Rgb b, float t) {
    return {a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t};
}

// All that chroma adds to R, G and B. It is linear, so it may be interpolated in place of Cb and Cr.
template <typename Sample>
__device__ inline Rgb chroma(const Plan &p, const Sample *surface, int at) {
    float cb = __ldg(surface + p.cb + at), cr = __ldg(surface + p.cr + at);
    return {p.m[1] * cb + p.m[2] * cr + p.b[0], p.m[4] * cb + p.m[5] * cr + p.b[1], p.m[7] * cb + p.m[8] * cr + p.b[2]};
}

// What chroma adds to the luma columns x (even) and x + 1 in one row of chroma; rows and columns outside repeat the edge.
template <typename Sample, bool SUBSAMPLED>
struct ChromaPair {
    Rgb even, odd;

    __device__ ChromaPair(const Plan &p, const Sample *surface, int x, int row) {
        if constexpr (SUBSAMPLED) {
            int column = x >> 1, last = (p.width - 1) >> 1;
            int line = min(max(row, 0), (p.height - 1) >> 1) * p.pitch;
            Rgb here = chroma(p, surface, line + 2 * min(column, last));
            even = odd = here;
            if (p.even_x != 0.0f) even = mix(here, chroma(p, surface, line + 2 * min(max(column - 1, 0), last)), p.even_x);
            if (p.odd_x != 0.0f) odd = mix(here, chroma(p, surface, line + 2 * min(column + 1, last)), p.odd_x);
        } else {
            even = chroma(p, surface, row * p.pitch + min(x, p.width - 1));
            odd = chroma(p, surface, row * p.pitch + min(x + 1, p.width - 1));
        }
    }
};

__device__ inline void add(Rgb &sum, Rgb value, float weight) {
    sum.r += value.r * weight;
    sum.g += value.g * weight;
    sum.b += value.b * weight;
}

__device__ inline Rgb convert_pixel(const Plan &p, float y, Rgb chroma) {
    return {__saturatef(p.m[0] * y + chroma.r), __saturatef(p.m[3] * y + chroma.g), __saturatef(p.m[6] * y + chroma.b)};
}

template <typename Sample, bool SUBSAMPLED, typename Output>
__global__ void __launch_bounds__(THREADS)
convert(const Sample *surface, Output *slot, const Plan p) {
    using Pair = ChromaPair<Sample, SUBSAMPLED>;
    __shared__ Rgb column_sums[ROWS][CHUNK];
    __shared__ Weighted totals[ROWS][MAX_TILE];

    const int first_row = blockIdx.y * ROWS, rows = min(ROWS, p.out_height - first_row);
    const int first_column = blockIdx.x * p.tile, columns = min(p.tile, p.out_width - first_column);
    const int row_of_resized = first_row + p.resized_top, column_of_resized = first_column + p.resized_left;
    Taps vertical[ROWS] = {Taps(row_of_resized, p.scale_y, p.rows), Taps(row_of_resized + rows - 1, p.scale_y, p.rows)};
    const int y_begin = p.top + vertical[0].first, y_end = p.top + vertical[ROWS - 1].last;
    const int x_begin = (p.left + Taps(column_of_resized, p.scale_x, p.columns).first) & ~1;
    const int x_end = p.left + Taps(column_of_resized + columns - 1, p.scale_x, p.columns).last;

    for (int i = threadIdx.x; i < rows * columns; i += THREADS) totals[i / columns][i % columns] = {};
    for (int chunk = x_begin; chunk < x_end; chunk += CHUNK) {
        const int x = chunk + 2 * threadIdx.x, x_odd = min(x + 1, p.width - 1);
        if (x < x_end) {
            Weighted even[ROWS] = {}, odd[ROWS] = {};
            // Luma rows 2n - 1 and 2n lie between chroma rows n - 1 and n.
            Pair above(p, surface, x, SUBSAMPLED ? ((y_begin + 1) >> 1) - 1 : y_begin);
            Pair below(p, surface, x, SUBSAMPLED ? (y_begin + 1) >> 1 : y_begin);
            for (int y = y_begin; y < y_end; ++y) {
                const bool is_odd = y & 1;
                if (y > y_begin && (is_odd || !SUBSAMPLED)) {
                    above = below;
                    below = Pair(p, surface, x, SUBSAMPLED ? (y + 1) >> 1 : y);
                }
                const float t = is_odd ? p.odd_y : 1.0f - p.even_y;
                const Rgb chroma_even = SUBSAMPLED ? mix(above.even, below.even, t) : below.even;
                const Rgb chroma_odd = SUBSAMPLED ? mix(above.odd, below.odd, t) : below.odd;
                const Rgb at_even = convert_pixel(p, __ldg(surface + y * p.pitch + x), chroma_even);
                const Rgb at_odd = convert_pixel(p, __ldg(surface + y * p.pitch + x_odd), chroma_odd);
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    const float weight = vertical[row].weight(y - p.top);
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
            const int row = i / columns, column = i % columns, offset = p.left - chunk;
            const Taps taps(column_of_resized + column, p.scale_x, p.columns);
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
        const Rgb value = scaled(total.sum, 1.0f / total.weight);
        Output *out = slot + p.out + (first_row + row) * p.out_y + (first_column + column) * p.out_x;
        store(out, value.r * p.gain[0] + p.bias[0]);
        store(out + p.out_c, value.g * p.gain[1] + p.bias[1]);
        store(out + 2 * p.out_c, value.b * p.gain[2] + p.bias[2]);
    }
}
