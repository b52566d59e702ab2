/* Least and greatest item of a chunk, number of NaN, and sum, in one pass. */

#ifndef BLOSCPACK_STATISTICS_H
#define BLOSCPACK_STATISTICS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define HAVE_AVX2
#endif

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && \
    !defined(__clang__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif

/* Statistics of some items. If all are NaN, low is above high. */
typedef struct {
    uint64_t low, high; /* bits of a 64-bit integer or float */
    uint64_t nan;
    uint64_t sum;
} Statistics;

/* Items are rarely in the cache, and processors do not fetch the next page by themselves. */
#define FETCH_AHEAD(items) __builtin_prefetch((const char *)(items) + 2048)

/* Integers of 8 and 16 bits are summed in lanes of twice their size, which hold the sum of ROWS
 * items. A row is a line of the cache. */
enum { ROWS = 256 };

#define LANE_INTEGERS(T, SUM, COLUMNS, WIDE, LEAST, GREATEST)                                      \
    VECTORISED static void statistics_##T(const void *data, size_t n, Statistics *found)           \
    {                                                                                              \
        const T *items = data;                                                                     \
        T low = GREATEST, high = LEAST;                                                            \
        uint64_t total = 0;                                                                        \
        size_t i = 0;                                                                              \
        for (; i + COLUMNS * ROWS <= n; i += COLUMNS * ROWS) {                                     \
            T lows[COLUMNS], highs[COLUMNS];                                                       \
            SUM sums[COLUMNS] = {0};                                                               \
            for (size_t k = 0; k < COLUMNS; k++)                                                   \
                lows[k] = GREATEST, highs[k] = LEAST;                                              \
            for (size_t row = 0; row < COLUMNS * ROWS; row += COLUMNS) {                           \
                FETCH_AHEAD(items + i + row);                                                      \
                for (size_t k = 0; k < COLUMNS; k++) {                                             \
                    T x = items[i + row + k];                                                      \
                    lows[k] = x < lows[k] ? x : lows[k];                                           \
                    highs[k] = x > highs[k] ? x : highs[k];                                        \
                    sums[k] = (SUM)(sums[k] + (SUM)x);                                             \
                }                                                                                  \
            }                                                                                      \
            for (size_t k = 0; k < COLUMNS; k++) {                                                 \
                low = lows[k] < low ? lows[k] : low;                                               \
                high = highs[k] > high ? highs[k] : high;                                          \
                total += (uint64_t)(WIDE)sums[k];                                                  \
            }                                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            low = items[i] < low ? items[i] : low;                                                 \
            high = items[i] > high ? items[i] : high;                                              \
            total += (uint64_t)(WIDE)items[i];                                                     \
        }                                                                                          \
        *found = (Statistics){(uint64_t)(WIDE)low, (uint64_t)(WIDE)high, 0, total};                \
    }

LANE_INTEGERS(int8_t, int16_t, 64, int64_t, INT8_MIN, INT8_MAX)
LANE_INTEGERS(int16_t, int32_t, 32, int64_t, INT16_MIN, INT16_MAX)
LANE_INTEGERS(uint8_t, uint16_t, 64, uint64_t, 0, UINT8_MAX)
LANE_INTEGERS(uint16_t, uint32_t, 32, uint64_t, 0, UINT16_MAX)

/* Those of 32 and 64 bits are taken EIGHT at a time, their sum modulo 2^64. It is in a loop of its own,
 * as compilers then use twice as fast vectors. FLIP makes the order of unsigned items of 64 bits, which
 * AVX2 cannot compare, that of signed ones. */
enum { EIGHT = 8 };

#define INTEGERS(T, ORDERED, WIDE, FLIP, LEAST, GREATEST)                                          \
    VECTORISED static void statistics_##T(const void *data, size_t n, Statistics *found)           \
    {                                                                                              \
        const T *items = data;                                                                     \
        ORDERED low = GREATEST, high = LEAST, lows[EIGHT], highs[EIGHT];                           \
        uint64_t total = 0, sums[EIGHT] = {0};                                                     \
        size_t i = 0;                                                                              \
        for (size_t k = 0; k < EIGHT; k++)                                                         \
            lows[k] = GREATEST, highs[k] = LEAST;                                                  \
        for (; i + EIGHT <= n; i += EIGHT) {                                                       \
            FETCH_AHEAD(items + i);                                                                \
            for (size_t k = 0; k < EIGHT; k++) {                                                   \
                ORDERED x = (ORDERED)(items[i + k] ^ FLIP);                                        \
                lows[k] = x < lows[k] ? x : lows[k];                                               \
                highs[k] = x > highs[k] ? x : highs[k];                                            \
            }                                                                                      \
            for (size_t k = 0; k < EIGHT; k++)                                                     \
                sums[k] += (uint64_t)(WIDE)items[i + k];                                           \
        }                                                                                          \
        for (size_t k = 0; k < EIGHT; k++) {                                                       \
            low = lows[k] < low ? lows[k] : low;                                                   \
            high = highs[k] > high ? highs[k] : high;                                              \
            total += sums[k];                                                                      \
        }                                                                                          \
        for (; i < n; i++) {                                                                       \
            ORDERED x = (ORDERED)(items[i] ^ FLIP);                                                \
            low = x < low ? x : low;                                                               \
            high = x > high ? x : high;                                                            \
            total += (uint64_t)(WIDE)items[i];                                                     \
        }                                                                                          \
        *found = (Statistics){(uint64_t)(WIDE)low ^ FLIP, (uint64_t)(WIDE)high ^ FLIP, 0, total};  \
    }

INTEGERS(int32_t, int32_t, int64_t, 0, INT32_MIN, INT32_MAX)
INTEGERS(uint32_t, uint32_t, uint64_t, 0, 0, UINT32_MAX)
INTEGERS(int64_t, int64_t, int64_t, 0, INT64_MIN, INT64_MAX)
INTEGERS(uint64_t, int64_t, uint64_t, (UINT64_C(1) << 63), INT64_MIN, INT64_MAX)

/* Times: the least integer is NaT, which is counted, and no other item is less than it. One less than
 * NaT is the greatest integer, so that the least time is one more than the least of these. */
VECTORISED static void statistics_time(const void *data, size_t n, Statistics *found)
{
    const uint64_t *items = data;
    int64_t low = INT64_MAX, high = INT64_MIN, lows[EIGHT], highs[EIGHT];
    uint64_t sum = 0, nan = 0, sums[EIGHT] = {0}, counts[EIGHT] = {0};
    size_t i = 0;
    for (size_t k = 0; k < EIGHT; k++)
        lows[k] = INT64_MAX, highs[k] = INT64_MIN;
    for (; i + EIGHT <= n; i += EIGHT) {
        FETCH_AHEAD(items + i);
        for (size_t k = 0; k < EIGHT; k++) {
            int64_t x = (int64_t)items[i + k], less = (int64_t)(items[i + k] - 1);
            lows[k] = less < lows[k] ? less : lows[k];
            highs[k] = x > highs[k] ? x : highs[k];
            sums[k] += items[i + k];
        }
        for (size_t k = 0; k < EIGHT; k++)
            counts[k] += (int64_t)items[i + k] == INT64_MIN;
    }
    for (size_t k = 0; k < EIGHT; k++) {
        low = lows[k] < low ? lows[k] : low;
        high = highs[k] > high ? highs[k] : high;
        sum += sums[k], nan += counts[k];
    }
    for (; i < n; i++) {
        int64_t x = (int64_t)items[i], less = (int64_t)(items[i] - 1);
        low = less < low ? less : low;
        high = x > high ? x : high;
        sum += items[i], nan += x == INT64_MIN;
    }
    /* Without times, low is above high, as of other items. */
    uint64_t least = low == INT64_MAX ? (uint64_t)low : (uint64_t)low + 1;
    *found = (Statistics){least, (uint64_t)high, nan, sum - (nan << 63)};
}

/* The sum of floats is that of LANES sums: item i is added to sum i modulo LANES. So compilers can
 * use vectors, and find the same sum on every processor. */
enum { LANES = 16, FLOAT_BLOCK = 512 };

/* Whether the vectors below are used: tests try both. */
static int vectors = 0;

static int use_vectors(int most)
{
    int has = 0;
#ifdef HAVE_AVX2
    unsigned int a, b, c, d;
    __builtin_cpu_init();
    has = __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
#endif
    return vectors = most < has ? most : has;
}

#ifdef HAVE_AVX2
/* Eight items as floats. */
#define load_float32(items) _mm256_loadu_ps(items)
#define load_float16(items) _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(items)))
#define load_bfloat16(items)                                                                       \
    _mm256_castsi256_ps(_mm256_slli_epi32(                                                         \
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(items))), 16))

/* As below, for floats of at most 32 bits: their extremes are found before they are widened. */
#define FLOAT_VECTORS(NAME, STORED)                                                                \
    __attribute__((target("avx2,f16c"))) static void vectors_##NAME(                               \
        const STORED *items, size_t n, double *lows, double *highs, double *sums, uint64_t *nan)   \
    {                                                                                              \
        __m256 low[2], high[2];                                                                    \
        __m256d sum[4];                                                                            \
        __m256i known[2];                                                                          \
        STORED rest[LANES];                                                                        \
        float extremes[2][LANES];                                                                  \
        uint32_t counts[LANES];                                                                    \
        for (int k = 0; k < 2; k++) {                                                              \
            low[k] = _mm256_set1_ps(INFINITY), high[k] = _mm256_set1_ps(-INFINITY);                \
            sum[2 * k] = sum[2 * k + 1] = _mm256_setzero_pd();                                     \
            known[k] = _mm256_setzero_si256();                                                     \
        }                                                                                          \
        for (size_t i = 0; i < n; i += LANES) {                                                    \
            const STORED *source = items + i;                                                      \
            FETCH_AHEAD(source);                                                                   \
            if (n - i < LANES) {                                                                   \
                memset(rest, 0xff, sizeof rest); /* NaN */                                         \
                source = memcpy(rest, source, (n - i) * sizeof *rest);                             \
            }                                                                                      \
            for (int k = 0; k < 2; k++) {                                                          \
                __m256 x = load_##NAME(source + 8 * k), is_known = _mm256_cmp_ps(x, x, _CMP_ORD_Q);\
                low[k] = _mm256_min_ps(x, low[k]); /* the second one if one is NaN */              \
                high[k] = _mm256_max_ps(x, high[k]);                                               \
                known[k] = _mm256_sub_epi32(known[k], _mm256_castps_si256(is_known));              \
                x = _mm256_and_ps(x, is_known);                                                    \
                sum[2 * k] =                                                                       \
                    _mm256_add_pd(sum[2 * k], _mm256_cvtps_pd(_mm256_castps256_ps128(x)));         \
                sum[2 * k + 1] =                                                                   \
                    _mm256_add_pd(sum[2 * k + 1], _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));   \
            }                                                                                      \
        }                                                                                          \
        memcpy(extremes[0], low, sizeof low);                                                      \
        memcpy(extremes[1], high, sizeof high);                                                    \
        memcpy(sums, sum, sizeof sum);                                                             \
        memcpy(counts, known, sizeof known);                                                       \
        for (size_t k = 0; k < LANES; k++) {                                                       \
            lows[k] = extremes[0][k], highs[k] = extremes[1][k];                                   \
            nan[k] = (n + LANES - 1) / LANES - counts[k];                                          \
        }                                                                                          \
    }

FLOAT_VECTORS(float32, float)
FLOAT_VECTORS(float16, uint16_t)
FLOAT_VECTORS(bfloat16, uint16_t)
#define BY_VECTORS(NAME) (vectors ? (vectors_##NAME(items, n, low, high, sum, nan), n) : 0)
#else
#define BY_VECTORS(NAME) 0
#endif

/* Each returns FLOAT_BLOCK items as floats. Their loops are of constant length, for vectors. */
#define AS_THEY_ARE(items, block) ((void)(block), (items))

static inline const float *from_bfloat16(const uint16_t *items, float *block)
{
    uint32_t bits[FLOAT_BLOCK];
    for (size_t k = 0; k < FLOAT_BLOCK; k++)
        bits[k] = (uint32_t)items[k] << 16;
    memcpy(block, bits, sizeof bits);
    return block;
}

/* The product moves the exponent, also that of a denormal number; that of infinity and NaN is set. */
static inline const float *from_float16(const uint16_t *items, float *block)
{
    uint32_t bits[FLOAT_BLOCK];
    for (size_t k = 0; k < FLOAT_BLOCK; k++)
        bits[k] = (uint32_t)(items[k] & 0x7fff) << 13;
    memcpy(block, bits, sizeof bits);
    for (size_t k = 0; k < FLOAT_BLOCK; k++)
        block[k] *= 0x1p112f;
    memcpy(bits, block, sizeof bits);
    for (size_t k = 0; k < FLOAT_BLOCK; k++) {
        uint32_t item = items[k], special = (item & 0x7fff) >= 0x7c00 ? 0x7f800000 : 0;
        bits[k] |= special | (item & 0x8000) << 16;
    }
    memcpy(block, bits, sizeof bits);
    return block;
}

#define FLOATS(NAME, STORED, T, LOAD, DONE)                                                        \
    VECTORISED static void statistics_##NAME(const void *data, size_t n, Statistics *found)        \
    {                                                                                              \
        const STORED *items = data;                                                                \
        double low[LANES], high[LANES], sum[LANES] = {0};                                          \
        uint64_t nan[LANES] = {0};                                                                 \
        for (size_t k = 0; k < LANES; k++)                                                         \
            low[k] = INFINITY, high[k] = -INFINITY;                                                \
        for (size_t start = DONE; start < n; start += FLOAT_BLOCK) {                               \
            STORED rest[FLOAT_BLOCK];                                                              \
            T buffer[FLOAT_BLOCK];                                                                 \
            double block[FLOAT_BLOCK + LANES];                                                     \
            size_t count = n - start < FLOAT_BLOCK ? n - start : FLOAT_BLOCK;                      \
            const STORED *source = items + start;                                                  \
            if (count < FLOAT_BLOCK) {                                                             \
                memset(rest, 0, sizeof rest);                                                      \
                source = memcpy(rest, source, count * sizeof *rest);                               \
            }                                                                                      \
            const T *loaded = LOAD(source, buffer);                                                \
            for (size_t i = 0; i < FLOAT_BLOCK; i += LANES) {                                      \
                FETCH_AHEAD(source + i);                                                           \
                for (size_t k = 0; k < LANES; k++)                                                 \
                    block[i + k] = loaded[i + k];                                                  \
            }                                                                                      \
            for (size_t k = 0; k < LANES; k++)                                                     \
                block[count + k] = NAN;                                                            \
            for (size_t i = 0; i < count; i += LANES)                                              \
                for (size_t k = 0; k < LANES; k++) {                                               \
                    double x = block[i + k];                                                       \
                    low[k] = x < low[k] ? x : low[k];                                              \
                    high[k] = x > high[k] ? x : high[k];                                           \
                    sum[k] += x == x ? x : 0;                                                      \
                    nan[k] += x != x;                                                              \
                }                                                                                  \
        }                                                                                          \
        for (size_t half = LANES / 2; half; half /= 2)                                             \
            for (size_t k = 0; k < half; k++) {                                                    \
                low[k] = low[k + half] < low[k] ? low[k + half] : low[k];                          \
                high[k] = high[k + half] > high[k] ? high[k + half] : high[k];                     \
                sum[k] += sum[k + half];                                                           \
                nan[k] += nan[k + half];                                                           \
            }                                                                                      \
        memcpy(&found->low, low, sizeof *low);                                                     \
        memcpy(&found->high, high, sizeof *high);                                                  \
        found->nan = nan[0] - (LANES - n % LANES) % LANES;                                         \
        memcpy(&found->sum, sum, sizeof *sum);                                                     \
    }

FLOATS(float32, float, float, AS_THEY_ARE, BY_VECTORS(float32))
FLOATS(float64, double, double, AS_THEY_ARE, 0)
FLOATS(float16, uint16_t, float, from_float16, BY_VECTORS(float16))
FLOATS(bfloat16, uint16_t, float, from_bfloat16, BY_VECTORS(bfloat16))

#endif
