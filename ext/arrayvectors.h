/* The inner loops of array chunks with AVX2 and BMI2. The results are those of the portable loops. */

#ifndef BLOSCPACK_ARRAYVECTORS_H
#define BLOSCPACK_ARRAYVECTORS_H

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__)
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAVE_AVX2
#define AVX2 __attribute__((target("avx2")))
#define BMI2 __attribute__((target("avx2,bmi2")))

/* Bits of an integer without its lowest bit, which says whether all of them are inverted. */
AVX2 static inline __m256i halves8(__m256i v)
{
    return _mm256_and_si256(_mm256_srli_epi16(v, 1), _mm256_set1_epi8(0x7F));
}

#define halves16(v) _mm256_srli_epi16(v, 1)
#define halves32(v) _mm256_srli_epi32(v, 1)
#define halves64(v) _mm256_srli_epi64(v, 1)

/* The last integer of each half of a vector, in all of that half. */
#define last8(v) _mm256_shuffle_epi8(v, _mm256_set1_epi8(15))
#define last16(v) _mm256_shuffle_epi8(v, _mm256_set1_epi16(0x0F0E))
#define last32(v) _mm256_shuffle_epi32(v, 0xFF)
#define last64(v) _mm256_unpackhi_epi64(v, v)

#define one8 _mm256_set1_epi8(1)
#define one16 _mm256_set1_epi16(1)
#define one32 _mm256_set1_epi32(1)
#define one64 _mm256_set1_epi64x(1)
#define all8(v) _mm256_set1_epi8((char)(v))
#define all16(v) _mm256_set1_epi16((short)(v))
#define all32(v) _mm256_set1_epi32((int)(v))
#define all64(v) _mm256_set1_epi64x((long long)(v))

/* Residuals of a row to integers, in place: unfolded, summed up from `*sum` on, the row above added
 * unless it is NULL. Return how many are done, and set `*sum` to the sum of these. */
#define RESTORE_ROW(BITS, add, subtract)                                                           \
    AVX2 static size_t restore_row_avx2_##BITS(uint##BITS##_t *row, const uint##BITS##_t *above,   \
                                               size_t n, uint##BITS##_t *sum)                      \
    {                                                                                              \
        enum { LANES = 256 / BITS };                                                               \
        const __m256i zero = _mm256_setzero_si256();                                               \
        __m256i carry = all##BITS(*sum);                                                           \
        uint64_t first;                                                                            \
        size_t x = 0;                                                                              \
        for (; x + LANES <= n; x += LANES) {                                                       \
            __m256i v = _mm256_loadu_si256((const __m256i *)(row + x)), sums;                      \
            v = _mm256_xor_si256(halves##BITS(v),                                                  \
                                 subtract(zero, _mm256_and_si256(v, one##BITS)));                  \
            if (BITS <= 8)                                                                         \
                v = add(v, _mm256_slli_si256(v, 1));                                               \
            if (BITS <= 16)                                                                        \
                v = add(v, _mm256_slli_si256(v, 2));                                               \
            if (BITS <= 32)                                                                        \
                v = add(v, _mm256_slli_si256(v, 4));                                               \
            v = add(v, _mm256_slli_si256(v, 8));                                                   \
            /* The sum of the lower half goes to the upper one. */                                 \
            sums = _mm256_permute2x128_si256(v, v, 0x08);                                          \
            v = add(v, last##BITS(sums));                                                          \
            sums = _mm256_permute2x128_si256(v, v, 0x11);                                          \
            v = add(v, carry);                                                                     \
            /* One addition is all that the next step waits for. */                                \
            carry = add(carry, last##BITS(sums));                                                  \
            if (above)                                                                             \
                v = add(v, _mm256_loadu_si256((const __m256i *)(above + x)));                      \
            _mm256_storeu_si256((__m256i *)(row + x), v);                                          \
        }                                                                                          \
        _mm_storel_epi64((__m128i *)&first, _mm256_castsi256_si128(carry));                        \
        *sum = (uint##BITS##_t)first;                                                              \
        return x;                                                                                  \
    }

RESTORE_ROW(8, _mm256_add_epi8, _mm256_sub_epi8)
RESTORE_ROW(16, _mm256_add_epi16, _mm256_sub_epi16)
RESTORE_ROW(32, _mm256_add_epi32, _mm256_sub_epi32)
RESTORE_ROW(64, _mm256_add_epi64, _mm256_sub_epi64)

#endif

/* Whether vectors are used: tests try both. */
static int vectors = 0;

static int use_vectors(int most)
{
    int has = 0;
#ifdef HAVE_AVX2
    __builtin_cpu_init();
    has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#endif
    return vectors = most < has ? most : has;
}

/* Items that are done by vectors: an expression for their number. */
#ifdef HAVE_AVX2
#define BY_VECTORS(count) (vectors ? (count) : 0)
#else
#define BY_VECTORS(count) 0
#endif

#endif
