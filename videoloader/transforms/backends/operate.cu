// Writes values, and the kernel that carries out a step.

// value / 255, correctly rounded for integers up to 255; a division instruction would take many registers.
__device__ inline float unit(float value) {
    const float close = value * (1.0f / 255.0f);
    return __fmaf_rn(__fmaf_rn(-255.0f, close, value), 1.0f / 255.0f, close);
}

__device__ inline Byte number(const Step &, int, int value, Byte) { return (Byte)value; }

template <typename Number>
__device__ inline Number number(const Step &step, int channel, int value, Number) {
    Number result;
    store(&result, unit(float(value)) * step.scale[channel] + step.shift[channel]);
    return result;
}

// Stores `count` of AT_ONCE pixels from `out` on; `channel_step` and `pixel_step` are strides.
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

// Makes pixels from those in the same place. A thread issues all its reads before it makes the first pixel.
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

// Makes pixels from those elsewhere, each thread AT_A_TIME at once. The threads of a warp make neighbouring pixels, so
// they also read close to each other.
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
