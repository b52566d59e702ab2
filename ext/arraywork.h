/* Work integers of a block <-> its coded bytes, for one unsigned type of integers.
 *
 * Included once for each WORK of BITS bits; see docs/formats/arraychunk.md for predictors and coders. All
 * arithmetic is modulo 2^BITS, so that every step has an exact inverse for all integers.
 */

#define WIDTH (BITS / 8)

VECTORISED static void NAME(fold_all)(WORK *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (WORK)((WORK)(v[i] << 1) ^ (WORK)(0 - (WORK)(v[i] >> (BITS - 1))));
}

VECTORISED static void NAME(unfold_all)(WORK *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (WORK)((v[i] >> 1) ^ (WORK)(0 - (WORK)(v[i] & 1)));
}

VECTORISED static void NAME(add)(WORK *v, const WORK *others, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (WORK)(v[i] + others[i]);
}

VECTORISED static void NAME(subtract)(const WORK *v, const WORK *others, WORK *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (WORK)(v[i] - others[i]);
}

/* --------------------------------------------------------------- predictors */

/* One slice to residuals, not folded. */
VECTORISED static void NAME(predict_slice)(const WORK *slice, WORK *restrict out, size_t h, size_t w,
                                           int predictor)
{
    for (size_t y = 0; y < h; y++, slice += w, out += w) {
        const WORK *above = slice - w;
        const WORK first = y ? (WORK)(slice[0] - above[0]) : slice[0];
        if (predictor == PREDICT_UP && y) {
            for (size_t x = 0; x < w; x++)
                out[x] = (WORK)(slice[x] - above[x]);
            continue;
        }
        out[0] = first;
        if (predictor == PREDICT_LORENZO && y) {
            for (size_t x = 1; x < w; x++)
                out[x] = (WORK)(slice[x] - slice[x - 1] - above[x] + above[x - 1]);
        } else if (predictor == PREDICT_SECOND) {
            if (w > 1)
                out[1] = (WORK)(slice[1] - slice[0]);
            for (size_t x = 2; x < w; x++)
                out[x] = (WORK)(slice[x] - 2 * slice[x - 1] + slice[x - 2]);
        } else {
            for (size_t x = 1; x < w; x++)
                out[x] = (WORK)(slice[x] - slice[x - 1]);
        }
    }
}

/* Work integers to folded residuals; `spare` has room for two blocks. */
static void NAME(predict)(const WORK *work, const WORK *plane_before, WORK *out, size_t d, size_t h,
                          size_t w, int predictor, WORK *spare)
{
    const size_t slice = h * w, n = d * slice;
    if (predictor == 0) {
        memcpy(out, work, n * sizeof(WORK));
        return;
    }
    if (predictor & AFTER_PLANE) {
        NAME(subtract)(work, plane_before, spare, n);
        work = spare;
    }
    if (predictor & AFTER_SLICE && d > 1) {
        WORK *after = spare + n;
        memcpy(after, work, slice * sizeof(WORK));
        NAME(subtract)(work + slice, work, after + slice, n - slice);
        work = after;
    }
    if (predictor & 7)
        for (size_t z = 0; z < d; z++)
            NAME(predict_slice)(work + z * slice, out + z * slice, h, w, predictor & 7);
    else
        memcpy(out, work, n * sizeof(WORK));
    NAME(fold_all)(out, n);
}

/* Folded residuals of a row to integers: sums from `sum` on, to which the row above is added unless it
 * is NULL. */
static void NAME(restore_row)(WORK *row, const WORK *above, size_t w, WORK sum)
{
    size_t x = BY_VECTORS(JOIN(restore_row_avx2_, BITS)(row, above, w, &sum));
    if (x == 0) {
        NAME(unfold_all)(row, w);
        JOIN(sum, BITS)(row, w, sum);
        if (above)
            NAME(add)(row, above, w);
        return;
    }
    for (; x < w; x++) {
        sum = (WORK)(sum + ((row[x] >> 1) ^ (WORK)(0 - (WORK)(row[x] & 1))));
        row[x] = (WORK)(sum + (above ? above[x] : 0));
    }
}

/* Folded residuals of a slice to work integers; one row after the other, as rows stay in the cache. */
static void NAME(unpredict_slice)(WORK *row, size_t h, size_t w, int predictor)
{
    for (size_t y = 0; y < h; y++, row += w) {
        const WORK *above = row - w;
        const WORK first = y ? above[0] : 0;
        if (predictor == PREDICT_UP && y) {
            NAME(unfold_all)(row, w);
            NAME(add)(row, above, w);
        } else if (predictor == PREDICT_SECOND) {
            /* Differences, then sums of these; the first residual is one of them. */
            NAME(restore_row)(row + 1, NULL, w - 1, 0);
            NAME(unfold_all)(row, 1);
            JOIN(sum, BITS)(row, w, first);
        } else if (predictor == PREDICT_LORENZO && y) {
            NAME(restore_row)(row, above, w, 0);
        } else {
            NAME(restore_row)(row, NULL, w, first);
        }
    }
}

/* Folded residuals to work integers, in place. */
static void NAME(unpredict)(WORK *work, const WORK *plane_before, size_t d, size_t h, size_t w,
                            int predictor)
{
    const size_t slice = h * w, n = d * slice;
    if (predictor == 0)
        return;
    if (predictor & 7)
        for (size_t z = 0; z < d; z++)
            NAME(unpredict_slice)(work + z * slice, h, w, predictor & 7);
    else
        NAME(unfold_all)(work, n);
    if (predictor & AFTER_SLICE)
        for (size_t z = 1; z < d; z++)
            NAME(add)(work + z * slice, work + (z - 1) * slice, slice);
    if (predictor & AFTER_PLANE)
        NAME(add)(work, plane_before, n);
}

/* ------------------------------------------------------------- byte planes */

static const uint8_t *NAME(decode_planes)(const uint8_t *p, const uint8_t *end, WORK *r, size_t n,
                                          Scratch *s)
{
    uint8_t *bytes = WIDTH == 1 ? (uint8_t *)r : s->spare;
    for (size_t j = 0; p && j < WIDTH; j++)
        p = decode_stream(p, end, bytes + j * n, n, s, true);
    if (p && WIDTH > 1)
        blosc_internal_unshuffle(WIDTH, n * WIDTH, bytes, (uint8_t *)r);
    return p;
}

static size_t NAME(encode_planes)(const WORK *r, uint8_t *out, size_t n, Scratch *s)
{
    size_t size = 0;
    const uint8_t *bytes = (const uint8_t *)r;
    if (WIDTH > 1) {
        blosc_internal_shuffle(WIDTH, n * WIDTH, bytes, s->spare);
        bytes = s->spare;
    }
    for (size_t j = 0; j < WIDTH; j++)
        size += encode_stream(s, bytes + j * n, n, out + size, s->matches_of + j);
    return size;
}

/* --------------------------------------------------------------- quotients */

/* The m residuals of one class. */
static const uint8_t *NAME(decode_class)(const uint8_t *p, const uint8_t *end, WORK *r, size_t m,
                                         Scratch *s)
{
    uint8_t *bytes = WIDTH > 1 ? s->residuals : (uint8_t *)r;
    size_t count, low, whole, found = 0;
    int shift;
    if (end - p < 1 + 4)
        return NULL;
    shift = *p;
    count = get32(p + 1);
    if (shift > BITS || count > m)
        return NULL;
    p = decode_stream(p + 1 + 4, end, s->tokens, m, s, true);
    low = m * (size_t)(shift / 8) + (m * (size_t)(shift % 8) + 7) / 8;
    if (!p || low + count * WIDTH > (size_t)(end - p))
        return NULL;
    whole = (size_t)(shift / 8);
    memcpy(bytes, p, whole * m);
    p += whole * m;
    bytes += whole * m;
    if (shift % 8) {
        unpack_bits(p, m, shift % 8, bytes);
        p += (m * (size_t)(shift % 8) + 7) / 8;
        add_shifted(s->tokens, bytes, m, shift % 8);
        if (++whole < WIDTH)
            take_shifted_out(s->tokens, bytes + m, m, shift % 8);
    } else if (whole < WIDTH) {
        memcpy(bytes, s->tokens, m);
    }
    if (++whole < WIDTH)
        memset(s->residuals + whole * m, 0, (WIDTH - whole) * m);
    if (WIDTH > 1)
        blosc_internal_unshuffle(WIDTH, m * WIDTH, s->residuals, (uint8_t *)r);
    for (size_t i = 0; i < m; i++) {
        const uint8_t *at = memchr(s->tokens + i, 255, m - i);
        if (!at)
            break;
        if (found == count)
            return NULL;
        i = (size_t)(at - s->tokens);
        memcpy(r + i, p + WIDTH * found++, WIDTH);
    }
    return found == count ? p + WIDTH * count : NULL;
}

static const uint8_t *NAME(decode_quotients)(const uint8_t *p, const uint8_t *end, WORK *r, size_t n,
                                             Scratch *s)
{
    const size_t ngroups = (n + GROUP - 1) / GROUP, last = n - (ngroups - 1) * GROUP;
    size_t counts[MAX_CLASSES] = {0};
    WORK *next[MAX_CLASSES], *sorted = (WORK *)s->spare;
    unsigned nclasses;
    if (end - p < 1)
        return NULL;
    nclasses = *p++;
    if (nclasses == 1)
        return NAME(decode_class)(p, end, r, n, s);
    if (nclasses == 0 || nclasses > MAX_CLASSES)
        return NULL;
    p = decode_stream(p, end, s->classes, ngroups, s, true);
    if (!p)
        return NULL;
    for (size_t g = 0; g < ngroups; g++) {
        if (s->classes[g] >= nclasses)
            return NULL;
        counts[s->classes[g]] += g + 1 < ngroups ? GROUP : last;
    }
    for (unsigned c = 0; c < nclasses; c++) {
        next[c] = sorted;
        p = NAME(decode_class)(p, end, sorted, counts[c], s);
        if (!p)
            return NULL;
        sorted += counts[c];
    }
    for (size_t g = 0; g < ngroups; g++) {
        size_t m = g + 1 < ngroups ? GROUP : last;
        memcpy(r + g * GROUP, next[s->classes[g]], m * sizeof(WORK));
        next[s->classes[g]] += m;
    }
    return p;
}

static inline int NAME(length)(WORK v)
{
    return v ? 64 - __builtin_clzll((uint64_t)v) : 0;
}

/* The number of low bits that are stored plainly: the least cost of the entropy of the quotients, the
 * low bits and the escapes, over a sample. */
static int NAME(choose_shift)(const WORK *r, size_t m)
{
    WORK sample[SHIFT_SAMPLE];
    uint16_t counts[QUOTIENT_BINS + 1];
    size_t lengths[65] = {0}, nsample = 0, step = m / SHIFT_SAMPLE + 1, seen = 0;
    int median = 0, most = 0, best = 0;
    double least = 1e300;
    for (size_t i = 0; i < m; i += step) {
        sample[nsample++] = r[i];
        lengths[NAME(length)(r[i])]++;
    }
    for (int i = 0; i <= 64; i++) {
        if (2 * seen < nsample)
            median = i;
        if (100 * seen < 99 * nsample)
            most = i;
        seen += lengths[i];
    }
    int low = median > 7 ? median - 7 : 0, high = most > 3 ? most - 3 : 0;
    high = high < median - 2 ? median - 2 : high;
    high = high > BITS ? BITS : high;
    for (int shift = low, exact = -1; shift <= high; shift++) {
        double cost = (double)shift * (double)nsample;
        size_t used = 0, bins = QUOTIENT_BINS;
        /* The quotients by twice as much are counted by adding neighbours, while 255 is exact. */
        if (shift <= exact) {
            bins >>= shift + QUOTIENT_STEPS - exact;
            for (size_t i = 0; i < bins; i++)
                counts[i] = counts[2 * i] + counts[2 * i + 1];
        } else {
            memset(counts, 0, sizeof(counts));
            for (size_t i = 0; i < nsample; i++) {
                const uint64_t q = shift < BITS ? sample[i] >> shift : 0;
                counts[q < QUOTIENT_BINS ? q : QUOTIENT_BINS]++;
            }
            exact = shift + QUOTIENT_STEPS;
        }
        size_t escapes = nsample;
        float entropy = count_log(nsample);
        for (int i = 0; i < 255; i++) {
            entropy -= count_log(counts[i]);
            escapes -= counts[i];
            used += counts[i] != 0;
        }
        used += escapes != 0;
        cost += (double)(entropy - count_log(escapes)) + (double)escapes * BITS;
        cost = cost * (double)m / (double)nsample + 4.0 * (double)used;
        if (cost < least) {
            least = cost;
            best = shift;
        }
    }
    return best;
}

/* Quotients of at most 255; return how many are not less. */
VECTORISED static size_t NAME(divide)(const WORK *r, uint8_t *restrict quotients, size_t m, int shift)
{
    size_t count = 0;
    for (size_t i = 0; i < m; i++) {
        const WORK q = (WORK)(r[i] >> shift);
        quotients[i] = (uint8_t)(q < 255 ? q : 255);
    }
    for (size_t i = 0; i < m; i++)
        count += quotients[i] == 255;
    return count;
}

VECTORISED static void NAME(take_byte)(const WORK *r, uint8_t *restrict bytes, size_t m, int shift,
                                       unsigned mask)
{
    for (size_t i = 0; i < m; i++)
        bytes[i] = (uint8_t)(r[i] >> shift & mask);
}

static size_t NAME(encode_class)(const WORK *r, uint8_t *out, size_t m, Scratch *s)
{
    const int shift = NAME(choose_shift)(r, m);
    uint8_t *const start = out;
    size_t count = 0;
    if (shift < BITS)
        count = NAME(divide)(r, s->tokens, m, shift);
    else
        memset(s->tokens, 0, m);
    *out = (uint8_t)shift;
    put32(out + 1, count);
    out += 1 + 4;
    out += encode_stream(s, s->tokens, m, out, s->matches_of + MATCHES_OF_TOKENS);
    for (int j = 0; j < shift / 8; j++, out += m)
        NAME(take_byte)(r, out, m, 8 * j, 255);
    if (shift % 8) {
        NAME(take_byte)(r, s->rest, m, shift / 8 * 8, (1u << shift % 8) - 1);
        pack_bits(s->rest, m, shift % 8, out);
        out += (m * (size_t)(shift % 8) + 7) / 8;
    }
    for (size_t i = 0; i < m && count; i++)
        if (s->tokens[i] == 255) {
            memcpy(out, r + i, WIDTH);
            out += WIDTH;
            count--;
        }
    return (size_t)(out - start);
}

/* Classes are by the number of bits of twice the mean, each of at least CLASS_MIN groups: what a smaller
 * one saves is less than its table takes, in bytes and in time. */
enum { NAME(CLASS_MIN) = 48 };

static size_t NAME(encode_quotients)(const WORK *r, uint8_t *out, size_t n, Scratch *s)
{
    const size_t ngroups = (n + GROUP - 1) / GROUP, last = n - (ngroups - 1) * GROUP;
    size_t groups[66] = {0}, counts[MAX_CLASSES] = {0}, size = 1, gathered = 0;
    int class_of[66];
    unsigned nclasses = 0;
    WORK *next[MAX_CLASSES], *sorted = (WORK *)s->spare;
    for (size_t g = 0; g < ngroups; g++) {
        const size_t m = g + 1 < ngroups ? GROUP : last;
#if BITS < 64
        uint64_t sum = 0, mean;
        for (size_t i = 0; i < m; i++)
            sum += r[g * GROUP + i];
        mean = 2 * sum / m;
#else
        uint64_t mean;
        double sum = 0;
        for (size_t i = 0; i < m; i++)
            sum += (double)r[g * GROUP + i];
        sum = 2 * sum / (double)m;
        mean = sum >= 9.2e18 ? (uint64_t)1 << 63 : (uint64_t)sum;
#endif
        s->classes[g] = (uint8_t)(mean ? 64 - __builtin_clzll(mean) : 0);
        groups[s->classes[g]]++;
    }
    for (int i = 0; i <= 64; i++) {
        class_of[i] = (int)nclasses;
        gathered += groups[i];
        if (gathered >= NAME(CLASS_MIN) && nclasses < MAX_CLASSES) {
            nclasses++;
            gathered = 0;
        }
    }
    if (nclasses == 0)
        nclasses = 1;
    for (int i = 0; i <= 64; i++) /* the last groups may be too few */
        class_of[i] = class_of[i] < (int)nclasses ? class_of[i] : (int)nclasses - 1;
    *out = (uint8_t)nclasses;
    if (nclasses == 1)
        return size + NAME(encode_class)(r, out + size, n, s);
    for (size_t g = 0; g < ngroups; g++) {
        int c = class_of[s->classes[g]];
        s->classes[g] = (uint8_t)c;
        counts[c] += g + 1 < ngroups ? GROUP : last;
    }
    for (unsigned c = 0; c < nclasses; c++) {
        next[c] = sorted;
        sorted += counts[c];
    }
    for (size_t g = 0; g < ngroups; g++) {
        size_t m = g + 1 < ngroups ? GROUP : last;
        memcpy(next[s->classes[g]], r + g * GROUP, m * sizeof(WORK));
        next[s->classes[g]] += m;
    }
    size += encode_stream(s, s->classes, ngroups, out + size, s->matches_of + MATCHES_OF_CLASSES);
    for (unsigned c = 0; c < nclasses; c++)
        size += NAME(encode_class)(next[c] - counts[c], out + size, counts[c], s);
    return size;
}

/* -------------------------------------------------------------------- bins */

/* Bits at position `at`: up to 57 of them, up to 64 for wide integers. */
static inline uint64_t NAME(peek)(const uint8_t *p, size_t at)
{
    uint64_t v = get64(p + (at >> 3)) >> (at & 7);
#if BITS == 64
    v |= (uint64_t)p[(at >> 3) + 8] << 1 << (63 - (at & 7));
#endif
    return v;
}

/* Residuals of n tokens whose bits start at position `at` of `p`; return the position after them. One
 * load has the bits of `per_load` residuals, of which there is a whole number. LOW(v, n) are the lowest
 * n bits of v. */
#define JOIN_RUN(name, ATTRIBUTES, LOW)                                                            \
    ATTRIBUTES static inline __attribute__((always_inline)) size_t name(                           \
        const PlanePlan *plan, const uint8_t *restrict tokens, const uint8_t *restrict p,          \
        size_t at, WORK *restrict r, size_t n, const size_t per_load)                              \
    {                                                                                              \
        const uint64_t *restrict bases = plan->bases;                                              \
        const uint8_t *restrict widths = plan->nbits;                                              \
        for (size_t i = 0; i < n; i += per_load) {                                                 \
            /* One addition to `at` is all that the next load waits for. */                        \
            const uint64_t v = get64(p + (at >> 3)) >> (at & 7);                                   \
            unsigned skip = 0;                                                                     \
            for (size_t j = i; j < i + per_load; j++) {                                            \
                const unsigned t = tokens[j], width = widths[t];                                   \
                r[j] = (WORK)(bases[t] + LOW(v >> skip, width));                                   \
                skip += width;                                                                     \
            }                                                                                      \
            at += skip;                                                                            \
        }                                                                                          \
        return at;                                                                                 \
    }

/* The same for residuals of more than 57 bits. */
static size_t NAME(join_wide)(const PlanePlan *plan, const uint8_t *tokens, const uint8_t *p,
                              size_t at, WORK *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned t = tokens[i], width = plan->nbits[t];
        r[i] = (WORK)(plan->bases[t] + (NAME(peek)(p, at) & (((uint64_t)1 << width) - 1)));
        at += width;
    }
    return at;
}

enum { NAME(BATCH) = 96 };

/* The same for a batch, or fewer at the end; `widest` is the largest number of bits of a residual.
 * A load has 57 bits from any position. */
#define JOIN_BATCH(name, run, ATTRIBUTES)                                                          \
    ATTRIBUTES static size_t name(const PlanePlan *plan, const uint8_t *tokens, const uint8_t *p,  \
                                  size_t at, WORK *r, size_t n, unsigned widest)                   \
    {                                                                                              \
        if (n < NAME(BATCH) || widest > 57 / 2)                                                    \
            return run(plan, tokens, p, at, r, n, 1);                                              \
        if (widest <= 57 / 8)                                                                      \
            return run(plan, tokens, p, at, r, NAME(BATCH), 8);                                    \
        if (widest <= 57 / 6)                                                                      \
            return run(plan, tokens, p, at, r, NAME(BATCH), 6);                                    \
        if (widest <= 57 / 4)                                                                      \
            return run(plan, tokens, p, at, r, NAME(BATCH), 4);                                    \
        if (widest <= 57 / 3)                                                                      \
            return run(plan, tokens, p, at, r, NAME(BATCH), 3);                                    \
        return run(plan, tokens, p, at, r, NAME(BATCH), 2);                                        \
    }

JOIN_RUN(NAME(join_run), , LOW_BITS)
JOIN_BATCH(NAME(join_batch), NAME(join_run), )
#ifdef HAVE_AVX2
JOIN_RUN(NAME(join_run_bmi2_), BMI2, _bzhi_u64)
JOIN_BATCH(NAME(join_batch_bmi2_), NAME(join_run_bmi2_), BMI2)
#endif

static inline size_t NAME(join_bins)(const PlanePlan *plan, const uint8_t *tokens, const uint8_t *p,
                                     size_t at, WORK *r, size_t n)
{
    const unsigned widest = widest_of(tokens, n, plan);
    if (BITS == 64 && widest > 57)
        return NAME(join_wide)(plan, tokens, p, at, r, n);
#ifdef HAVE_AVX2
    if (vectors)
        return NAME(join_batch_bmi2_)(plan, tokens, p, at, r, n, widest);
#endif
    return NAME(join_batch)(plan, tokens, p, at, r, n, widest);
}

static const uint8_t *NAME(decode_bins)(const PlanePlan *plan, const uint8_t *p, const uint8_t *end,
                                        WORK *r, size_t n, Scratch *s)
{
    /* A residual has less than BITS bits, and loads read 9 bytes. */
    enum { BATCH = NAME(BATCH), BATCH_NBYTES = BATCH * WIDTH + 16 };
    uint8_t tail[2 * BATCH_NBYTES] = {0};
    const uint8_t *tokens = s->tokens;
    size_t at = 0, i = 0, left, count;
    p = decode_stream(p, end, s->tokens, n, s, true);
    if (!p || !are_tokens(tokens, n, plan))
        return NULL;
    for (; n - i >= BATCH && (size_t)(end - p) >= (at >> 3) + BATCH_NBYTES; i += BATCH)
        at = NAME(join_bins)(plan, tokens + i, p, at, r + i, BATCH);
    /* The rest, less than a batch of items or of its bytes, from a copy with zeros behind: nothing
     * after the block is read. */
    p += at >> 3;
    at &= 7;
    left = (size_t)(end - p);
    memcpy(tail, p, left < BATCH_NBYTES ? left : BATCH_NBYTES);
    for (; i < n; i += count) {
        count = n - i < BATCH ? n - i : BATCH;
        at = NAME(join_bins)(plan, tokens + i, tail, at, r + i, count);
        if (at > 8 * left)
            return NULL;
    }
    return p + ((at + 7) >> 3);
}

/* Frequent residuals by their hash: 1 + the index, or 0. */
enum { NAME(SLOTS) = 1024 };

static inline unsigned NAME(slot)(WORK v)
{
    return (unsigned)((uint64_t)v * UINT64_C(0x9E3779B97F4A7C15) >> 54);
}

static inline uint8_t *NAME(put_bits)(uint8_t *bits, uint64_t value, unsigned width,
                                      uint64_t *gathered, unsigned *have)
{
    *gathered |= LOW_BITS(value, width) << *have;
    *have += width;
    memcpy(bits, gathered, 8);
    bits += *have >> 3;
    *gathered >>= *have & 56;
    *have &= 7;
    return bits;
}

static size_t NAME(encode_bins)(const PlanePlan *plan, const WORK *r, uint8_t *out, size_t n,
                                Scratch *s)
{
    uint8_t slots[NAME(SLOTS)], *bits = s->spare, *tokens = s->tokens;
    const WORK *values = plan->values;
    const int k = plan->k;
    const unsigned base = (unsigned)(BITS - k + 1) << k;
    uint64_t gathered = 0;
    unsigned have = 0;
    size_t size, nbytes;
    if (plan->nvalues) {
        memset(slots, 0, sizeof(slots));
        for (size_t i = 0; i < plan->nvalues; i++) {
            unsigned slot = NAME(slot)(values[i]);
            while (slots[slot])
                slot = (slot + 1) % NAME(SLOTS);
            slots[slot] = (uint8_t)(i + 1);
        }
    }
    for (size_t i = 0; i < n; i++) {
        const WORK v = r[i];
        const int top = 63 - __builtin_clzll((uint64_t)v | 1);
        unsigned width = top > k ? (unsigned)(top - k) : 0;
        unsigned token = (width << k) + (unsigned)(v >> width);
        if (plan->nvalues) {
            unsigned slot = NAME(slot)(v);
            while (slots[slot] && values[slots[slot] - 1] != v)
                slot = (slot + 1) % NAME(SLOTS);
            if (slots[slot]) {
                token = base + slots[slot] - 1;
                width = 0;
            }
        }
        tokens[i] = (uint8_t)token;
        if (BITS == 64 && width > 32) {
            bits = NAME(put_bits)(bits, v, 32, &gathered, &have);
            bits = NAME(put_bits)(bits, (uint64_t)v >> 32 % BITS, width - 32, &gathered, &have);
        } else {
            bits = NAME(put_bits)(bits, v, width, &gathered, &have);
        }
    }
    if (have)
        *bits++ = (uint8_t)gathered;
    size = encode_stream(s, tokens, n, out, s->matches_of + MATCHES_OF_TOKENS);
    nbytes = (size_t)(bits - s->spare);
    memcpy(out + size, s->spare, nbytes);
    return size + nbytes;
}

/* -------------------------------------------------------------------- both */

static const uint8_t *NAME(decode_work)(const PlanePlan *plan, const uint8_t *p, const uint8_t *end,
                                        WORK *work, const WORK *plane_before, size_t d, size_t h,
                                        size_t w, Scratch *s)
{
    const size_t n = d * h * w;
    switch (plan->coder) {
    case CODER_PLANES:
        p = NAME(decode_planes)(p, end, work, n, s);
        break;
    case CODER_QUOTIENTS:
        p = NAME(decode_quotients)(p, end, work, n, s);
        break;
    default:
        p = NAME(decode_bins)(plan, p, end, work, n, s);
    }
    if (p)
        NAME(unpredict)(work, plane_before, d, h, w, plan->predictor);
    return p;
}

static size_t NAME(encode_work)(const PlanePlan *plan, const WORK *work, const WORK *plane_before,
                                uint8_t *out, size_t d, size_t h, size_t w, Scratch *s)
{
    const size_t n = d * h * w;
    WORK *r = (WORK *)s->residuals;
    NAME(predict)(work, plane_before, r, d, h, w, plan->predictor, (WORK *)s->spare);
    switch (plan->coder) {
    case CODER_PLANES:
        return NAME(encode_planes)(r, out, n, s);
    case CODER_QUOTIENTS:
        return NAME(encode_quotients)(r, out, n, s);
    default:
        return NAME(encode_bins)(plan, r, out, n, s);
    }
}

#undef WIDTH
