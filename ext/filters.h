/* Image filters for all item sizes; see residual.h. */

#ifndef BLOSCPACK_FILTERS_H
#define BLOSCPACK_FILTERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Stored on disk: the filters of a frame (docs/formats/frames.md). */
enum {
    FILTER_PLANES = 0x01,
    FILTER_UP = 0x02,
    FILTER_LEFT = 0x04,
    FILTER_ZIGZAG = 0x08,
    FILTER_TIME = 0x10,
    FILTER_BITS = 0x20,
};

/* The loops are compiled for AVX2 as well, and the processor picks once, where the system can. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif

#if defined(__SSE2__)
#include <emmintrin.h>
#define HAVE_SUMS

/* Running sums of bytes: 16 at a time, in log2(16) steps and with what was summed before. */
static void sum_bytes(uint8_t *bytes, size_t n)
{
    __m128i carry = _mm_setzero_si128();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m128i sums = _mm_loadu_si128((const __m128i *)(bytes + i));
        __m128i last;
        sums = _mm_add_epi8(sums, _mm_slli_si128(sums, 1));
        sums = _mm_add_epi8(sums, _mm_slli_si128(sums, 2));
        sums = _mm_add_epi8(sums, _mm_slli_si128(sums, 4));
        sums = _mm_add_epi8(sums, _mm_slli_si128(sums, 8));
        sums = _mm_add_epi8(sums, carry);
        _mm_storeu_si128((__m128i *)(bytes + i), sums);
        last = _mm_unpackhi_epi8(sums, sums);
        last = _mm_shufflehi_epi16(last, 0xFF);
        carry = _mm_unpackhi_epi64(last, last);
    }
    for (; i < n; i++)
        bytes[i] = (uint8_t)(bytes[i] + (i ? bytes[i - 1] : 0));
}

static void sum_words(uint16_t *words, size_t n)
{
    __m128i carry = _mm_setzero_si128();
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i sums = _mm_loadu_si128((const __m128i *)(words + i));
        __m128i last;
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 2));
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 4));
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 8));
        sums = _mm_add_epi16(sums, carry);
        _mm_storeu_si128((__m128i *)(words + i), sums);
        last = _mm_shufflehi_epi16(sums, 0xFF);
        carry = _mm_unpackhi_epi64(last, last);
    }
    for (; i < n; i++)
        words[i] = (uint16_t)(words[i] + (i ? words[i - 1] : 0));
}
#endif

/* One step of transposing bytes as 8 x 8 bits: swap what differs by one bit of its place. */
#define SWAP_BITS(a, b, shift, mask)             \
    do {                                         \
        uint8_t differing = ((a >> shift) ^ b) & mask; \
        b ^= differing;                          \
        a ^= (uint8_t)(differing << shift);      \
    } while (0)

#define TRANSPOSE_BITS(a, b, c, d, e, f, g, h) \
    do {                                       \
        SWAP_BITS(a, b, 1, 0x55);              \
        SWAP_BITS(c, d, 1, 0x55);              \
        SWAP_BITS(e, f, 1, 0x55);              \
        SWAP_BITS(g, h, 1, 0x55);              \
        SWAP_BITS(a, c, 2, 0x33);              \
        SWAP_BITS(b, d, 2, 0x33);              \
        SWAP_BITS(e, g, 2, 0x33);              \
        SWAP_BITS(f, h, 2, 0x33);              \
        SWAP_BITS(a, e, 4, 0x0F);              \
        SWAP_BITS(b, f, 4, 0x0F);              \
        SWAP_BITS(c, g, 4, 0x0F);              \
        SWAP_BITS(d, h, 4, 0x0F);              \
    } while (0)

/* Byte i of group k is bit i of byte k of the planes: n bytes of 8 planes, n bytes each, to 8 n. */
VECTORISED static void bytes_of_bits(const uint8_t *planes, uint8_t *restrict bytes, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        uint8_t a = planes[k], b = planes[n + k], c = planes[2 * n + k], d = planes[3 * n + k];
        uint8_t e = planes[4 * n + k], f = planes[5 * n + k], g = planes[6 * n + k];
        uint8_t h = planes[7 * n + k];
        TRANSPOSE_BITS(a, b, c, d, e, f, g, h);
        bytes[8 * k] = a;
        bytes[8 * k + 1] = b;
        bytes[8 * k + 2] = c;
        bytes[8 * k + 3] = d;
        bytes[8 * k + 4] = e;
        bytes[8 * k + 5] = f;
        bytes[8 * k + 6] = g;
        bytes[8 * k + 7] = h;
    }
}

static void bits_of_bytes(const uint8_t *bytes, uint8_t *restrict planes, size_t n)
{
    size_t k = 0;
#if defined(__SSE2__)
    for (; k + 2 <= n; k += 2) {  /* the highest bits of 16 bytes at once */
        __m128i highest = _mm_loadu_si128((const __m128i *)(bytes + 8 * k));
        for (size_t bit = 8; bit-- > 0;) {
            int mask = _mm_movemask_epi8(highest);
            planes[bit * n + k] = (uint8_t)mask;
            planes[bit * n + k + 1] = (uint8_t)(mask >> 8);
            highest = _mm_add_epi8(highest, highest);
        }
    }
#endif
    for (; k < n; k++) {
        uint8_t a = bytes[8 * k], b = bytes[8 * k + 1], c = bytes[8 * k + 2], d = bytes[8 * k + 3];
        uint8_t e = bytes[8 * k + 4], f = bytes[8 * k + 5], g = bytes[8 * k + 6];
        uint8_t h = bytes[8 * k + 7];
        TRANSPOSE_BITS(a, b, c, d, e, f, g, h);
        planes[k] = a;
        planes[n + k] = b;
        planes[2 * n + k] = c;
        planes[3 * n + k] = d;
        planes[4 * n + k] = e;
        planes[5 * n + k] = f;
        planes[6 * n + k] = g;
        planes[7 * n + k] = h;
    }
}

/* Write the 8 bit planes of each byte of the items, lowest byte and bit first, then the last items,
 * fewer than 8, unchanged. `bytes` has room for the items. */
VECTORISED static void planes_of_items(const uint8_t *items, uint8_t *restrict planes, size_t count,
                                       size_t itemsize, uint8_t *restrict bytes)
{
    size_t groups = count / 8, whole = 8 * groups;
    for (size_t byte = 0; byte < itemsize; byte++) {
        for (size_t i = 0; i < whole; i++)
            bytes[i] = items[i * itemsize + byte];
        bits_of_bytes(bytes, planes + byte * whole, groups);
    }
    memcpy(planes + whole * itemsize, items + whole * itemsize, (count - whole) * itemsize);
}

VECTORISED static void items_of_planes(const uint8_t *planes, uint8_t *restrict items, size_t count,
                                       size_t itemsize, uint8_t *restrict bytes)
{
    size_t groups = count / 8, whole = 8 * groups;
    if (itemsize == 1) {
        bytes_of_bits(planes, items, groups);
    } else if (itemsize == 2) {
        bytes_of_bits(planes, bytes, groups);
        bytes_of_bits(planes + whole, bytes + whole, groups);
        for (size_t i = 0; i < whole; i++) {
            items[2 * i] = bytes[i];
            items[2 * i + 1] = bytes[whole + i];
        }
    } else {
        for (size_t byte = 0; byte < itemsize; byte++) {
            bytes_of_bits(planes + byte * whole, bytes, groups);
            for (size_t i = 0; i < whole; i++)
                items[i * itemsize + byte] = bytes[i];
        }
    }
    memcpy(items + whole * itemsize, planes + whole * itemsize, (count - whole) * itemsize);
}

VECTORISED static void unzigzag_bytes(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)((bytes[i] >> 1) ^ (uint8_t)(0 - (bytes[i] & 1)));
}

#include "bytes.h"

#define ITEM uint8_t
#include "residual.h"
#define ITEM uint16_t
#include "residual.h"
#define ITEM uint32_t
#include "residual.h"
#define ITEM uint64_t
#include "residual.h"

#include "packed.h"

#endif
