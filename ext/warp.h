/* From planes of luma and chroma to pixels: warp, interpolation and colours, in one pass.
 *
 * A row of output pixels is made at a time. Its source coordinates are found in double precision and
 * kept as fixed point numbers with 15 fractional bits, so that an edge has 65535 pixels at most and
 * everything behind them is exact arithmetic of integers, the same on every processor and in every
 * path: a sample is blended down first, to 7 fractional bits, rounded, then across, to 21. Colours
 * are then sums of floats in one order; the compiler must not fuse them (-ffp-contract=off).
 *
 * Chroma samples of a subsampled plane are centred: luma coordinate X is chroma coordinate X/2 - 1/4,
 * clamped to the plane; the clean aperture does not matter.
 */

#ifndef BLOSCPACK_WARP_H
#define BLOSCPACK_WARP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WARP_MAX_EDGE = 65535 };
enum { ONE = 1 << 15, HALF = 1 << 14 };

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

#include "warpvectors.h"

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

/* Groups that are done by vectors: an expression for the number of items. */
#ifdef HAVE_AVX2
#define BY_VECTORS(count) (vectors ? (count) : 0)
#else
#define BY_VECTORS(count) 0
#endif

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

static inline double clamped(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Comparisons with NaN are false: it is outside, and no number that does not fit is converted. */
static inline bool is_inside(double x, double low, double high, double margin)
{
    return x >= low - margin && x <= high + margin;
}

static inline int32_t fixed(double x, double low, double high, double origin, bool nearest)
{
    int32_t at = (int32_t)((clamped(x, low, high) + origin) * ONE + 0.5);
    return nearest ? (at + HALF) & ~(ONE - 1) : at;
}

/* The coordinate in a plane of a coordinate of luma. */
static inline int32_t in_plane(int32_t at, int shift, int32_t edge, bool nearest)
{
    int32_t last = (edge - 1) * ONE;
    if (shift)
        at = nearest ? (at >> 1) & ~(ONE - 1) : (at - HALF) >> 1;
    return at < 0 ? 0 : at > last ? last : at;
}

/* Both weights of a pair, of which the second one is given: 16-bit halves. */
static inline int32_t packed(int32_t weight)
{
    return weight << 16 | (HALF - weight);
}

/* Two samples below each other to 7 fractional bits; the weight of the lower one has 15. */
static inline int16_t blend_down(uint8_t above, uint8_t below, int32_t weight)
{
    int32_t product = ((below - above) * 128) * weight;
    return (int16_t)(above * 128 + (((product >> 14) + 1) >> 1));
}

/* Two of these side by side to 21 fractional bits. */
static inline float blend_across(int16_t before, int16_t after, int32_t weight)
{
    int32_t sum = before * (HALF - weight) + after * weight;
    return (float)sum * (1.0f / (1 << 21));
}

static void blend_rows(const uint8_t *above, const uint8_t *below, int32_t weight, int16_t *out,
                       size_t n)
{
    size_t i = BY_VECTORS(blend_rows_avx2(above, below, weight, out, n));
    for (; i < n; i++)
        out[i] = blend_down(above[i], below[i], weight);
}

static void blend_columns(const int16_t *blended, const int32_t *at, const int32_t *weights,
                          float *out, size_t n)
{
    size_t i = BY_VECTORS(blend_columns_avx2(blended, at, weights, out, n));
    for (; i < n; i++)
        out[i] = blend_across(blended[at[i]], blended[at[i] + 1], weights[i] >> 16);
}

static void sample_row(const Plane *plane, const int32_t *x, const int32_t *y, bool nearest,
                       float *out, size_t n)
{
    size_t i = BY_VECTORS(sample_row_avx2(plane, x, y, nearest, out, n));
    for (; i < n; i++) {
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

static inline float channel_of(const float *matrix, float y, float u, float v, bool rounded)
{
    float value = ((matrix[0] * y + matrix[1] * u) + matrix[2] * v) + matrix[3];
    if (!rounded)
        return value;
    /* So that NaN is 0. */
    value = value > 0.0f ? (value < 255.0f ? value : 255.0f) : 0.0f;
    return (float)(int32_t)(value + 0.5f);
}

static void write_bytes(const Job *job, const Room *room, int32_t row)
{
    const float *y = room->values[0], *u = room->values[1], *v = room->values[2];
    size_t n = (size_t)job->columns;
    uint8_t *out = job->bytes + 3 * n * (size_t)row;
    size_t i = BY_VECTORS(write_bytes_avx2(&job->colours, y, u, v, out, n));
    for (; i < n; i++)
        for (int k = 0; k < 3; k++)
            out[3 * i + k] =
                (uint8_t)channel_of(job->colours.matrix + 4 * k, y[i], u[i], v[i], true);
}

/* Pixels from `first` to before `last` of a row. */
static void write_floats(const Job *job, const Room *room, int32_t row, size_t first, size_t last)
{
    const float *y = room->values[0] + first, *u = room->values[1] + first;
    const float *v = room->values[2] + first;
    const Colours *colours = &job->colours;
    size_t n = last - first;
    float *out[3];
    for (int k = 0; k < 3; k++)
        out[k] = job->floats + k * job->channel_stride + row * job->row_stride + first;
    size_t i = BY_VECTORS(write_floats_avx2(colours, y, u, v, out, n));
    for (; i < n; i++)
        for (int k = 0; k < 3; k++) {
            float value = channel_of(colours->matrix + 4 * k, y[i], u[i], v[i], colours->rounded);
            out[k][i] = (value - colours->bias[k]) * colours->scale[k];
        }
}

static void write_outside(const Job *job, int32_t row, size_t first, size_t last)
{
    for (int channel = 0; channel < 3; channel++) {
        float *out = job->floats + channel * job->channel_stride + row * job->row_stride;
        for (size_t i = first; i < last; i++)
            out[i] = job->colours.outside[channel];
    }
}

static void write_masked(const Job *job, const int32_t *inside, int32_t row)
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
static bool warp_straight(const Job *job, const Room *room)
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
            weights[i] = packed((x & (ONE - 1)) >> 1);
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
        if (job->bytes) {
            write_bytes(job, room, row);
            continue;
        }
        write_outside(job, row, 0, (size_t)first);
        write_outside(job, row, (size_t)last, (size_t)job->columns);
        write_floats(job, room, row, (size_t)first, (size_t)last);
    }
    return true;
}

/* Where the pixels of a row come from. */
static void find_sources(const Job *job, const Room *room, int32_t row, bool is_affine)
{
    const Geometry *g = &job->geometry;
    const double *h = g->homography;
    double in_x = h[1] * row + h[2], in_y = h[4] * row + h[5], in_w = h[7] * row + h[8];
    int32_t i = (int32_t)BY_VECTORS(find_sources_avx2(g, h, row, is_affine, room->x, room->y,
                                                      room->inside, (size_t)job->columns));
    for (; i < job->columns; i++) {
        double x = h[0] * i + in_x, y = h[3] * i + in_y;
        if (!is_affine) {
            double w = h[6] * i + in_w;
            x = x / w;
            y = y / w;
        }
        bool inside = is_inside(x, g->low_x, g->high_x, g->margin) &&
                      is_inside(y, g->low_y, g->high_y, g->margin);
        room->x[i] = inside ? fixed(x, g->low_x, g->high_x, g->left, g->nearest) : 0;
        room->y[i] = inside ? fixed(y, g->low_y, g->high_y, g->top, g->nearest) : 0;
        room->inside[i] = -inside;
    }
}

/* Any warp: each pixel on its own. */
static void warp_freely(const Job *job, const Room *room, bool is_affine)
{
    for (int32_t row = 0; row < job->rows; row++) {
        find_sources(job, room, row, is_affine);
        for (int i = 0; i < job->nplanes; i++)
            sample_row(&job->planes[i], room->x, room->y, job->geometry.nearest, room->values[i],
                       (size_t)job->columns);
        write_floats(job, room, row, 0, (size_t)job->columns);
        write_masked(job, room->inside, row);
    }
}

static void run_job(Job *job, uint8_t *bytes)
{
    Room room = room_in(job, bytes);
    double *h = job->geometry.homography;
    bool is_affine = h[6] == 0.0 && h[7] == 0.0;
    /* Planes that are not there are grey. */
    for (int i = job->nplanes; i < 3; i++)
        for (int32_t k = 0; k < job->columns; k++)
            room.values[i][k] = 128.0f;
    if (is_affine) {
        for (int i = 0; i < 6; i++)
            h[i] = h[i] / h[8];
        if (h[1] == 0.0 && h[3] == 0.0 && warp_straight(job, &room))
            return;
    }
    warp_freely(job, &room, is_affine);
}

#endif
