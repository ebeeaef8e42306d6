// The kernels that make tables computed from pixels.
//
// The clips with a STATISTIC come first in a step; `counts` holds zeros. For each row of counts:
// CONTRAST: the sum of the gray values; AUTO_CONTRAST: for each channel the largest value and 255 minus the smallest;
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

// Makes one channel of a table, one value a thread. Grid: (rows of the longest table, channels, clips with a STATISTIC).
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
