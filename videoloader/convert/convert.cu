// Converts a decoded picture to RGB, and crops, resizes and scales it into a batch slot.
//
// The kernel works in the picture's own orientation: rotation, mirroring and flip are only the strides of the
// slot. A block makes ROWS output rows by at most MAX_TILE output columns. It walks over the source columns they
// need in chunks of two columns a thread: each thread converts its two columns to RGB, row by row, summing the
// rows with the vertical filter's weights; then each output pixel sums the columns. So a source pixel is converted
// once for each pair of output rows (instead of once for each of its four output pixels), and no picture is stored.
//
// Compiled after numbers.h and pixels.h, as one text.

constexpr int THREADS = 128;
constexpr int CHUNK = 2 * THREADS;
constexpr int ROWS = 2;
constexpr int MAX_TILE = 256;
constexpr int MAX_PICTURES = 16;

struct Weighted {
    Rgb sum;
    float weight;
};

template <typename Sample>
__device__ inline Rgb chroma(const Plan &p, const Sample *surface, int at) {
    return chroma_part(p, __ldg(surface + p.cb + at), __ldg(surface + p.cr + at));
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
            // Of two columns, the even one never lies after its chroma sample, and the odd one never before it.
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

// Converts the block's part of one picture.
template <typename Sample, int SUB_X, int SUB_Y, Filter FILTER, typename Output>
__device__ __forceinline__ void convert_picture(const Sample *surface, Output *slot, const Plan &p) {
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
        if constexpr (overshoots(FILTER)) value = saturated(value);
        Output *out = slot + p.out + (first_row + row) * p.out_y + (first_column + column) * p.out_x;
        store(out, value.r * p.gain[0] + p.bias[0]);
        store(out + p.out_c, value.g * p.gain[1] + p.bias[1]);
        store(out + 2 * p.out_c, value.b * p.gain[2] + p.bias[2]);
    }
}

// Converts several pictures of one clip; a block's z is the number of its picture.
template <typename Sample, typename Output>
struct Pictures {
    const Sample *surface[MAX_PICTURES];
    Output *slot[MAX_PICTURES];
};

template <typename Sample, int SUB_X, int SUB_Y, Filter FILTER, typename Output>
__global__ void __launch_bounds__(THREADS)
convert(const Pictures<Sample, Output> pictures, const Plan p) {
    convert_picture<Sample, SUB_X, SUB_Y, FILTER>(pictures.surface[blockIdx.z], pictures.slot[blockIdx.z], p);
}

// Converts pictures that share only their types, each with its own plan. The grid is that of the largest.
struct Picture {
    const void *surface;
    void *slot;
    Plan plan;
};

template <typename Sample, int SUB_X, int SUB_Y, Filter FILTER, typename Output>
__global__ void __launch_bounds__(THREADS) convert_each(const Picture *pictures) {
    constexpr int WORDS = sizeof(Picture) / sizeof(int);
    __shared__ union { int words[WORDS]; long long aligned; } shared;
    const int *words = reinterpret_cast<const int *>(pictures + blockIdx.z);
    for (int i = threadIdx.x; i < WORDS; i += THREADS) shared.words[i] = words[i];
    __syncthreads();
    const Picture &picture = *reinterpret_cast<const Picture *>(shared.words);
    const Plan &p = picture.plan;
    if (int(blockIdx.y) * ROWS >= p.y.out_size || int(blockIdx.x) * p.tile >= p.x.out_size) return;
    convert_picture<Sample, SUB_X, SUB_Y, FILTER>(
        static_cast<const Sample *>(picture.surface), static_cast<Output *>(picture.slot), p);
}
