// The arithmetic of pixels, shared by CUDA (convert.cu) and C++ (convert.cpp).
//
// Source samples are codes; the matrix `m` and offset `b` turn them into RGB in [0, 1]. A code that stands s bits
// up in its sample is 2^s times larger, which the matrix has divided out. Other colour models are other matrices.
//
// Compiled after numbers.h.

#ifdef __CUDACC__
PIXELS float fused(float a, float b, float c) { return a * b + c; }  // nvcc fuses it into one operation
PIXELS float saturated(float x) { return __saturatef(x); }
#else
// a * b + c, rounded once. Plain expressions are rounded twice (-ffp-contract=off).
PIXELS float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
PIXELS float saturated(float x) {
    x = x > 0.0f ? x : 0.0f;
    return x < 1.0f ? x : 1.0f;
}
PIXELS int min(int a, int b) { return a < b ? a : b; }
PIXELS int max(int a, int b) { return a > b ? a : b; }
#endif

enum Filter { LINEAR, CUBIC, CUBIC_EDGES, NEAREST, FILTER_COUNT };

// Cubic weights may be negative, so their sums may leave the range of the pixels.
PIXELS constexpr bool overshoots(Filter filter) { return filter == CUBIC || filter == CUBIC_EDGES; }

// Rows or columns: what is resized, and how.
struct Axis {
    int start, size;               // the crop
    int resized_start, out_size;   // the part of the resized crop that is output
    int mirror;                    // nearest: last resized pixel if the picture is shown from its far end, else -1
    float scale, support, slope;   // source pixels per output pixel, on each side of it, and weight lost per pixel
};

struct Plan {
    long long out, out_c, out_y, out_x;   // slot, in elements: offset of the first one, and strides
    int pitch, chroma_pitch;              // samples
    int luma_step, chroma_step;           // samples; the luma of packed pixels is not side by side
    int cb, cr;                           // from the first luma sample to the first of each chroma, samples
    int width, height;                    // of the whole picture, as chroma is interpolated across the crop's border
    int tile;                             // output columns of a block
    int lead_y;                           // luma rows that have the next chroma row below them, of four that share one
    Axis x, y;
    float beside_x[4];                    // by luma column: weight of the chroma sample before (negative) or after
    float below_y[4];                     // by luma row: weight of the lower of the two chroma rows around it
    float m[9], b[3];                     // row by row: R, G, B from Y, Cb, Cr
    float gain[3], bias[3];               // output = RGB * gain + bias
};

// Keys, "Cubic convolution interpolation for digital image processing" (1981), with his parameter a.
PIXELS float cubic(float x, float a) {
    x = fabsf(x);
    if (x < 1.0f) return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
    return x < 2.0f ? (((x - 5.0f) * x + 8.0f) * x - 4.0f) * a : 0.0f;
}

// The source pixels of an output pixel and their weights, not yet normalised, as PyTorch's `interpolate` has them.
// LINEAR and CUBIC are truncated at the border (for LINEAR without antialias that equals repeating the edge);
// CUBIC_EDGES repeats the edge, whose pixel gets the weights of the two beyond it.
template <Filter FILTER>
struct Taps {
    int first, last, edge;
    float center, slope;

    PIXELS Taps(int output, const Axis &axis) {
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

    PIXELS float distance(int i) const { return i + 0.5f - center; }

    PIXELS float weight(int i) const {
        if constexpr (FILTER == NEAREST) {
            return i == first ? 1.0f : 0.0f;
        } else if constexpr (FILTER == LINEAR) {
            return fmaxf(1.0f - fabsf(distance(i) * slope), 0.0f);
        } else if constexpr (FILTER == CUBIC) {
            return cubic(distance(i) * slope, -0.5f);
        } else {
            static_assert(FILTER == CUBIC_EDGES, "a filter needs its weights here");
            const float x = distance(i);
            float sum = cubic(x, -0.75f);
            if (i == 0) sum += cubic(x - 1.0f, -0.75f) + cubic(x - 2.0f, -0.75f);
            if (i == edge) sum += cubic(x + 1.0f, -0.75f) + cubic(x + 2.0f, -0.75f);
            return sum;
        }
    }
};

struct Rgb {
    float r, g, b;
};

PIXELS Rgb scaled(Rgb a, float f) { return {a.r * f, a.g * f, a.b * f}; }

PIXELS Rgb saturated(Rgb a) { return {saturated(a.r), saturated(a.g), saturated(a.b)}; }

PIXELS Rgb mix(Rgb a, Rgb b, float t) {
    return {fused(b.r - a.r, t, a.r), fused(b.g - a.g, t, a.g), fused(b.b - a.b, t, a.b)};
}

// What chroma adds to R, G and B. It is linear, so it can be interpolated in place of Cb and Cr.
PIXELS Rgb chroma_part(const Plan &p, float cb, float cr) {
    return {
        fused(p.m[1], cb, p.m[2] * cr) + p.b[0], fused(p.m[4], cb, p.m[5] * cr) + p.b[1],
        fused(p.m[7], cb, p.m[8] * cr) + p.b[2]};
}

PIXELS Rgb convert_pixel(const Plan &p, float y, Rgb chroma) {
    return saturated({fused(p.m[0], y, chroma.r), fused(p.m[3], y, chroma.g), fused(p.m[6], y, chroma.b)});
}
