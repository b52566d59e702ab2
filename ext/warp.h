/* From planes of luma and chroma to pixels: warp, interpolation and colours, in one pass.
 *
 * A row of output pixels is made at a time. Its source coordinates are found in double precision and
 * kept as fixed point numbers with 15 fractional bits, so that an edge has 65535 pixels at most and
 * everything behind them is exact arithmetic of integers, the same on every processor and in every
 * path: a sample is blended down first, to 7 fractional bits, rounded, then across, to 21. Colours
 * are then sums of floats in one order; the compiler must not fuse them (-ffp-contract=off).
 *
 * Chroma samples of a subsampled plane are centred: luma coordinate X is chroma coordinate X/2 - 1/4,
 * clamped to the plane, whatever the clean aperture is.
 */

#ifndef BLOSCPACK_WARP_H
#define BLOSCPACK_WARP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_AVX2
#define AVX2 __attribute__((target("avx2")))
#endif

enum { WARP_MAX_EDGE = 65535 };
enum { ONE = 1 << 15, HALF = 1 << 14 };

/* Whether vectors are used: tests try both. */
static int vectors = 0;

static int use_vectors(int most)
{
    int has = 0;
#ifdef HAVE_AVX2
    __builtin_cpu_init();
    has = __builtin_cpu_supports("avx2") ? 1 : 0;
#endif
    return vectors = most < has ? most : has;
}

typedef struct {
    const uint8_t *data;
    ptrdiff_t stride;
    int32_t width, height;
    /* 1 where a sample is for two of luma, across and down. */
    int across, down;
} Plane;

/* Which output pixels there are, and from where: `low` to `high` are the source coordinates that
 * are samples, `margin` how far out of them a pixel is taken as the one at the edge. */
typedef struct {
    double homography[9];
    double low_x, high_x, low_y, high_y, margin;
    double left, top;
    bool nearest;
} Geometry;

typedef struct {
    /* Rows of 4: what luma, two of chroma and 1 contribute to a channel. */
    float matrix[12];
    float bias[3], scale[3], outside[3];
    /* Round to whole numbers of 0 to 255. */
    bool rounded;
} Colours;

typedef struct {
    Plane planes[3];
    int nplanes;
    Geometry geometry;
    Colours colours;
    /* The output: floats of three planes, or else bytes of interleaved channels. */
    float *floats;
    ptrdiff_t channel_stride, row_stride;
    uint8_t *bytes;
    int32_t rows, columns;
} Job;

/* Room for the rows between the steps: all of `columns` but `blended`. */
typedef struct {
    int32_t *x, *y, *inside;
    int32_t *at[2], *weights[2];
    float *values[3];
    int16_t *blended;
} Room;

enum { ROOM_ARRAYS = 10 };

/* Columns of source beyond which it is better to look at single samples. */
static size_t most_blended(const Job *job)
{
    return 8 * (size_t)job->columns + 64;
}

static size_t room_nbytes(const Job *job)
{
    return ROOM_ARRAYS * 4 * ((size_t)job->columns + 16) + 2 * (most_blended(job) + 64);
}

static Room room_in(const Job *job, uint8_t *bytes)
{
    Room room;
    void *arrays[ROOM_ARRAYS];
    for (int i = 0; i < ROOM_ARRAYS; i++)
        arrays[i] = bytes + i * 4 * ((size_t)job->columns + 16);
    room.x = arrays[0];
    room.y = arrays[1];
    room.inside = arrays[2];
    for (int i = 0; i < 2; i++) {
        room.at[i] = arrays[3 + i];
        room.weights[i] = arrays[5 + i];
    }
    for (int i = 0; i < 3; i++)
        room.values[i] = arrays[7 + i];
    room.blended = (int16_t *)(bytes + ROOM_ARRAYS * 4 * ((size_t)job->columns + 16));
    return room;
}

INLINE double clamped(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Comparisons with NaN are false: it is outside, and no number that does not fit is converted. */
INLINE bool is_inside(double x, double low, double high, double margin)
{
    return x >= low - margin && x <= high + margin;
}

INLINE int32_t fixed(double x, double low, double high, double origin, bool nearest)
{
    int32_t at = (int32_t)((clamped(x, low, high) + origin) * ONE + 0.5);
    return nearest ? (at + HALF) & ~(ONE - 1) : at;
}

/* The coordinate in a plane of a coordinate of luma. */
INLINE int32_t in_plane(int32_t at, int shift, int32_t edge, bool nearest)
{
    int32_t last = (edge - 1) * ONE;
    if (shift)
        at = nearest ? (at >> 1) & ~(ONE - 1) : (at - HALF) >> 1;
    return at < 0 ? 0 : at > last ? last : at;
}

/* Two samples below each other to 7 fractional bits; the weight of the lower one has 15. */
INLINE int16_t blend_down(uint8_t above, uint8_t below, int32_t weight)
{
    int32_t product = ((below - above) * 128) * weight;
    return (int16_t)(above * 128 + (((product >> 14) + 1) >> 1));
}

/* Two of these side by side to 21 fractional bits. */
INLINE float blend_across(int16_t before, int16_t after, int32_t weight)
{
    int32_t sum = before * (HALF - weight) + after * weight;
    return (float)sum * (1.0f / (1 << 21));
}

INLINE void blend_rows(const uint8_t *above, const uint8_t *below, int32_t weight, int16_t *out,
                       size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = blend_down(above[i], below[i], weight);
}

INLINE void blend_columns(const int16_t *blended, const int32_t *at, const int32_t *weights,
                          float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = blend_across(blended[at[i]], blended[at[i] + 1], weights[i]);
}

INLINE void sample_row(const Plane *plane, const int32_t *x, const int32_t *y, bool nearest,
                       float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t across = in_plane(x[i], plane->across, plane->width, nearest);
        int32_t down = in_plane(y[i], plane->down, plane->height, nearest);
        int32_t before = across >> 15, row = down >> 15;
        int32_t after = before + (before + 1 < plane->width);
        const uint8_t *above = plane->data + row * plane->stride;
        const uint8_t *below = row + 1 < plane->height ? above + plane->stride : above;
        int32_t weight = down & (ONE - 1);
        out[i] = blend_across(blend_down(above[before], below[before], weight),
                              blend_down(above[after], below[after], weight),
                              (across & (ONE - 1)) >> 1);
    }
}

INLINE float channel_of(const float *matrix, float y, float u, float v, bool rounded)
{
    float value = ((matrix[0] * y + matrix[1] * u) + matrix[2] * v) + matrix[3];
    if (!rounded)
        return value;
    value = value < 0.0f ? 0.0f : value > 255.0f ? 255.0f : value;
    return (float)(int32_t)(value + 0.5f);
}

/* Pixels from `first` to before `last` of a row. */
INLINE void write_pixels(const Job *job, const Room *room, int32_t row, size_t first, size_t last)
{
    const float *y = room->values[0], *u = room->values[1], *v = room->values[2];
    const Colours *colours = &job->colours;
    for (int channel = 0; channel < 3; channel++) {
        const float *matrix = colours->matrix + 4 * channel;
        if (job->bytes) {
            uint8_t *out = job->bytes + ((size_t)row * job->columns) * 3 + channel;
            for (size_t i = first; i < last; i++)
                out[3 * i] = (uint8_t)channel_of(matrix, y[i], u[i], v[i], true);
            continue;
        }
        float *out = job->floats + channel * job->channel_stride + row * job->row_stride;
        float bias = colours->bias[channel], scale = colours->scale[channel];
        if (colours->rounded)
            for (size_t i = first; i < last; i++)
                out[i] = (channel_of(matrix, y[i], u[i], v[i], true) - bias) * scale;
        else
            for (size_t i = first; i < last; i++)
                out[i] = (channel_of(matrix, y[i], u[i], v[i], false) - bias) * scale;
    }
}

INLINE void write_outside(const Job *job, int32_t row, size_t first, size_t last)
{
    for (int channel = 0; channel < 3; channel++) {
        float *out = job->floats + channel * job->channel_stride + row * job->row_stride;
        for (size_t i = first; i < last; i++)
            out[i] = job->colours.outside[channel];
    }
}

INLINE void write_masked(const Job *job, const int32_t *inside, int32_t row)
{
    for (int channel = 0; channel < 3; channel++) {
        float *out = job->floats + channel * job->channel_stride + row * job->row_stride;
        float outside = job->colours.outside[channel];
        for (int32_t i = 0; i < job->columns; i++)
            out[i] = inside[i] ? out[i] : outside;
    }
}

/* A warp that turns nothing: rows and columns are found on their own. The columns of source of a
 * row are blended all at once. Returns false, and does nothing, if they are too many. */
INLINE bool warp_straight(const Job *job, const Room *room, const bool avx2)
{
    const Geometry *g = &job->geometry;
    const double *h = g->homography;
    int32_t first = 0, last = job->columns, start[2], count[2];
    while (first < last && !is_inside(h[0] * first + h[2], g->low_x, g->high_x, g->margin))
        first++;
    while (last > first && !is_inside(h[0] * (last - 1) + h[2], g->low_x, g->high_x, g->margin))
        last--;
    size_t n = (size_t)(last - first);
    for (int kind = 0; n && kind < (job->nplanes > 1 ? 2 : 1); kind++) {
        const Plane *plane = &job->planes[kind];
        int32_t *at = room->at[kind], *weights = room->weights[kind];
        int32_t low = INT32_MAX, high = 0;
        for (int32_t i = first; i < last; i++) {
            int32_t x = fixed(h[0] * i + h[2], g->low_x, g->high_x, g->left, g->nearest);
            x = in_plane(x, plane->across, plane->width, g->nearest);
            at[i] = x >> 15;
            weights[i] = (x & (ONE - 1)) >> 1;
            low = at[i] < low ? at[i] : low;
            high = at[i] > high ? at[i] : high;
        }
        start[kind] = low;
        count[kind] = high - low + 2;
        if ((size_t)count[kind] > most_blended(job))
            return false;
        for (int32_t i = first; i < last; i++)
            at[i] -= low;
    }
    for (int32_t row = 0; row < job->rows; row++) {
        double y = h[4] * row + h[5];
        bool is_there = n && is_inside(y, g->low_y, g->high_y, g->margin);
        if (!is_there) {
            write_outside(job, row, 0, (size_t)job->columns);
            continue;
        }
        int32_t luma = fixed(y, g->low_y, g->high_y, g->top, g->nearest);
        for (int i = 0; i < job->nplanes; i++) {
            const Plane *plane = &job->planes[i];
            int kind = i ? 1 : 0;
            int32_t down = in_plane(luma, plane->down, plane->height, g->nearest);
            int32_t above = down >> 15, below = above + (above + 1 < plane->height);
            /* Of the column behind the last one of the plane the weight is 0. */
            int32_t left = plane->width - start[kind];
            size_t there = (size_t)(count[kind] < left ? count[kind] : left);
            blend_rows(plane->data + above * plane->stride + start[kind],
                       plane->data + below * plane->stride + start[kind], down & (ONE - 1),
                       room->blended, there);
            room->blended[there] = 0;
            blend_columns(room->blended, room->at[kind] + first, room->weights[kind] + first,
                          room->values[i] + first, n);
        }
        if (!job->bytes) {
            write_outside(job, row, 0, (size_t)first);
            write_outside(job, row, (size_t)last, (size_t)job->columns);
        }
        write_pixels(job, room, row, (size_t)first, (size_t)last);
    }
    return true;
}

/* Any warp: each pixel on its own. */
INLINE void warp_freely(const Job *job, const Room *room, bool is_affine, const bool avx2)
{
    const Geometry *g = &job->geometry;
    const double *h = g->homography;
    for (int32_t row = 0; row < job->rows; row++) {
        double in_x = h[1] * row + h[2], in_y = h[4] * row + h[5], in_w = h[7] * row + h[8];
        for (int32_t i = 0; i < job->columns; i++) {
            double x = h[0] * i + in_x, y = h[3] * i + in_y;
            if (!is_affine) {
                double w = h[6] * i + in_w;
                x = x / w;
                y = y / w;
            }
            bool inside = is_inside(x, g->low_x, g->high_x, g->margin) &
                          is_inside(y, g->low_y, g->high_y, g->margin);
            x = inside ? x : g->low_x;
            y = inside ? y : g->low_y;
            room->x[i] = fixed(x, g->low_x, g->high_x, g->left, g->nearest);
            room->y[i] = fixed(y, g->low_y, g->high_y, g->top, g->nearest);
            room->inside[i] = inside;
        }
        for (int i = 0; i < job->nplanes; i++)
            sample_row(&job->planes[i], room->x, room->y, g->nearest, room->values[i],
                       (size_t)job->columns);
        write_pixels(job, room, row, 0, (size_t)job->columns);
        write_masked(job, room->inside, row);
    }
}

INLINE void run(Job *job, const Room *room, const bool avx2)
{
    double *h = job->geometry.homography;
    bool is_affine = h[6] == 0.0 && h[7] == 0.0;
    /* Planes that are not there are grey. */
    for (int i = job->nplanes; i < 3; i++)
        for (int32_t k = 0; k < job->columns; k++)
            room->values[i][k] = 128.0f;
    if (is_affine) {
        for (int i = 0; i < 6; i++)
            h[i] = h[i] / h[8];
        if (h[1] == 0.0 && h[3] == 0.0 && warp_straight(job, room, avx2))
            return;
    }
    warp_freely(job, room, is_affine, avx2);
}

#ifdef HAVE_AVX2
AVX2 static void run_avx2(Job *job, const Room *room)
{
    run(job, room, true);
}
#endif

static void run_job(Job *job, uint8_t *bytes)
{
    Room room = room_in(job, bytes);
#ifdef HAVE_AVX2
    if (vectors) {
        run_avx2(job, &room);
        return;
    }
#endif
    run(job, &room, false);
}

#endif
