// Converts decoded pictures in memory to RGB, and crops, resizes and scales them into batch slots, as convert.cu does
// on the GPU.
//
// A picture is made in its own orientation, row by row, or eight rows at a time where it is resized. The rows of floats
// for red, green and blue stay in the processor's cache: two rows of chroma at luma's width, the rows of RGB that an
// output row sums up, and the sums of eight rows, which are then turned into columns to be summed up across.
// The order of operations is that of the kernel, so a pixel has the same bits wherever it lies, however many are made
// at once, and on any processor.
//
// native.py calls these functions, which do not use Python. On x86 they need AVX2, FMA and F16C.

#ifdef __x86_64__
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#endif

#include "numbers.h"
#include "pixels.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

// No iteration of the loop that follows reads what another one writes.
#define INDEPENDENT _Pragma("GCC ivdep")

namespace {

enum Output { UINT8, FLOAT16, BFLOAT16, FLOAT32, OUTPUT_COUNT };

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
        void *piece = count_ < MOST ? std::calloc(length * sizeof(T) + ALIGNMENT, 1) : nullptr;
        if (!piece) {
            failed = true;
            return nullptr;
        }
        pieces_[count_++] = piece;
        const auto address = reinterpret_cast<std::uintptr_t>(piece);
        return reinterpret_cast<T *>((address + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    }

    template <typename T>
    Rows<T> rows(ptrdiff_t length) {
        T *start = take<T>(3 * length);
        return {start, start + length, start + 2 * length};
    }

    bool failed = false;

private:
    static constexpr int MOST = 24, ALIGNMENT = 64;
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

// Writes numbers in the type of the output.
template <typename Number>
PIXELS void store_row(const float *__restrict from, int count, Number *__restrict into) {
    INDEPENDENT
    for (int x = 0; x < count; ++x) store(into + x, from[x]);
}

#ifdef __x86_64__
PIXELS void store_row(const float *__restrict from, int count, Half *__restrict into) {
    int x = 0;
    for (; x + 8 <= count; x += 8) {
        const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + x), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(into + x), halves);
    }
    for (; x < count; ++x) store(into + x, from[x]);
}
#endif

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

// As above; the numbers come first, since the processor turns several of them into half precision at once.
template <bool BETWEEN, typename Sample>
void rgb_row(
    const Plan &plan, const Sample *__restrict luma, Rows<float> above, Rows<float> below, float t, int count,
    Rgb gain, Rgb bias, Rows<Half> into) {
    constexpr int MOST = 256;
    float red[MOST], green[MOST], blue[MOST];
    for (int x = 0; x < count; x += MOST) {
        const int some = min(MOST, count - x);
        rgb_row<BETWEEN>(plan, luma + x, above + x, below + x, t, some, gain, bias, Rows<float>{red, green, blue});
        store_row(red, some, into.r + x), store_row(green, some, into.g + x), store_row(blue, some, into.b + x);
    }
}

// Gives the components of packed pixels rows of their own. All four components of a pixel may be read, so that the
// loop can be vectorised, but nothing beyond the last pixel.
template <int STEP, typename Sample>
void unpack(
    const Sample *__restrict from, int count, Sample *__restrict first, Sample *__restrict second,
    Sample *__restrict third) {
    INDEPENDENT
    for (int i = 0; i < count; ++i)
        first[i] = from[STEP * i], second[i] = from[STEP * i + 1], third[i] = from[STEP * i + 2];
}

template <typename Sample>
void unpack_gray(const Sample *__restrict from, int count, Sample *__restrict into) {
    INDEPENDENT
    for (int i = 0; i < count; ++i) into[i] = from[2 * i];
}

// Rows of RGB of one picture, from its column `begin` on.
template <typename Sample>
struct Source {
    const Plan &p;
    const Kind &kind;
    const Sample *y, *cb, *cr;
    int begin, end;
    Rows<float> samples, chroma[2];
    Rows<Sample> unpacked;          // a row of packed pixels: red, green and blue
    int chroma_rows[2] = {-1, -1};  // the numbers of the rows in them

    Rows<float> chroma_at(int row) {
        row = min(max(row, 0), (p.height - 1) >> kind.halvings_y);
        const Rows<float> into = chroma[row & 1];
        if (chroma_rows[row & 1] != row) {
            const ptrdiff_t line = (ptrdiff_t)row * p.chroma_pitch;
            const bool packed = p.luma_step > 1;
            const Sample *blue = packed ? unpacked.b - begin : cb + line;
            const Sample *red = packed ? unpacked.r - begin : cr + line;
            chroma_row(p, kind.halvings_x, blue, red, begin, end, samples, into);
            chroma_rows[row & 1] = row;
        }
        return into + (begin & ((1 << kind.halvings_x) - 1));
    }

    // The luma of a row, or its green samples, after all samples of packed pixels are unpacked.
    const Sample *luma_at(int row) {
        const Sample *luma = y + (ptrdiff_t)row * p.pitch + (ptrdiff_t)begin * p.luma_step;
        const int count = end - begin;
        if (p.luma_step == 1) return luma;
        // Green lies between red and blue in all formats.
        Sample *before = cr < y ? unpacked.r : unpacked.b, *after = cr < y ? unpacked.b : unpacked.r;
        if (p.luma_step == 2) unpack_gray(luma, count, unpacked.g);
        else if (p.luma_step == 3) unpack<3>(luma - 1, count, before, unpacked.g, after);
        else unpack<4>(luma - 1, count, before, unpacked.g, after);
        return unpacked.g;
    }

    template <typename Number>
    void row(int row, Rgb gain, Rgb bias, Rows<Number> into) {
        const Sample *luma = luma_at(row);
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

// A column of several rows, or numbers side by side, so that a weight multiplies all of them at once.
constexpr int LINES = 8;
typedef float Column __attribute__((vector_size(4 * LINES), may_alias));

PIXELS Column *columns_at(float *numbers) { return reinterpret_cast<Column *>(numbers); }

PIXELS Column fused_column(Column a, float b, Column c) {
#ifdef __x86_64__
    return (Column)_mm256_fmadd_ps((__m256)a, _mm256_set1_ps(b), (__m256)c);
#else
    for (int i = 0; i < LINES; ++i) c[i] = fused(a[i], b, c[i]);
    return c;
#endif
}

// The number of columns that loops take at once.
constexpr int BLOCK = 4 * LINES;

// The rows of RGB of one row of pixels, summed up by its weights, in whole blocks.
void sum_rows(const Rows<float> *rows, const float *weights, int count, float norm, int width, Rows<float> into) {
    for (auto colour : {&Rows<float>::r, &Rows<float>::g, &Rows<float>::b}) {
        for (int begin = 0; begin < width; begin += BLOCK) {
            Column a = {}, b = {}, c = {}, d = {};
            for (int k = 0; k < count; ++k) {
                const Column *numbers = columns_at(rows[k].*colour + begin);
                a = fused_column(numbers[0], weights[k], a), b = fused_column(numbers[1], weights[k], b);
                c = fused_column(numbers[2], weights[k], c), d = fused_column(numbers[3], weights[k], d);
            }
            Column *sums = columns_at(into.*colour + begin);
            sums[0] = a * norm, sums[1] = b * norm, sums[2] = c * norm, sums[3] = d * norm;
        }
    }
}

// Turns as many rows as a column has into columns, or columns into rows.
PIXELS void transpose(const float *from, ptrdiff_t pitch, float *into, ptrdiff_t into_pitch) {
#ifdef __x86_64__
    __m256 pairs[LINES], fours[LINES];
    for (int i = 0; i < LINES; i += 2) {
        const __m256 even = _mm256_loadu_ps(from + i * pitch), odd = _mm256_loadu_ps(from + (i + 1) * pitch);
        pairs[i] = _mm256_unpacklo_ps(even, odd), pairs[i + 1] = _mm256_unpackhi_ps(even, odd);
    }
    for (int i = 0; i < LINES; i += 4) {
        for (int half = 0; half < 2; ++half) {
            const __m256 above = pairs[i + half], below = pairs[i + 2 + half];
            fours[i + 2 * half] = _mm256_shuffle_ps(above, below, 0x44);
            fours[i + 2 * half + 1] = _mm256_shuffle_ps(above, below, 0xee);
        }
    }
    for (int i = 0; i < LINES / 2; ++i) {
        _mm256_storeu_ps(into + i * into_pitch, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
        _mm256_storeu_ps(into + (i + 4) * into_pitch, _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
    }
#else
    for (int i = 0; i < LINES; ++i)
        for (int j = 0; j < LINES; ++j) into[j * into_pitch + i] = from[i * pitch + j];
#endif
}

// The weighted sum of the columns of each pixel; the last pixel comes first if rows are backward.
template <int USED>
void sum_columns(
    const Column *columns, const Weights &weights, int begin, int count, bool backward, Column *into) {
    const int used = USED ? USED : weights.used;
    const float *weight = weights.weights;
    for (int x = 0; x < count; ++x, weight += weights.most) {
        const Column *column = columns + (weights.first[x] - begin);
        Column sum = {};
        // The same count for each pixel, so that branches are predicted; missing weights are 0.
        for (int k = 0; k < used; ++k) sum = fused_column(column[k], weight[k], sum);
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

// Writes the rows of one colour, in whole blocks, times `gain` plus `bias`.
template <typename Number>
void finish(
    const Column *sums, int width, int lines, bool saturate, float gain, float bias, Number *const *into) {
    for (int begin = 0; begin < width; begin += BLOCK) {
        float rows[LINES][BLOCK];
        for (int x = 0; x < BLOCK; x += LINES)
            transpose(reinterpret_cast<const float *>(sums + begin + x), LINES, rows[0] + x, BLOCK);
        for (int i = 0; i < lines; ++i) {
            if (saturate)
                for (int x = 0; x < BLOCK; ++x) rows[i][x] = saturated(rows[i][x]);
            for (int x = 0; x < BLOCK; ++x) rows[i][x] = fused(rows[i][x], gain, bias);
            store_row(rows[i], min(BLOCK, width - begin), into[i] + begin);
        }
    }
}

template <typename Sample>
Source<Sample> source_of(const Plan &p, const Kind &kind, int begin, int end, Memory &memory) {
    const int length = end - begin + 16;
    const Rows<float> samples = memory.rows<float>(length), even = memory.rows<float>(length);
    const Rows<float> odd = memory.rows<float>(length);
    return {p, kind, nullptr, nullptr, nullptr, begin, end, samples, {even, odd}, memory.rows<Sample>(length)};
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
    const bool saturate = overshoots((Filter)kind.filter);
    Memory memory;
    const Weights columns = weights_of(p.x, kind.filter, memory), rows = weights_of(p.y, kind.filter, memory);
    if (memory.failed) return false;
    const int begin = columns.begin, width = columns.end - begin;
    const auto sum = columns.used == 2   ? sum_columns<2>
                     : columns.used == 3 ? sum_columns<3>
                     : columns.used == 4 ? sum_columns<4>
                     : columns.used == 5 ? sum_columns<5>
                     : columns.used == 6 ? sum_columns<6>
                                         : sum_columns<0>;
    Source<Sample> source = source_of<Sample>(p, kind, begin, begin + width, memory);
    const Rows<Number> otherwise = memory.rows<Number>((ptrdiff_t)LINES * p.x.out_size);
    // The last rows of RGB, row y at y modulo their number; and those of an output row, in order.
    const int length = (width + BLOCK - 1) / BLOCK * BLOCK;
    const Rows<float> made = memory.rows<float>((ptrdiff_t)rows.most * length);
    Rows<float> *wanted = memory.take<Rows<float>>(rows.most);
    int *which = memory.take<int>(rows.most);
    const Rows<float> summed = memory.rows<float>((ptrdiff_t)LINES * length);
    Column *turned = memory.take<Column>(length + columns.most), *sums = memory.take<Column>(p.x.out_size + BLOCK);
    if (memory.failed) return false;
    for (; count > 0; --count, ++pictures) {
        show(source, *pictures);
        Number *slot = static_cast<Number *>(pictures->slot);
        for (int i = 0; i < rows.most; ++i) which[i] = -1;
        for (int first = 0; first < p.y.out_size; first += LINES) {
            const int lines = min(LINES, p.y.out_size - first);
            Number *into[3][LINES];
            for (int i = 0; i < lines; ++i) {
                const int row = first + i;
                for (int k = 0; k < rows.count[row]; ++k) {
                    const int y = rows.first[row] + k, kept = y % rows.most;
                    wanted[k] = made + (ptrdiff_t)kept * length;
                    if (which[kept] != y) source.row(y, {1.0f, 1.0f, 1.0f}, {0.0f, 0.0f, 0.0f}, wanted[k]);
                    which[kept] = y;
                }
                const float *weights = rows.weights + (ptrdiff_t)row * rows.most;
                sum_rows(wanted, weights, rows.count[row], rows.norm[row], width, summed + (ptrdiff_t)i * length);
                const Rows<Number> to = place(p, slot, row, otherwise + (ptrdiff_t)i * p.x.out_size);
                into[0][i] = to.r, into[1][i] = to.g, into[2][i] = to.b;
            }
            const float *colours[] = {summed.r, summed.g, summed.b};
            for (int c = 0; c < 3; ++c) {
                for (int x = 0; x < width; x += LINES)
                    transpose(colours[c] + x, length, reinterpret_cast<float *>(turned + x), LINES);
                sum(turned, columns, begin, p.x.out_size, backward, sums);
                finish(sums, p.x.out_size, lines, saturate, p.gain[c], p.bias[c], into[c]);
            }
            for (int i = 0; i < lines; ++i) spread(p, slot, first + i, {into[0][i], into[1][i], into[2][i]});
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

// Whether this was compiled for this processor, and for such plans, filters and types; it may come from other sources.
extern "C" int videoloader_suits(int plan_bytes, int filters, int outputs) {
#ifdef __x86_64__
    unsigned a, b, c = 0, d;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;  // older compilers do not know its name
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !f16c) return 0;
#endif
    return plan_bytes == sizeof(Plan) && filters == FILTER_COUNT && outputs == OUTPUT_COUNT;
}
