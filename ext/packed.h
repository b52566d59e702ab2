/* PACKED: the residuals of 8-bit items in as few bits as each run of 16 needs.
 *
 * A row of every plane is cut into blocks of 32 items, the last one padded with 0; a block is two
 * runs of 16. A run has a width of 0 to 8 bits, in which its items fit as signed numbers. It is
 * stored as two times `width` bytes: byte i has bit i of 8 items. The order is row, block, plane.
 * The widths follow the bits, a byte for each block: the first run is in its lower half.
 */

#ifndef BLOSCPACK_PACKED_H
#define BLOSCPACK_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PACKED_BLOCK = 32, PACKED_RUN = 16, PACKED_ITEMS = 8, PACKED_MAX_WIDTH = 8 };

static inline size_t packed_blocks(size_t length)
{
    return length / PACKED_BLOCK + (length % PACKED_BLOCK != 0);
}

/* Byte i of the result has bit i of the 8 bytes; its own inverse. */
static inline uint64_t transposed_bits(uint64_t x)
{
    uint64_t differing = (x ^ x >> 7) & 0x00AA00AA00AA00AA;
    x ^= differing ^ differing << 7;
    differing = (x ^ x >> 14) & 0x0000CCCC0000CCCC;
    x ^= differing ^ differing << 14;
    differing = (x ^ x >> 28) & 0x00000000F0F0F0F0;
    return x ^ differing ^ differing << 28;
}

static inline uint64_t load_octet(const uint8_t *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24
           | (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48
           | (uint64_t)at[7] << 56;
}

static inline void store_octet(uint8_t *at, uint64_t octet)
{
    for (int i = 0; i < PACKED_ITEMS; i++)
        at[i] = (uint8_t)(octet >> 8 * i);
}

/* Append 16 items to `bits`, which has room for 16 bytes; return their width. */
static inline unsigned pack_run(const uint8_t *items, uint8_t *bits)
{
    const uint64_t low = load_octet(items), high = load_octet(items + PACKED_ITEMS);
    const uint64_t ones = 0x0101010101010101;
    uint64_t magnitudes = (low ^ (low >> 7 & ones) * 255) | (high ^ (high >> 7 & ones) * 255);
    unsigned width = (low | high) != 0;
    for (uint64_t rest = magnitudes; rest; rest = rest >> 1 & ones * 127)
        width++;
    store_octet(bits, transposed_bits(low));
    store_octet(bits + width, transposed_bits(high));
    return width;
}

/* Rows of `length` items of each plane; `out` has room for 33 bytes a block. Returns the size. */
static size_t pack_rows(const uint8_t *residuals, uint8_t *out, size_t rows, size_t length,
                        size_t nplanes, uint8_t *widths)
{
    const uint8_t *first_width = widths;
    uint8_t *start = out;
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < length; x += PACKED_BLOCK)
            for (size_t p = 0; p < nplanes; p++) {
                const uint8_t *items = residuals + (p * rows + y) * length + x;
                uint8_t last[PACKED_BLOCK] = {0};
                unsigned low, high;
                if (length - x < PACKED_BLOCK)
                    items = memcpy(last, items, length - x);
                low = pack_run(items, out);
                out += 2 * low;
                high = pack_run(items + PACKED_RUN, out);
                out += 2 * high;
                *widths++ = (uint8_t)(low | high << 4);
            }
    memmove(out, first_width, (size_t)(widths - first_width));
    return (size_t)(out - start) + (size_t)(widths - first_width);
}

/* Whether the widths are valid, and account for all bits. */
VECTORISED static bool is_packed(const uint8_t *widths, size_t count, size_t nbits_bytes)
{
    uint64_t total = 0;
    unsigned invalid = 0;
    for (size_t i = 0; i < count;) {
        size_t stop = count - i > 4096 ? i + 4096 : count;
        uint32_t sum = 0;
        for (; i < stop; i++) {
            unsigned low = widths[i] & 15u, high = widths[i] >> 4;
            sum += low + high;
            invalid |= (low > PACKED_MAX_WIDTH) | (high > PACKED_MAX_WIDTH);
        }
        total += sum;
    }
    return !invalid && 2 * total == nbits_bytes;
}

/* A run of 16 items, whose bits are still to be transposed; `end` is that of all that is packed. */
static inline const uint8_t *spread_run(const uint8_t *bits, const uint8_t *end, unsigned width,
                                        uint8_t *planes)
{
    for (int k = 0; k < 2; k++, bits += width, planes += PACKED_ITEMS) {
        uint64_t octet = 0;
        if (width == 0) {
            store_octet(planes, 0);
            continue;
        }
        if (end - bits >= PACKED_ITEMS)
            octet = load_octet(bits) << (64 - 8 * width) >> (64 - 8 * width);
        else
            for (unsigned i = 0; i < width; i++)
                octet |= (uint64_t)bits[i] << 8 * i;
        if (width < PACKED_MAX_WIDTH)  /* the sign goes on upwards */
            octet |= (octet >> (8 * width - 8)) * 0x0101010101010101 << 8 * width;
        store_octet(planes, octet);
    }
    return bits;
}

VECTORISED static void transpose_octets(uint8_t *items, size_t n)
{
    for (size_t i = 0; i < n; i += PACKED_ITEMS)
        store_octet(items + i, transposed_bits(load_octet(items + i)));
}

/* Any frame: the rows of each plane one by one. `work` has room for two rows of whole blocks of
 * each plane; `bits` and `widths` have been checked. */
static void unpack_rows(const uint8_t *bits, const uint8_t *widths, const uint8_t *reference,
                        uint8_t *frame, uint8_t *work, size_t rows, size_t width, size_t channels,
                        int flags)
{
    bool planar = flags & FILTER_PLANES;
    size_t nplanes = planar ? channels : 1, row = width * channels, length = row / nplanes;
    size_t nblocks = packed_blocks(length), room = nblocks * PACKED_BLOCK;
    const uint8_t *end = widths + rows * nblocks * nplanes;
    for (size_t y = 0; y < rows; y++) {
        uint8_t *pixels = frame + y * row, *planes[4];
        for (size_t p = 0; p < nplanes; p++)
            planes[p] = work + (2 * p + y % 2) * room;
        for (size_t at = 0; at < room; at += PACKED_BLOCK)
            for (size_t p = 0; p < nplanes; p++) {
                bits = spread_run(bits, end, *widths & 15u, planes[p] + at);
                bits = spread_run(bits, end, *widths++ >> 4, planes[p] + at + PACKED_RUN);
            }
        for (size_t p = 0; p < nplanes; p++) {
            transpose_octets(planes[p], room);
            if (flags & FILTER_LEFT)
                unleft_uint8_t(planes[p], length, planar ? 1 : channels);
            if (flags & FILTER_UP && y > 0)
                add_uint8_t(planes[p], work + (2 * p + (y + 1) % 2) * room, length);
        }
        if (!planar)
            memcpy(pixels, planes[0], length);
        else if (channels == 3)
            join3_uint8_t(planes[0], planes[1], planes[2], pixels, width);
        else
            join4_uint8_t(planes[0], planes[1], planes[2], planes[3], pixels, width);
        if (reference)
            add_uint8_t(pixels, reference + y * row, row);
    }
}

#ifdef HAVE_BANDS

/* Byte 8 k + i of a run is bit plane i of its items 8 k to 8 k + 7; planes from `w` on are the sign. */
#define PLANE(w, i) ((w) == 0 ? -128 : (i) < (w) ? (i) : (w) - 1)
#define OCTET(w, k)                                                                             \
    PLANE(w, 0) + (k) * (w), PLANE(w, 1) + (k) * (w), PLANE(w, 2) + (k) * (w),                  \
        PLANE(w, 3) + (k) * (w), PLANE(w, 4) + (k) * (w), PLANE(w, 5) + (k) * (w),              \
        PLANE(w, 6) + (k) * (w), PLANE(w, 7) + (k) * (w)
#define REVERSED(w, k)                                                                          \
    PLANE(w, 7) + (k) * (w), PLANE(w, 6) + (k) * (w), PLANE(w, 5) + (k) * (w),                  \
        PLANE(w, 4) + (k) * (w), PLANE(w, 3) + (k) * (w), PLANE(w, 2) + (k) * (w),              \
        PLANE(w, 1) + (k) * (w), PLANE(w, 0) + (k) * (w)
#define OF_ALL_WIDTHS(one)                                                                      \
    {{one(0, 0), one(0, 1)}, {one(1, 0), one(1, 1)}, {one(2, 0), one(2, 1)},                    \
     {one(3, 0), one(3, 1)}, {one(4, 0), one(4, 1)}, {one(5, 0), one(5, 1)},                    \
     {one(6, 0), one(6, 1)}, {one(7, 0), one(7, 1)}, {one(8, 0), one(8, 1)}}

static const int8_t spread_octets[PACKED_MAX_WIDTH + 1][16] = OF_ALL_WIDTHS(OCTET);
static const int8_t spread_reversed[PACKED_MAX_WIDTH + 1][16] = OF_ALL_WIDTHS(REVERSED);

/* The two runs of a block, each byte a plane of bits of 8 items. */
AVX2 static inline __m256i planes_of_block(const uint8_t **bits, unsigned widths,
                                           const int8_t spread[][16])
{
    const uint8_t *low = *bits, *high = low + 2 * (widths & 15u);
    __m256i planes = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low)),
        _mm_loadu_si128((const __m128i *)high), 1);
    __m256i places = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)spread[widths & 15u])),
        _mm_loadu_si128((const __m128i *)spread[widths >> 4]), 1);
    *bits = high + 2 * (widths >> 4);
    return _mm256_shuffle_epi8(planes, places);
}

#define SWAP_PLACES(x, shift, mask)                                                             \
    do {                                                                                        \
        __m256i differing = _mm256_and_si256(                                                   \
            _mm256_xor_si256(x, _mm256_srli_epi64(x, shift)), _mm256_set1_epi64x(mask));        \
        x = _mm256_xor_si256(x, _mm256_xor_si256(differing, _mm256_slli_epi64(differing, shift))); \
    } while (0)

AVX2 static inline __m256i items_of_block_avx2(const uint8_t **bits, unsigned widths)
{
    __m256i x = planes_of_block(bits, widths, spread_octets);
    SWAP_PLACES(x, 7, 0x00AA00AA00AA00AA);
    SWAP_PLACES(x, 14, 0x0000CCCC0000CCCC);
    SWAP_PLACES(x, 28, 0x00000000F0F0F0F0);
    return x;
}

GFNI static inline __m256i items_of_block_gfni(const uint8_t **bits, unsigned widths)
{
    const __m256i identity = _mm256_set1_epi64x((long long)0x8040201008040201);
    return _mm256_gf2p8affine_epi64_epi8(identity, planes_of_block(bits, widths, spread_reversed),
                                         0);
}

#define TARGET AVX2
#define NAME(name) name##_avx2
#include "packedrgb.h"
#define TARGET GFNI
#define NAME(name) name##_gfni
#include "packedrgb.h"

/* Whether `unpack_rgb` may be used: it loads up to 32 bytes behind the bits, which are widths. */
static bool has_packed_rgb(size_t rows, size_t width, size_t channels, int flags)
{
    return vectors >= VECTORS_AVX2 && flags & FILTER_PLANES && channels == 3
           && rows * packed_blocks(width) >= PACKED_BLOCK;
}
#endif

/* The inverse of `pack_rows` and of the other filters; see `unpack_rows` for what is expected. */
static void unpack_frame(const uint8_t *bits, const uint8_t *widths, const uint8_t *reference,
                         uint8_t *frame, uint8_t *work, size_t rows, size_t width, size_t channels,
                         int flags)
{
#ifdef HAVE_BANDS
    if (has_packed_rgb(rows, width, channels, flags)) {
        if (vectors >= VECTORS_GFNI)
            unpack_rgb_gfni(bits, widths, reference, frame, work, rows, width, flags);
        else
            unpack_rgb_avx2(bits, widths, reference, frame, work, rows, width, flags);
        return;
    }
#endif
    unpack_rows(bits, widths, reference, frame, work, rows, width, channels, flags);
}

#endif
