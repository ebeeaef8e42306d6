// Converts decoded pictures in memory to RGB, and crops, resizes and scales them into batch slots, as convert.cu does
// on the GPU.
//
// A picture is made row by row, in its own orientation. The rows of floats for red, green and blue stay in the
// processor's cache: two rows of chroma at luma's width, the rows of RGB that an output row sums up, and their sums.
// The order of operations is that of the kernel, so a pixel has the same bits wherever it lies, however many are made
// at once, and on any processor.
//
// native.py calls these functions, which do not use Python. On x86 they need AVX2 and FMA.

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#endif

#include "pixels.h"

#include <cstddef>
#include <cstdlib>

// No iteration of the loop that follows reads what another one writes.
#define INDEPENDENT _Pragma("GCC ivdep")

namespace {

enum Output { UINT8, FLOAT16, BFLOAT16, FLOAT32 };

// A picture's planes, and the slot that the plan's offset counts from.
struct Picture {
    const void *y, *cb, *cr;
    void *slot;
};

// What the plan does not say about pictures.
struct Kind {
    int sample_bytes, halvings_x, halvings_y;  // log2 of the luma columns and rows that share a chroma sample
    int filter, output;
};

// Rows of red, green and blue.
template <typename T>
struct Rows {
    T *r, *g, *b;

    PIXELS Rows operator+(ptrdiff_t x) const { return {r + x, g + x, b + x}; }
};

PIXELS Rgb at(Rows<float> row, int x) { return {row.r[x], row.g[x], row.b[x]}; }

PIXELS void put(Rows<float> row, int x, Rgb value) { row.r[x] = value.r, row.g[x] = value.g, row.b[x] = value.b; }

// Memory for a call, all zeros.
class Memory {
public:
    Memory() = default;
    Memory(const Memory &) = delete;
    ~Memory() {
        for (int i = 0; i < count_; ++i) std::free(pieces_[i]);
    }

    template <typename T>
    T *take(ptrdiff_t length) {
        void *piece = std::calloc(length, sizeof(T));
        if (!piece) failed = true;
        return static_cast<T *>(pieces_[count_++] = piece);
    }

    template <typename T>
    Rows<T> rows(ptrdiff_t length) {
        T *start = take<T>(3 * length);
        return {start, start + length, start + 2 * length};
    }

    bool failed = false;

private:
    static constexpr int MOST = 16;
    void *pieces_[MOST];
    int count_ = 0;
};

// The source pixels of all output pixels of an axis, their weights, and the reciprocal of their sum.
struct Weights {
    int *first, *count;
    float *norm, *weights;
    int most, used;  // source pixels of an output pixel: memory for this many, and how many there are
    int begin, end;  // the range of source pixels
};

template <Filter FILTER>
void weigh(const Axis &axis, Weights &into) {
    into.begin = axis.start + axis.size, into.end = axis.start, into.used = 0;
    for (int i = 0; i < axis.out_size; ++i) {
        const Taps<FILTER> taps(i + axis.resized_start, axis);
        float sum = 0.0f, *weights = into.weights + (ptrdiff_t)i * into.most;
        for (int k = 0; k < into.most; ++k) {
            weights[k] = k < taps.last - taps.first ? taps.weight(taps.first + k) : 0.0f;
            sum += weights[k];
        }
        into.first[i] = axis.start + taps.first, into.count[i] = taps.last - taps.first, into.norm[i] = 1.0f / sum;
        into.used = max(into.used, into.count[i]);
        into.begin = min(into.begin, into.first[i]), into.end = max(into.end, into.first[i] + into.count[i]);
    }
}

// If there is no memory for the weights, `failed` is set.
Weights weights_of(const Axis &axis, int filter, Memory &memory) {
    Weights made;
    made.most = filter == NEAREST ? 1 : (int)(2 * axis.support) + 2;
    made.first = memory.take<int>(axis.out_size), made.count = memory.take<int>(axis.out_size);
    made.norm = memory.take<float>(axis.out_size);
    made.weights = memory.take<float>((ptrdiff_t)axis.out_size * made.most);
    if (memory.failed) return made;
    if (filter == LINEAR) weigh<LINEAR>(axis, made);
    if (filter == CUBIC) weigh<CUBIC>(axis, made);
    if (filter == CUBIC_EDGES) weigh<CUBIC_EDGES>(axis, made);
    if (filter == NEAREST) weigh<NEAREST>(axis, made);
    return made;
}

// What chroma adds to the luma columns from `begin` on, in one row of chroma; columns outside repeat the edge.
template <int HALVINGS, int STEP, typename Sample>
void chroma_row(
    const Plan &plan, const Sample *__restrict cb, const Sample *__restrict cr, int begin, int end,
    Rows<float> samples, Rows<float> into) {
    const Plan p = plan;
    const int last = (p.width - 1) >> HALVINGS, beside = HALVINGS > 0;
    const int from = begin >> HALVINGS, count = ((end - 1) >> HALVINGS) + 1 - from;
    const int left = max(from - beside, 0), right = min(from + count - 1 + beside, last);
    const Rows<float> target = HALVINGS ? samples + (left - from + 1) : into;
    INDEPENDENT
    for (int i = 0; i <= right - left; ++i)
        put(target, i, chroma_part(p, cb[(left + i) * STEP], cr[(left + i) * STEP]));
    if constexpr (HALVINGS > 0) {
        const Rows<float> here = samples + 1;
        if (from == 0) put(here, -1, at(here, 0));
        if (from + count - 1 == last) put(here, count, at(here, count - 1));
        constexpr int SHARING = 1 << HALVINGS;
        for (int phase = 0; phase < SHARING; phase += 2) {
            const float t = p.beside_x[phase], u = p.beside_x[phase + 1];
            const Rows<float> even_side = here + (t > 0.0f ? 1 : -1), odd_side = here + (u < 0.0f ? -1 : 1);
            const Rows<float> out = into + phase;
            INDEPENDENT
            for (int i = 0; i < count; ++i) {
                put(out, SHARING * i, mix(at(here, i), at(even_side, i), fabsf(t)));
                put(out, SHARING * i + 1, mix(at(here, i), at(odd_side, i), fabsf(u)));
            }
        }
    }
}

template <typename Sample>
void chroma_row(
    const Plan &p, int halvings, const Sample *cb, const Sample *cr, int begin, int end, Rows<float> samples,
    Rows<float> into) {
    if (halvings == 1 && p.chroma_step == 1) chroma_row<1, 1>(p, cb, cr, begin, end, samples, into);
    else if (halvings == 1) chroma_row<1, 2>(p, cb, cr, begin, end, samples, into);
    else if (halvings == 2) chroma_row<2, 1>(p, cb, cr, begin, end, samples, into);
    else if (p.chroma_step == 1) chroma_row<0, 1>(p, cb, cr, begin, end, samples, into);
    else chroma_row<0, 2>(p, cb, cr, begin, end, samples, into);
}

// A row of luma with its chroma, which lies between two rows, as RGB times `gain` plus `bias`.
template <bool BETWEEN, typename Sample, typename Number>
void rgb_row(
    const Plan &plan, const Sample *__restrict luma, Rows<float> above, Rows<float> below, float t, int count,
    Rgb gain, Rgb bias, Rows<Number> into) {
    const Plan p = plan;  // a copy, so that the compiler knows that no pixel is written into it
    const float *__restrict above_r = above.r, *__restrict above_g = above.g, *__restrict above_b = above.b;
    const float *__restrict below_r = below.r, *__restrict below_g = below.g, *__restrict below_b = below.b;
    Number *__restrict red = into.r, *__restrict green = into.g, *__restrict blue = into.b;
    INDEPENDENT
    for (int x = 0; x < count; ++x) {
        Rgb chroma = {below_r[x], below_g[x], below_b[x]};
        if constexpr (BETWEEN) chroma = mix({above_r[x], above_g[x], above_b[x]}, chroma, t);
        const Rgb value = convert_pixel(p, luma[x], chroma);
        store(red + x, fused(value.r, gain.r, bias.r));
        store(green + x, fused(value.g, gain.g, bias.g));
        store(blue + x, fused(value.b, gain.b, bias.b));
    }
}

// Rows of RGB of one picture, from its column `begin` on.
template <typename Sample>
struct Source {
    const Plan &p;
    const Kind &kind;
    const Sample *y, *cb, *cr;
    int begin, end;
    Rows<float> samples, chroma[2];
    int chroma_rows[2] = {-1, -1};  // the numbers of the rows in them

    Rows<float> chroma_at(int row) {
        row = min(max(row, 0), (p.height - 1) >> kind.halvings_y);
        const Rows<float> into = chroma[row & 1];
        if (chroma_rows[row & 1] != row) {
            const ptrdiff_t line = (ptrdiff_t)row * p.chroma_pitch;
            chroma_row(p, kind.halvings_x, cb + line, cr + line, begin, end, samples, into);
            chroma_rows[row & 1] = row;
        }
        return into + (begin & ((1 << kind.halvings_x) - 1));
    }

    template <typename Number>
    void row(int row, Rgb gain, Rgb bias, Rows<Number> into) {
        const Sample *luma = y + (ptrdiff_t)row * p.pitch + begin;
        if (!kind.halvings_y) {
            const Rows<float> beside = chroma_at(row);
            rgb_row<false>(p, luma, beside, beside, 0.0f, end - begin, gain, bias, into);
            return;
        }
        const int below = (row + (kind.halvings_y == 2 ? p.lead_y : 1)) >> kind.halvings_y;
        const float t = p.below_y[row & ((1 << kind.halvings_y) - 1)];
        const Rows<float> upper = chroma_at(below - 1);
        rgb_row<true>(p, luma, upper, chroma_at(below), t, end - begin, gain, bias, into);
    }
};

// A pixel of a row whose colours lie side by side, so that a weight multiplies all of them at once.
typedef float Pixel __attribute__((vector_size(16)));

PIXELS Pixel fused_pixel(Pixel a, float b, Pixel c) {
#ifdef __x86_64__
    return __builtin_ia32_vfmaddps(a, Pixel{b, b, b, b}, c);
#else
    return Pixel{fused(a[0], b, c[0]), fused(a[1], b, c[1]), fused(a[2], b, c[2]), fused(a[3], b, c[3])};
#endif
}

// The rows of RGB of one row of pixels, summed up by its weights, in whole blocks.
constexpr int BLOCK = 32;

void sum_rows(const Rows<float> *rows, const float *weights, int count, float norm, int width, Pixel *into) {
    for (int begin = 0; begin < width; begin += BLOCK) {
        float red[BLOCK] = {}, green[BLOCK] = {}, blue[BLOCK] = {};
        for (int k = 0; k < count; ++k) {
            const Rows<float> row = rows[k] + begin;
            const float weight = weights[k];
            for (int x = 0; x < BLOCK; ++x) red[x] = fused(row.r[x], weight, red[x]);
            for (int x = 0; x < BLOCK; ++x) green[x] = fused(row.g[x], weight, green[x]);
            for (int x = 0; x < BLOCK; ++x) blue[x] = fused(row.b[x], weight, blue[x]);
        }
        for (int x = 0; x < BLOCK; ++x) into[begin + x] = Pixel{red[x], green[x], blue[x], 0.0f} * norm;
    }
}

// The weighted sum of the columns of each pixel of a row; the last pixel comes first if the row is backward.
void sum_columns(
    const Pixel *columns, const Weights &weights, int begin, int count, bool backward, Pixel *into) {
    const int used = weights.used;
    const float *weight = weights.weights;
    for (int x = 0; x < count; ++x, weight += weights.most) {
        const Pixel *column = columns + (weights.first[x] - begin);
        Pixel sum = {};
        // The same count for each pixel, so that branches are predicted; missing weights are 0.
        for (int k = 0; k < used; ++k) sum = fused_pixel(column[k], weight[k], sum);
        into[backward ? count - 1 - x : x] = sum * weights.norm[x];
    }
}

// Where to write a row of the output: straight into the slot if its pixels lie side by side there.
template <typename Number>
PIXELS Rows<Number> place(const Plan &p, Number *slot, int row, Rows<Number> otherwise) {
    Number *at = slot + p.out + row * p.out_y;
    return p.out_x == 1 ? Rows<Number>{at, at + p.out_c, at + 2 * p.out_c} : otherwise;
}

template <typename Number>
void spread(const Plan &p, Number *slot, int row, Rows<Number> made) {
    Number *at = slot + p.out + row * p.out_y;
    const long long step = p.out_x, plane = p.out_c;
    if (step == 1) return;
    for (int x = 0; x < p.x.out_size; ++x) {
        at[x * step] = made.r[x];
        at[x * step + plane] = made.g[x];
        at[x * step + 2 * plane] = made.b[x];
    }
}

template <typename Number>
void finish(const Pixel *sums, int count, bool overshoots, Rgb gain, Rgb bias, Rows<Number> into) {
    INDEPENDENT
    for (int x = 0; x < count; ++x) {
        Rgb value = {sums[x][0], sums[x][1], sums[x][2]};
        // Cubic weights may be negative, so their sums may leave the range of the pixels.
        if (overshoots) value = saturated(value);
        store(into.r + x, fused(value.r, gain.r, bias.r));
        store(into.g + x, fused(value.g, gain.g, bias.g));
        store(into.b + x, fused(value.b, gain.b, bias.b));
    }
}

template <typename Sample>
Source<Sample> source_of(const Plan &p, const Kind &kind, int begin, int end, Memory &memory) {
    const int length = end - begin + 16;
    const Rows<float> samples = memory.rows<float>(length), even = memory.rows<float>(length);
    return {p, kind, nullptr, nullptr, nullptr, begin, end, samples, {even, memory.rows<float>(length)}};
}

template <typename Sample>
void show(Source<Sample> &source, const Picture &picture) {
    source.y = static_cast<const Sample *>(picture.y);
    source.cb = static_cast<const Sample *>(picture.cb), source.cr = static_cast<const Sample *>(picture.cr);
    source.chroma_rows[0] = source.chroma_rows[1] = -1;
}

// Converts pictures without resizing. Returns whether there was memory for it.
template <typename Sample, typename Number>
bool convert_whole(const Plan &plan, const Kind &kind, const Picture *pictures, int count) {
    const Plan p = plan;  // a copy, so that the compiler knows that no pixel is written into it
    const Rgb gain = {p.gain[0], p.gain[1], p.gain[2]}, bias = {p.bias[0], p.bias[1], p.bias[2]};
    const int begin = p.x.start + p.x.resized_start, first = p.y.start + p.y.resized_start;
    Memory memory;
    Source<Sample> source = source_of<Sample>(p, kind, begin, begin + p.x.out_size, memory);
    const Rows<Number> otherwise = memory.rows<Number>(p.x.out_size);
    if (memory.failed) return false;
    for (; count > 0; --count, ++pictures) {
        show(source, *pictures);
        Number *slot = static_cast<Number *>(pictures->slot);
        for (int row = 0; row < p.y.out_size; ++row) {
            const Rows<Number> into = place(p, slot, row, otherwise);
            source.row(first + row, gain, bias, into);
            spread(p, slot, row, into);
        }
    }
    return true;
}

// Converts and resizes pictures. Returns whether there was memory for it.
template <typename Sample, typename Number>
bool convert_resized(const Plan &plan, const Kind &kind, const Picture *pictures, int count) {
    Plan p = plan;
    const bool backward = p.out_x == -1;
    if (backward) p.out -= p.x.out_size - 1, p.out_x = 1;
    const Rgb gain = {p.gain[0], p.gain[1], p.gain[2]}, bias = {p.bias[0], p.bias[1], p.bias[2]};
    const bool overshoots = kind.filter == CUBIC || kind.filter == CUBIC_EDGES;
    Memory memory;
    const Weights columns = weights_of(p.x, kind.filter, memory), rows = weights_of(p.y, kind.filter, memory);
    if (memory.failed) return false;
    const int begin = columns.begin, width = columns.end - begin;
    Source<Sample> source = source_of<Sample>(p, kind, begin, begin + width, memory);
    const Rows<Number> otherwise = memory.rows<Number>(p.x.out_size);
    // The last rows of RGB, row y at y modulo their number; and those of an output row, in order.
    const int length = (width + BLOCK - 1) / BLOCK * BLOCK;
    const Rows<float> made = memory.rows<float>((ptrdiff_t)rows.most * length);
    Rows<float> *wanted = memory.take<Rows<float>>(rows.most);
    int *which = memory.take<int>(rows.most);
    Pixel *summed = memory.take<Pixel>(length + columns.most), *sums = memory.take<Pixel>(p.x.out_size);
    if (memory.failed) return false;
    for (; count > 0; --count, ++pictures) {
        show(source, *pictures);
        Number *slot = static_cast<Number *>(pictures->slot);
        for (int i = 0; i < rows.most; ++i) which[i] = -1;
        for (int row = 0; row < p.y.out_size; ++row) {
            for (int k = 0; k < rows.count[row]; ++k) {
                const int y = rows.first[row] + k, kept = y % rows.most;
                wanted[k] = made + (ptrdiff_t)kept * length;
                if (which[kept] != y) source.row(y, {1.0f, 1.0f, 1.0f}, {0.0f, 0.0f, 0.0f}, wanted[k]);
                which[kept] = y;
            }
            const float *weights = rows.weights + (ptrdiff_t)row * rows.most;
            sum_rows(wanted, weights, rows.count[row], rows.norm[row], width, summed);
            sum_columns(summed, columns, begin, p.x.out_size, backward, sums);
            const Rows<Number> into = place(p, slot, row, otherwise);
            finish(sums, p.x.out_size, overshoots, gain, bias, into);
            spread(p, slot, row, into);
        }
    }
    return true;
}

template <typename Sample, typename Number>
bool convert(const Plan &p, const Kind &kind, const Picture *pictures, int count) {
    const bool whole = p.x.scale == 1.0f && p.y.scale == 1.0f;
    return whole ? convert_whole<Sample, Number>(p, kind, pictures, count)
                 : convert_resized<Sample, Number>(p, kind, pictures, count);
}

template <typename Sample>
bool convert(const Plan &p, const Kind &kind, const Picture *pictures, int count) {
    switch (kind.output) {
        case UINT8: return convert<Sample, unsigned char>(p, kind, pictures, count);
        case FLOAT16: return convert<Sample, Half>(p, kind, pictures, count);
        case BFLOAT16: return convert<Sample, BFloat16>(p, kind, pictures, count);
        default: return convert<Sample, float>(p, kind, pictures, count);
    }
}

bool convert(const Plan &p, const Kind &kind, const Picture *pictures, int count) {
    return kind.sample_bytes == 1 ? convert<unsigned char>(p, kind, pictures, count)
                                  : convert<unsigned short>(p, kind, pictures, count);
}

}  // namespace

// Converts pictures by one plan. Returns 0 if there is no memory for it.
extern "C" int videoloader_convert(const Plan *plan, const Kind *kind, const Picture *pictures, int count) {
    return convert(*plan, *kind, pictures, count);
}

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif

// Whether this was compiled for this processor and for plans of this many bytes; it may come from other sources.
extern "C" int videoloader_suits(int plan_bytes) {
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
#endif
    return plan_bytes == sizeof(Plan);
}
