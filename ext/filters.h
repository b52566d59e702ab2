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

#define ITEM uint8_t
#include "residual.h"
#define ITEM uint16_t
#include "residual.h"
#define ITEM uint32_t
#include "residual.h"
#define ITEM uint64_t
#include "residual.h"

#endif
