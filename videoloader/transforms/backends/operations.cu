// The operations on pixels.

// A frame to read from.
struct Picture {
    const Byte *first;
    int height, width, plane;

    __device__ Picture(const Clip &clip, int frame) : height(clip.height), width(clip.width) {
        plane = height * width;
        first = clip.source + 3LL * frame * plane;
    }

    __device__ int at(int channel, int pixel) const { return __ldg(first + (long long)channel * plane + pixel); }

    __device__ Color color(int pixel) const { return {at(0, pixel), at(1, pixel), at(2, pixel)}; }

    // AT_ONCE pixels, or as many as are left.
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

// Operations on single pixels.

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

// In HSV's hexcone the largest and smallest components depend only on value and saturation, so rotating keeps both.
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

// Operations that read a pixel's neighbours, or pixels elsewhere.

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

// Keys, "Cubic convolution interpolation for digital image processing" (1981), a = -0.75: the weights of the four
// pixels around a point at distance `t` after the second.
__device__ inline void cubic_weights(float t, float *weights) {
    const float a = -0.75f, before = t + 1.0f, after = 1.0f - t, last = after + 1.0f;
    weights[0] = ((a * before - 5.0f * a) * before + 8.0f * a) * before - 4.0f * a;
    weights[1] = ((a + 2.0f) * t - (a + 3.0f)) * t * t + 1.0f;
    weights[2] = ((a + 2.0f) * after - (a + 3.0f)) * after * after + 1.0f;
    weights[3] = ((a * last - 5.0f * a) * last + 8.0f * a) * last - 4.0f * a;
}

// SIMPLE: a single sample, and no perspective division.
template <Interpolation INTERPOLATION, bool SIMPLE>
struct Warped {
    Picture picture;
    const double *m;
    const float *fill;
    int down, across;
    bool extend;

    // A pixel's values, or the fill outside. There is no branch, so that many are read at a time.
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

    // The value at a point of the input. A point whose taps are all outside, or an undefined one (0 / 0), has the fill's.
    __device__ Floats at(double u, double v) const {
        constexpr int BEFORE = INTERPOLATION == NEAREST ? 0 : INTERPOLATION == BILINEAR ? 1 : 2;
        constexpr int AFTER = INTERPOLATION == BICUBIC ? 1 : 0;
        if constexpr (INTERPOLATION != NEAREST) u = u - 0.5, v = v - 0.5;
        // Points further away are all alike; fmin and fmax also remove undefined points (0 / 0).
        if (extend) {
            u = fmin(fmax(u, (double)-BEFORE), (double)(picture.width - 1 + AFTER));
            v = fmin(fmax(v, (double)-BEFORE), (double)(picture.height - 1 + AFTER));
        }
        const bool inside = u >= -BEFORE && v >= -BEFORE && u < picture.width + AFTER && v < picture.height + AFTER;
        const int outside = -8;  // none of its taps is inside
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
