/* Facts and estimates that the choice of a plan needs: one pass over the items, or over windows of them. */

#ifndef BLOSCPACK_ARRAYCHOICE_H
#define BLOSCPACK_ARRAYCHOICE_H

#include "arraychunk.h"

enum { KIND_UNSIGNED, KIND_SIGNED, KIND_FLOAT };
enum { NPREDICTORS = 20 };

typedef struct {
    uint64_t least, most, bits;
} Facts;

typedef struct {
    size_t count;
    int32_t least, most;
} Quotients;

/* The integers that are in the order of the items: negative floats have all their bits inverted,
 * others, and signed integers, the sign bit only. */
#define ORDERED(TYPE, SIGNED, v, kind)                                                             \
    ((kind) == KIND_UNSIGNED ? (TYPE)(v)                                                           \
     : (kind) == KIND_SIGNED                                                                       \
         ? (TYPE)((v) ^ ((TYPE)1 << (8 * sizeof(TYPE) - 1)))                                       \
         : (TYPE)((v) ^ ((TYPE)((SIGNED)(v) >> (8 * sizeof(TYPE) - 1)) | (TYPE)1 << (8 * sizeof(TYPE) - 1))))

#define FACTS_LOOP(TYPE, SIGNED, kind)                                                             \
    for (size_t i = 0; i < n; i++) {                                                               \
        const TYPE v = items[i], key = ORDERED(TYPE, SIGNED, v, kind);                             \
        least = key < least ? key : least;                                                         \
        most = key > most ? key : most;                                                            \
        bits |= v;                                                                                 \
    }
#define FACTS(NBITS)                                                                               \
    VECTORISED static Facts facts##NBITS(const uint##NBITS##_t *items, size_t n, int kind)         \
    {                                                                                              \
        uint##NBITS##_t least = (uint##NBITS##_t)-1, most = 0, bits = 0;                           \
        Facts facts;                                                                               \
        if (kind == KIND_UNSIGNED)                                                                 \
            FACTS_LOOP(uint##NBITS##_t, int##NBITS##_t, KIND_UNSIGNED)                             \
        else if (kind == KIND_SIGNED)                                                              \
            FACTS_LOOP(uint##NBITS##_t, int##NBITS##_t, KIND_SIGNED)                               \
        else                                                                                       \
            FACTS_LOOP(uint##NBITS##_t, int##NBITS##_t, KIND_FLOAT)                                \
        facts.least = least;                                                                       \
        facts.most = most;                                                                         \
        facts.bits = bits;                                                                         \
        return facts;                                                                              \
    }
FACTS(8)
FACTS(16)
FACTS(32)
FACTS(64)

#define ORDER_LOOP(TYPE, SIGNED, TO, kind)                                                         \
    do {                                                                                           \
        const TYPE *restrict from = items;                                                         \
        TO *restrict to = out;                                                                     \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = (TO)((TYPE)(ORDERED(TYPE, SIGNED, from[i], kind) >> shift) - (TYPE)offset);    \
    } while (0)
#define ORDER_KIND(TYPE, SIGNED, TO)                                                               \
    do {                                                                                           \
        if (kind == KIND_UNSIGNED)                                                                 \
            ORDER_LOOP(TYPE, SIGNED, TO, KIND_UNSIGNED);                                           \
        else if (kind == KIND_SIGNED)                                                              \
            ORDER_LOOP(TYPE, SIGNED, TO, KIND_SIGNED);                                             \
        else                                                                                       \
            ORDER_LOOP(TYPE, SIGNED, TO, KIND_FLOAT);                                              \
    } while (0)
#define ORDER_TO(TO)                                                                               \
    do {                                                                                           \
        if (itemsize == 1)                                                                         \
            ORDER_KIND(uint8_t, int8_t, TO);                                                       \
        else if (itemsize == 2)                                                                    \
            ORDER_KIND(uint16_t, int16_t, TO);                                                     \
        else if (itemsize == 4)                                                                    \
            ORDER_KIND(uint32_t, int32_t, TO);                                                     \
        else                                                                                       \
            ORDER_KIND(uint64_t, int64_t, TO);                                                     \
    } while (0)

VECTORISED static void order_items(const void *items, size_t n, size_t itemsize, int kind, int shift,
                                   uint64_t offset, void *out, int width)
{
    if (width == 1)
        ORDER_TO(uint8_t);
    else if (width == 2)
        ORDER_TO(uint16_t);
    else if (width == 4)
        ORDER_TO(uint32_t);
    else
        ORDER_TO(uint64_t);
}

/* Numbers below this are exact in 32 bits. */
#define MOST_NUMBER 2147483647.0

#define QUOTIENT_LOOP(FLOAT)                                                                       \
    for (size_t i = 0; i < n; i++) {                                                               \
        FLOAT v, again;                                                                            \
        double number;                                                                             \
        int32_t k;                                                                                 \
        memcpy(&v, (const FLOAT *)items + i, sizeof(v));                                           \
        number = (double)v * divisor;                                                              \
        /* Rounds to nearest, ties to even; larger numbers and NaN become 0, which v is not. */    \
        number = fabs(number) < MOST_NUMBER ? (number + 0x1.8p52) - 0x1.8p52 : 0;                  \
        k = (int32_t)number;                                                                       \
        again = (FLOAT)((double)k / divisor);                                                      \
        const bool good = memcmp(&again, &v, sizeof(v)) == 0;                                      \
        numbers[i] = k;                                                                            \
        mask[i] = !good;                                                                           \
        found.count += good;                                                                       \
        found.least = good && k < found.least ? k : found.least;                                   \
        found.most = good && k > found.most ? k : found.most;                                      \
    }

VECTORISED static Quotients quotients_of(const void *items, size_t n, size_t itemsize, double divisor,
                                         int32_t *restrict numbers, uint8_t *restrict mask)
{
    Quotients found = {0, INT32_MAX, INT32_MIN};
    if (itemsize == 4)
        QUOTIENT_LOOP(float)
    else
        QUOTIENT_LOOP(double)
    return found;
}

/* Twice as many slots as entries, or more. */
enum { RANK_SLOTS = 1 << 14 };

/* Items of two bytes are slots themselves. */
static size_t ranks_of_two(const uint16_t *items, size_t n, uint16_t *places, uint16_t *entries,
                           size_t most)
{
    uint16_t slots[1 << 16] = {0};
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const uint16_t v = items[i];
        if (!slots[v]) {
            if (count == most)
                return 0;
            entries[count++] = v;
            slots[v] = (uint16_t)count;
        }
        places[i] = (uint16_t)(slots[v] - 1);
    }
    return count;
}

#define RANKS(TYPE)                                                                                \
    do {                                                                                           \
        const TYPE *from = items;                                                                  \
        TYPE *known = entries;                                                                     \
        for (size_t i = 0; i < n; i++) {                                                           \
            const TYPE v = from[i];                                                                \
            size_t slot = (size_t)((uint64_t)v * UINT64_C(0x9E3779B97F4A7C15) >> 50);              \
            while (slots[slot] && known[slots[slot] - 1] != v)                                     \
                slot = (slot + 1) % RANK_SLOTS;                                                    \
            if (!slots[slot]) {                                                                    \
                if (count == most)                                                                 \
                    return 0;                                                                      \
                known[count++] = v;                                                                \
                slots[slot] = (uint16_t)count;                                                     \
            }                                                                                      \
            places[i] = (uint16_t)(slots[slot] - 1);                                               \
        }                                                                                          \
    } while (0)

static size_t ranks_of(const void *items, size_t n, size_t itemsize, uint16_t *places, void *entries,
                       size_t most)
{
    uint16_t slots[RANK_SLOTS] = {0};
    size_t count = 0;
    if (itemsize == 1)
        RANKS(uint8_t);
    else if (itemsize == 2)
        return ranks_of_two(items, n, places, entries, most);
    else if (itemsize == 4)
        RANKS(uint32_t);
    else
        RANKS(uint64_t);
    return count;
}

/* Bits of the bytes of n integers, if those of each significance took their entropy. */
static double estimate_planes(const uint8_t *bytes, size_t n, size_t width)
{
    double total = 0;
    for (size_t j = 0; j < width; j++) {
        uint32_t histograms[4][256] = {{0}};
        size_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (size_t lane = 0; lane < 4; lane++)
                histograms[lane][bytes[(i + lane) * width + j]]++;
        for (; i < n; i++)
            histograms[0][bytes[i * width + j]]++;
        for (int b = 0; b < 256; b++)
            total += bits_of_share((double)(histograms[0][b] + histograms[1][b] + histograms[2][b]
                                            + histograms[3][b]),
                                   (double)n);
    }
    return total;
}

/* Sort n integers; `spare` has room for as many. Bytes of significance that are the same in all are left
 * out, so that residuals, which are small, take few passes. */
#define SORT(NBITS)                                                                                \
    static void sort##NBITS(uint##NBITS##_t *values, uint##NBITS##_t *spare, size_t n)             \
    {                                                                                              \
        enum { NBYTES = NBITS / 8 };                                                               \
        size_t counts[NBYTES][256] = {{0}};                                                        \
        uint##NBITS##_t *from = values, *to = spare;                                               \
        for (size_t i = 0; i < n; i++)                                                             \
            for (int j = 0; j < NBYTES; j++)                                                       \
                counts[j][values[i] >> 8 * j & 255]++;                                             \
        for (int j = 0; j < NBYTES && n; j++) {                                                    \
            size_t at = 0, *next = counts[j];                                                      \
            if (next[values[0] >> 8 * j & 255] == n)                                               \
                continue;                                                                          \
            for (int b = 0; b < 256; b++) {                                                        \
                const size_t count = next[b];                                                      \
                next[b] = at;                                                                      \
                at += count;                                                                       \
            }                                                                                      \
            for (size_t i = 0; i < n; i++)                                                         \
                to[next[from[i] >> 8 * j & 255]++] = from[i];                                      \
            uint##NBITS##_t *const done = to;                                                      \
            to = from;                                                                             \
            from = done;                                                                           \
        }                                                                                          \
        if (from != values)                                                                        \
            memcpy(values, from, n * sizeof(*values));                                             \
    }
SORT(8)
SORT(16)
SORT(32)
SORT(64)

static void sort_integers(void *values, void *spare, size_t n, size_t width)
{
    if (width == 1)
        sort8(values, spare, n);
    else if (width == 2)
        sort16(values, spare, n);
    else if (width == 4)
        sort32(values, spare, n);
    else
        sort64(values, spare, n);
}

/* Every `step`-th of n integers; return how many. */
#define DRAW(TYPE)                                                                                 \
    for (size_t i = 0; i < n; i += step)                                                           \
        ((TYPE *)out)[count++] = ((const TYPE *)integers)[i]

static size_t draw(const void *integers, size_t n, size_t width, size_t step, void *out)
{
    size_t count = 0;
    if (width == 1)
        DRAW(uint8_t);
    else if (width == 2)
        DRAW(uint16_t);
    else if (width == 4)
        DRAW(uint32_t);
    else
        DRAW(uint64_t);
    return count;
}

typedef struct {
    size_t count, first, last; /* distinct values, and how often the least and the largest occur */
} Distinct;

/* The distinct ones of sorted values, in place. */
#define DISTINCT(TYPE)                                                                             \
    do {                                                                                           \
        TYPE *values = sorted;                                                                     \
        for (size_t i = 0, start = 0; i < n; i++) {                                                \
            if (i == 0 || values[i] != values[found.count - 1]) {                                  \
                values[found.count++] = values[i];                                                 \
                start = i;                                                                         \
            }                                                                                      \
            found.last = i - start + 1;                                                            \
            if (found.count == 1)                                                                  \
                found.first = found.last;                                                          \
        }                                                                                          \
    } while (0)

static Distinct distinct_of(void *sorted, size_t n, size_t width)
{
    Distinct found = {0, 0, 0};
    if (width == 1)
        DISTINCT(uint8_t);
    else if (width == 2)
        DISTINCT(uint16_t);
    else if (width == 4)
        DISTINCT(uint32_t);
    else
        DISTINCT(uint64_t);
    return found;
}

static uint64_t divisor_of_both(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The common divisor of `divisor` and of what integers of a kind are in order, less `least`. */
#define COMMON(TYPE, SIGNED)                                                                       \
    for (size_t i = 0; i < n && divisor != 1; i++) {                                               \
        const TYPE v = ((const TYPE *)items)[i];                                                   \
        const TYPE step = (TYPE)(ORDERED(TYPE, SIGNED, v, kind) - (TYPE)least);                    \
        if (divisor == 0 || step % (TYPE)divisor)                                                  \
            divisor = divisor_of_both(divisor, step);                                              \
    }

static uint64_t common_divisor_of(const void *items, size_t n, size_t itemsize, int kind,
                                  uint64_t least, uint64_t divisor)
{
    if (itemsize == 1)
        COMMON(uint8_t, int8_t)
    else if (itemsize == 2)
        COMMON(uint16_t, int16_t)
    else if (itemsize == 4)
        COMMON(uint32_t, int32_t)
    else
        COMMON(uint64_t, int64_t)
    return divisor;
}

/* The finite ones of n floats, all their exponent bits are not set; return how many. */
#define FINITE(TYPE, EXPONENT)                                                                     \
    for (size_t i = 0; i < n; i++) {                                                               \
        const TYPE v = ((const TYPE *)floats)[i];                                                  \
        ((TYPE *)out)[count] = v;                                                                  \
        count += (v & (EXPONENT)) != (EXPONENT);                                                   \
    }

static size_t finite_of(const void *floats, size_t n, size_t itemsize, void *out)
{
    size_t count = 0;
    if (itemsize == 4)
        FINITE(uint32_t, UINT32_C(0x7F800000))
    else
        FINITE(uint64_t, UINT64_C(0x7FF0000000000000))
    return count;
}

/* A value of a sorted sample, and how often it occurs. */
typedef struct {
    uint64_t value, count;
} Run;

typedef struct {
    double worth;
    size_t index;
} Worth;

/* A residual is frequent if it has this share of a sample, or saves as many bits. */
#define MIN_SHARE 4e-4
#define MIN_WORTH 4e-3

#define RUNS(TYPE)                                                                                 \
    do {                                                                                           \
        const TYPE *values = sorted;                                                               \
        for (size_t i = 0; i < n; i++) {                                                           \
            if (i == 0 || values[i] != values[i - 1]) {                                            \
                runs[count].value = values[i];                                                     \
                runs[count++].count = 0;                                                           \
            }                                                                                      \
            runs[count - 1].count++;                                                               \
        }                                                                                          \
    } while (0)

static size_t runs_of(const void *sorted, size_t n, size_t width, Run *runs)
{
    size_t count = 0;
    if (width == 1)
        RUNS(uint8_t);
    else if (width == 2)
        RUNS(uint16_t);
    else if (width == 4)
        RUNS(uint32_t);
    else
        RUNS(uint64_t);
    return count;
}

static int compare_worth(const void *a, const void *b)
{
    const Worth *one = a, *other = b;
    if (one->worth != other->worth)
        return one->worth > other->worth ? -1 : 1;
    return one->index < other->index ? -1 : 1;
}

static int compare_index(const void *a, const void *b)
{
    const Worth *one = a, *other = b;
    return one->index < other->index ? -1 : 1;
}

/* Bits of coder 2 for a sample of `total` residuals in runs, if tokens took their entropy. The first
 * `*nfrequent` of `worths`, which has room for all runs, become the frequent ones, ascending. */
static double bits_of_bins(const Run *runs, size_t nruns, size_t total, int width, int k,
                           Worth *worths, size_t *nfrequent)
{
    uint64_t histogram[512] = {0};
    const size_t room = 256 - ((size_t)(8 * width - k + 1) << k);
    size_t count = 0;
    double bits = 0;
#define WIDTH_OF(v) ((63 - __builtin_clzll((v) | 1)) > k ? 63 - __builtin_clzll((v) | 1) - k : 0)
#define TOKEN_OF(v, m) (((unsigned)(m) << k) + (unsigned)((v) >> (m)))
    for (size_t i = 0; i < nruns; i++) {
        const uint64_t v = runs[i].value, each = runs[i].count;
        const int m = WIDTH_OF(v);
        const double worth = (double)each * m;
        histogram[TOKEN_OF(v, m)] += each;
        bits += worth;
        if (m && ((double)each >= MIN_SHARE * (double)total || worth > MIN_WORTH * (double)total)) {
            worths[count].worth = worth;
            worths[count++].index = i;
        }
    }
    if (count > room) {
        qsort(worths, count, sizeof(Worth), compare_worth);
        count = room;
        qsort(worths, count, sizeof(Worth), compare_index);
    }
    for (size_t i = 0; i < count; i++) {
        const Run *run = runs + worths[i].index;
        histogram[TOKEN_OF(run->value, WIDTH_OF(run->value))] -= run->count;
        bits += bits_of_share((double)run->count, (double)total) - worths[i].worth;
    }
    for (int t = 0; t < 512; t++)
        bits += bits_of_share((double)histogram[t], (double)total);
    *nfrequent = count;
    return bits;
}

#define ESTIMATES(NBITS)                                                                           \
    /* Bits of n folded residuals by coder 2 with k = 2, if tokens took their entropy. */          \
    static double estimate##NBITS(const uint##NBITS##_t *r, size_t n)                              \
    {                                                                                              \
        enum { K = 2 };                                                                            \
        uint32_t histograms[4][256] = {{0}};                                                       \
        double total = 0;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            const uint##NBITS##_t v = r[i];                                                        \
            const int top = 63 - __builtin_clzll((uint64_t)v | 1), m = top > K ? top - K : 0;      \
            histograms[i % 4][(m << K) + (int)(v >> m)]++;                                         \
        }                                                                                          \
        for (int t = 0; t < 256; t++) {                                                            \
            const uint32_t count =                                                                 \
                histograms[0][t] + histograms[1][t] + histograms[2][t] + histograms[3][t];         \
            const int m = (t >> K) - 1;                                                            \
            if (count)                                                                             \
                total += (double)count * (log2((double)n / (double)count) + (m > 0 ? m : 0));      \
        }                                                                                          \
        return total;                                                                              \
    }                                                                                              \
    /* The sums of that over windows, for each predictor; `spare` has room for three windows. */   \
    static void estimate_all##NBITS(const uint##NBITS##_t *works, size_t nwindows, size_t d,       \
                                    size_t h, size_t w, const int *predictors, size_t count,       \
                                    uint##NBITS##_t *spare, double *bits)                          \
    {                                                                                              \
        const size_t n = d * h * w;                                                                \
        for (size_t i = 0; i < nwindows; i++)                                                      \
            for (size_t j = 0; j < count; j++) {                                                   \
                predict##NBITS(works + i * n, NULL, spare, d, h, w, predictors[j], spare + n);     \
                bits[j] += estimate##NBITS(spare, n);                                              \
            }                                                                                      \
    }
ESTIMATES(8)
ESTIMATES(16)
ESTIMATES(32)
ESTIMATES(64)

#endif
