/* Least and greatest item of a chunk, number of NaN, and sum, in one pass. */

#ifndef BLOSCPACK_STATISTICS_H
#define BLOSCPACK_STATISTICS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* Integers are summed in blocks that stay in the cache, the small ones in 32 bits: 2^12 items of 16
 * bits have a smaller sum. The sum of all is modulo 2^64. */
enum { BLOCK = 4096 };

#define INTEGERS(T, SUM, WIDE, LEAST, GREATEST)                                                    \
    VECTORISED static void statistics_##T(const void *data, size_t n, Statistics *found)           \
    {                                                                                              \
        const T *items = data;                                                                     \
        T low = GREATEST, high = LEAST;                                                            \
        uint64_t total = 0;                                                                        \
        for (size_t i = 0; i < n; i += BLOCK) {                                                    \
            const T *block = items + i;                                                            \
            size_t count = n - i < BLOCK ? n - i : BLOCK;                                          \
            SUM sum = 0;                                                                           \
            for (size_t k = 0; k < count; k++) {                                                   \
                low = block[k] < low ? block[k] : low;                                             \
                high = block[k] > high ? block[k] : high;                                          \
            }                                                                                      \
            for (size_t k = 0; k < count; k++)                                                     \
                sum += (SUM)block[k];                                                              \
            total += (uint64_t)(WIDE)sum;                                                          \
        }                                                                                          \
        *found = (Statistics){(uint64_t)(WIDE)low, (uint64_t)(WIDE)high, 0, total};                \
    }

INTEGERS(int8_t, int32_t, int64_t, INT8_MIN, INT8_MAX)
INTEGERS(int16_t, int32_t, int64_t, INT16_MIN, INT16_MAX)
INTEGERS(int32_t, int64_t, int64_t, INT32_MIN, INT32_MAX)
INTEGERS(int64_t, uint64_t, uint64_t, INT64_MIN, INT64_MAX)
INTEGERS(uint8_t, uint32_t, uint64_t, 0, UINT8_MAX)
INTEGERS(uint16_t, uint32_t, uint64_t, 0, UINT16_MAX)
INTEGERS(uint32_t, uint64_t, uint64_t, 0, UINT32_MAX)
INTEGERS(uint64_t, uint64_t, uint64_t, 0, UINT64_MAX)

/* Times: the least integer is NaT, which is counted, and no other item is less than it. */
VECTORISED static void statistics_time(const void *data, size_t n, Statistics *found)
{
    const int64_t *items = data;
    int64_t low = INT64_MAX, high = INT64_MIN;
    uint64_t sum = 0, nan = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t known = items[i] == INT64_MIN ? INT64_MAX : items[i];
        low = known < low ? known : low;
        high = items[i] > high ? items[i] : high;
        nan += items[i] == INT64_MIN;
        sum += (uint64_t)items[i];
    }
    *found = (Statistics){(uint64_t)low, (uint64_t)high, nan, sum - (nan << 63)};
}

/* The sum of floats is that of LANES sums: item i is added to sum i modulo LANES. So compilers can
 * use vectors, and find the same sum on every processor. */
enum { LANES = 16, FLOAT_BLOCK = 512 };

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

#define FLOATS(NAME, STORED, T, LOAD)                                                              \
    VECTORISED static void statistics_##NAME(const void *data, size_t n, Statistics *found)        \
    {                                                                                              \
        const STORED *items = data;                                                                \
        double low[LANES], high[LANES], sum[LANES] = {0};                                          \
        uint64_t nan[LANES] = {0};                                                                 \
        for (size_t k = 0; k < LANES; k++)                                                         \
            low[k] = INFINITY, high[k] = -INFINITY;                                                \
        for (size_t start = 0; start < n; start += FLOAT_BLOCK) {                                  \
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
            for (size_t k = 0; k < FLOAT_BLOCK; k++)                                               \
                block[k] = loaded[k];                                                              \
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

FLOATS(float32, float, float, AS_THEY_ARE)
FLOATS(float64, double, double, AS_THEY_ARE)
FLOATS(float16, uint16_t, float, from_float16)
FLOATS(bfloat16, uint16_t, float, from_bfloat16)

#endif
