/* Blocks of array chunks (docs/formats/arraychunk.md): streams, maps, geometry.
 *
 * Pure C on pointers. Positions and sizes that are read are compared with the end of the block before
 * they are used. Everything else was checked when the plan was made (arraychunk.pyx). A decoder
 * returns the position after what it read, or NULL if the block is damaged.
 */

#ifndef BLOSCPACK_ARRAYCHUNK_H
#define BLOSCPACK_ARRAYCHUNK_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "array chunks are read and written on little-endian machines only"
#endif

/* The loops are compiled for AVX2 as well, and the processor picks once, where the system can. The
 * sanitizers run before the function that picks can. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) \
    && !defined(__SANITIZE_ADDRESS__)
#define VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORISED
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Exported by libblosc.a, which bundles Zstandard 1.5; the wheel has no headers for it. */
typedef struct ZSTD_DCtx_s ZSTD_DCtx;
typedef struct ZSTD_CCtx_s ZSTD_CCtx;
typedef struct {
    unsigned offset, litLength, matchLength, rep;
} ZSTD_Sequence;
ZSTD_DCtx *ZSTD_createDCtx(void);
size_t ZSTD_freeDCtx(ZSTD_DCtx *);
size_t ZSTD_decompressDCtx(ZSTD_DCtx *, void *, size_t, const void *, size_t);
ZSTD_CCtx *ZSTD_createCCtx(void);
size_t ZSTD_freeCCtx(ZSTD_CCtx *);
size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *, int, int);
size_t ZSTD_compress2(ZSTD_CCtx *, void *, size_t, const void *, size_t);
size_t ZSTD_compressSequences(ZSTD_CCtx *, void *, size_t, const ZSTD_Sequence *, size_t,
                              const void *, size_t);
size_t ZSTD_findFrameCompressedSize(const void *, size_t);
unsigned ZSTD_isError(size_t);
/* Of C-Blosc: n bytes, of which those of equal significance lie together, to items. */
void blosc_internal_unshuffle(const size_t itemsize, const size_t n, const uint8_t *, const uint8_t *);
/* The inverse of it. */
void blosc_internal_shuffle(const size_t itemsize, const size_t n, const uint8_t *, const uint8_t *);
/* Parameters of ZSTD_CCtx_setParameter (zstd.h, release 1.5). */
enum {
    ZSTD_LEVEL = 100,
    ZSTD_CONTENT_SIZE = 200,
    ZSTD_LITERALS = 1002,
    ZSTD_BLOCK_DELIMITERS = 1008,
};

enum {
    MAX_PLANES = 16,
    MAX_BLOCK_NBYTES = 1 << 18,
    MAX_CLASSES = 16,
    MAX_ENTRIES = 8192,
    MAX_SINGLE = 1 << 24, /* integers up to it are exact in binary32 */
    GROUP = 64,
    /* Vector loops and 8-byte loads may touch bytes after the items. */
    SLACK = 64,
};
enum { MAP_OFFSET, MAP_FLOAT, MAP_QUOTIENT, MAP_RANK };
enum { CODER_PLANES, CODER_QUOTIENTS, CODER_BINS };
enum { PREDICT_LEFT = 1, PREDICT_UP = 2, PREDICT_LORENZO = 3, PREDICT_SECOND = 5 };
enum { AFTER_SLICE = 8, AFTER_PLANE = 16 };
enum { STREAM_CONSTANT, STREAM_SPARSE, STREAM_ZSTD, STREAM_STORED };
enum { STREAM_HEAD = 4, SPARSE_HEAD = 1 + 4, ZSTD_BLOCK = 1 << 17 };

typedef struct {
    int map, width, predictor, coder, shift, k;
    size_t nvalues;
    uint64_t offset, scale;
    double divisor;
    size_t nentries;
    const void *values;     /* frequent residuals, `width` bytes each, aligned */
    const void *dictionary; /* entries, `itemsize` bytes each, aligned */
    uint64_t bases[256];    /* of coder 2: residual and number of bits of each token */
    uint8_t nbits[256];
    unsigned ntokens;
} PlanePlan;

/* How often ordinary frames were larger than literals in the last streams of one kind. After each loss
 * twice as many streams are not tried. */
typedef struct {
    uint8_t losses, wait;
} Matches;

enum { MATCHES_OF_TOKENS = 8, MATCHES_OF_CLASSES, MATCHES_KINDS };

/* Memory for one block. */
typedef struct {
    ZSTD_DCtx *dctx;
    ZSTD_CCtx *literals, *matches;
    uint8_t *tokens, *bitmap, *rest, *classes;
    uint8_t *encoded, *sparse; /* of the encoder: streams that are tried */
    size_t encoded_room;
    uint8_t *work[2], *residuals, *spare, *items;
    uint8_t *mask, *values; /* of the exceptions: bitmap, and their bytes */
    Matches *matches_of; /* of the encoder: for each kind of streams of the plane */
} Scratch;

static inline uint32_t get32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, 4);
    return value;
}

static inline uint64_t get64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

static inline void put32(uint8_t *p, size_t value)
{
    uint32_t stored = (uint32_t)value;
    memcpy(p, &stored, 4);
}

/* ------------------------------------------------------------------ streams */

static size_t count_bits(const uint8_t *bitmap, size_t nbytes)
{
    size_t count = 0, i = 0;
    for (; i + 8 <= nbytes; i += 8)
        count += (size_t)__builtin_popcountll(get64(bitmap + i));
    for (; i < nbytes; i++)
        count += (size_t)__builtin_popcount(bitmap[i]);
    return count;
}

/* Whether a bitmap of n bits has exactly `count` set, and none after its end. */
static bool is_bitmap(const uint8_t *bitmap, size_t n, size_t count)
{
    if (n % 8 && bitmap[n / 8] >> n % 8)
        return false;
    return count_bits(bitmap, (n + 7) / 8) == count;
}

/* Spread the bytes of `rest` to the set bits of `bitmap`; the others are `common`. */
static void spread(const uint8_t *bitmap, const uint8_t *rest, uint8_t common, uint8_t *out, size_t n)
{
    memset(out, common, n);
    for (size_t i = 0; i < n; i += 64) {
        uint64_t bits = 0;
        size_t left = (n - i + 7) / 8;
        memcpy(&bits, bitmap + i / 8, left < 8 ? left : 8);
        for (; bits; bits &= bits - 1)
            out[i + (size_t)__builtin_ctzll(bits)] = *rest++;
    }
}

static const uint8_t *decode_stream(const uint8_t *p, const uint8_t *end, uint8_t *out, size_t n,
                                    Scratch *s, bool may_be_sparse)
{
    uint32_t head;
    size_t size, count;
    const uint8_t *stop, *q;
    if (end - p < STREAM_HEAD)
        return NULL;
    head = get32(p);
    size = head & 0x3FFFFFFF;
    p += STREAM_HEAD;
    if (head >> 30 == STREAM_CONSTANT) {
        if (size > 255)
            return NULL;
        memset(out, (int)size, n);
        return p;
    }
    if (size > (size_t)(end - p))
        return NULL;
    stop = p + size;
    switch (head >> 30) {
    case STREAM_ZSTD:
        /* One frame: the decoder would take several. */
        if (ZSTD_findFrameCompressedSize(p, size) != size)
            return NULL;
        return ZSTD_decompressDCtx(s->dctx, out, n, p, size) == n ? stop : NULL;
    case STREAM_STORED:
        if (size != n)
            return NULL;
        memcpy(out, p, n);
        return stop;
    default:
        if (!may_be_sparse || size < SPARSE_HEAD)
            return NULL;
        count = get32(p + 1);
        if (count > n)
            return NULL;
        q = decode_stream(p + SPARSE_HEAD, stop, s->bitmap, (n + 7) / 8, s, false);
        if (q)
            q = decode_stream(q, stop, s->rest, count, s, false);
        if (q != stop || !is_bitmap(s->bitmap, n, count))
            return NULL;
        spread(s->bitmap, s->rest, *p, out, n);
        return stop;
    }
}

/* Largest size of a stream of n bytes: the encoder writes nothing larger than stored bytes. */
static inline size_t stream_bound(size_t n)
{
    return STREAM_HEAD + n;
}

static size_t encode_literals(Scratch *s, const uint8_t *bytes, size_t n, uint8_t *out, size_t room)
{
    ZSTD_Sequence blocks[MAX_BLOCK_NBYTES / ZSTD_BLOCK + 1];
    size_t count = 0;
    memset(blocks, 0, sizeof(blocks));
    for (size_t at = 0; at < n; at += ZSTD_BLOCK)
        blocks[count++].litLength = (unsigned)(n - at < ZSTD_BLOCK ? n - at : ZSTD_BLOCK);
    return ZSTD_compressSequences(s->literals, out, room, blocks, count, bytes, n);
}

/* Ordinary frames must be 5 % smaller: matches take longer to decode. */
enum { SPARSE_MIN = 64, MAX_LOSSES = 4 };

static bool is_much_smaller(size_t size, size_t than)
{
    return !ZSTD_isError(size) && size + than * 5 / 100 < than;
}

static void count_bytes(const uint8_t *bytes, size_t n, uint32_t *histogram)
{
    /* Four tables, since equal bytes in a row would wait for each other. */
    uint32_t counts[4][256] = {{0}};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t j = 0; j < 4; j++)
            counts[j][bytes[i + j]]++;
    for (; i < n; i++)
        counts[0][bytes[i]]++;
    for (size_t j = 0; j < 256; j++)
        histogram[j] = counts[0][j] + counts[1][j] + counts[2][j] + counts[3][j];
}

/* Whether one byte may be so common that a stream may be sparse or constant, by an eighth of it. */
static bool may_have_common(const uint8_t *bytes, size_t n)
{
    enum { RUN = 64, STEP = 512 };
    uint32_t histogram[256] = {0};
    uint32_t most = 0;
    size_t count = 0;
    if (n < 8 * STEP)
        return true;
    for (size_t at = 0; at + RUN <= n; at += STEP, count += RUN)
        for (size_t i = at; i < at + RUN; i++)
            histogram[bytes[i]]++;
    for (int i = 0; i < 256; i++)
        most = histogram[i] > most ? histogram[i] : most;
    return 2 * (size_t)most > count;
}

static double bits_of_share(double count, double total)
{
    return count > 0 ? count * log2(total / count) : 0;
}

/* Whether a sparse stream is surely smaller than literals: Huffman codes take a whole bit for each
 * common byte, and one more for each other than these alone. */
static bool is_sparse(const uint32_t *histogram, int common, size_t n)
{
    const double most = histogram[common], rest = (double)n - most;
    /* Both have the codes of the other bytes. The bitmap takes its entropy, or an eighth at least. */
    double bitmap = bits_of_share(most, (double)n) + bits_of_share(rest, (double)n);
    bitmap = bitmap > (double)n / 8 ? bitmap : (double)n / 8;
    return 8 * 256 + bitmap * 1.1 < 0.9 * (double)n;
}

/* `tries_matches`: try an ordinary frame too; it is set to whether one is part of the stream. */
static size_t encode_stream_by(Scratch *s, const uint8_t *bytes, size_t n, uint8_t *out,
                               bool *tries_matches, bool may_be_sparse)
{
    uint32_t histogram[256];
    size_t best = n, size, count, room = s->encoded_room;
    int mode = STREAM_STORED, common = 0;
    uint8_t *data = out + STREAM_HEAD;
    bool matches = *tries_matches;
    bool sparse_only = false;
    *tries_matches = false;
    if (may_have_common(bytes, n)) {
        count_bytes(bytes, n, histogram);
        for (int i = 1; i < 256; i++)
            if (histogram[i] > histogram[common])
                common = i;
        if (n == 0 || histogram[common] == n) {
            put32(out, n ? (size_t)common : 0);
            return STREAM_HEAD;
        }
        may_be_sparse = may_be_sparse && n > SPARSE_MIN && 100 * (size_t)histogram[common] > 55 * n;
        if (may_be_sparse)
            sparse_only = is_sparse(histogram, common, n);
        /* Matches are found fast where little else is, and save most there. */
        matches |= 100 * (size_t)histogram[common] > 80 * n;
    } else {
        may_be_sparse = false;
    }
    if (!sparse_only) {
        size = encode_literals(s, bytes, n, s->encoded, room);
        if (!ZSTD_isError(size) && size < best) {
            best = size;
            mode = STREAM_ZSTD;
            memcpy(data, s->encoded, best);
        }
    }
    if (matches) {
        size = ZSTD_compress2(s->matches, s->encoded, room, bytes, n);
        if (is_much_smaller(size, best)) {
            best = size;
            mode = STREAM_ZSTD;
            memcpy(data, s->encoded, best);
            *tries_matches = true;
        }
    }
    if (may_be_sparse) {
        uint8_t *sparse = s->sparse;
        bool in_bitmap = matches, in_rest = matches;
        count = 0;
        for (size_t i = 0; i < n; i += 8) {
            const size_t most = n - i < 8 ? n - i : 8;
            unsigned bits = 0;
            for (size_t j = 0; j < most; j++) {
                const bool differs = bytes[i + j] != common;
                bits |= (unsigned)differs << j;
                s->rest[count] = bytes[i + j];
                count += differs;
            }
            s->bitmap[i / 8] = (uint8_t)bits;
        }
        *sparse = (uint8_t)common;
        put32(sparse + 1, count);
        sparse += SPARSE_HEAD;
        sparse += encode_stream_by(s, s->bitmap, (n + 7) / 8, sparse, &in_bitmap, false);
        sparse += encode_stream_by(s, s->rest, count, sparse, &in_rest, false);
        size = (size_t)(sparse - s->sparse);
        if (is_much_smaller(size, best)) {
            best = size;
            mode = STREAM_SPARSE;
            memcpy(data, s->sparse, best);
            *tries_matches = in_bitmap || in_rest;
        }
    }
    if (mode == STREAM_STORED)
        memcpy(data, bytes, n);
    put32(out, best | (uint32_t)mode << 30);
    return STREAM_HEAD + best;
}

/* Whether eight bytes are followed by the same ones in some places of an eighth of a stream. */
static bool has_runs(const uint8_t *bytes, size_t n)
{
    enum { RUN = 64, STEP = 512, RARE = 50 };
    size_t count = 0, seen = 0;
    for (size_t at = 0; at + RUN <= n; at += STEP)
        for (size_t i = at; i + 16 <= at + RUN; i += 8, seen++)
            count += get64(bytes + i) == get64(bytes + i + 8);
    return RARE * count > seen;
}

static size_t encode_stream(Scratch *s, const uint8_t *bytes, size_t n, uint8_t *out,
                            Matches *matches)
{
    bool is_tried = matches->wait == 0 || (matches->losses == 0 && has_runs(bytes, n));
    bool is_used = is_tried;
    const size_t size = encode_stream_by(s, bytes, n, out, &is_used, true);
    if (!is_tried) {
        matches->wait--;
    } else if (is_used) {
        matches->losses = matches->wait = 0;
    } else {
        matches->losses += matches->losses < MAX_LOSSES;
        matches->wait = (uint8_t)((1 << matches->losses) - 1);
    }
    return size;
}

/* --------------------------------------------------------------------- bits */

/* Fields of `width` bits (1 to 7) to bytes; `bits` has ceil(n * width / 8) bytes. */
static void unpack_bits(const uint8_t *bits, size_t n, int width, uint8_t *bytes)
{
    const uint64_t mask = (1u << width) - 1;
    const uint64_t fours = ((uint64_t)1 << 4 * width) - 1;
    const uint64_t twos = (((uint64_t)1 << 2 * width) - 1) * 0x0000000100000001;
    const uint64_t ones = mask * 0x0001000100010001;
    const uint8_t *end = bits + (n * (size_t)width + 7) / 8;
    size_t i = 0;
    /* Eight fields at once: four move to each half, then two to each quarter, one to each byte. */
    for (; i + 8 <= n && end - bits >= 8; i += 8, bits += width) {
        uint64_t v = get64(bits);
        v = (v & fours) | (v >> 4 * width & fours) << 32;
        v = (v & twos) | (v >> 2 * width & twos) << 16;
        v = (v & ones) | (v >> width & ones) << 8;
        memcpy(bytes + i, &v, 8);
    }
    for (size_t at = 0; i < n; i++, at += (size_t)width) {
        unsigned v = bits[at / 8];
        if (at % 8 + (size_t)width > 8)
            v |= (unsigned)bits[at / 8 + 1] << 8;
        bytes[i] = (uint8_t)(v >> at % 8 & mask);
    }
}

static void pack_bits(const uint8_t *bytes, size_t n, int width, uint8_t *bits)
{
    uint64_t v = 0;
    int have = 0;
    size_t i = 0;
    /* Eight fields at once: pairs, then fours, then all of them move together. */
    for (; i + 8 <= n; i += 8, bits += width) {
        v = get64(bytes + i);
        v = (v & UINT64_C(0x00FF00FF00FF00FF)) | (v >> 8 & UINT64_C(0x00FF00FF00FF00FF)) << width;
        v = (v & UINT64_C(0x0000FFFF0000FFFF)) | (v >> 16 & UINT64_C(0x0000FFFF0000FFFF)) << 2 * width;
        v = (v & UINT32_MAX) | v >> 32 << 4 * width;
        for (int j = 0; j < width; j++)
            bits[j] = (uint8_t)(v >> 8 * j);
    }
    for (v = 0; i < n; i++) {
        v |= (uint64_t)bytes[i] << have;
        for (have += width; have >= 8; have -= 8, v >>= 8)
            *bits++ = (uint8_t)v;
    }
    if (have)
        *bits = (uint8_t)v;
}

/* Bytes shifted left by 1 to 7 bits, added to `below`, which has as many bits in each byte. */
VECTORISED static void add_shifted(const uint8_t *bytes, uint8_t *restrict below, size_t n, int shift)
{
    const uint64_t kept = (0xFFu >> shift) * UINT64_C(0x0101010101010101);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint64_t v = get64(below + i) | (get64(bytes + i) & kept) << shift;
        memcpy(below + i, &v, 8);
    }
    for (; i < n; i++)
        below[i] = (uint8_t)(below[i] | bytes[i] << shift);
}

/* The bits that leave bytes which are shifted left by 1 to 7 bits. */
VECTORISED static void take_shifted_out(const uint8_t *bytes, uint8_t *restrict above, size_t n,
                                        int shift)
{
    const uint64_t kept = (0xFFu >> (8 - shift)) * UINT64_C(0x0101010101010101);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint64_t v = get64(bytes + i) >> (8 - shift) & kept;
        memcpy(above + i, &v, 8);
    }
    for (; i < n; i++)
        above[i] = (uint8_t)(bytes[i] >> (8 - shift));
}

/* Whether the plan has all n tokens. */
VECTORISED static bool are_tokens(const uint8_t *tokens, size_t n, const PlanePlan *plan)
{
    uint8_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = tokens[i] > most ? tokens[i] : most;
    return most < plan->ntokens;
}

/* The largest number of bits of a token. Buckets are in the order of their number of bits, and frequent
 * residuals, behind them, have none. */
static inline unsigned widest_of(const uint8_t *tokens, size_t n, const PlanePlan *plan)
{
    const uint8_t last = (uint8_t)(plan->ntokens - plan->nvalues - 1);
    uint8_t bucket = 0;
    size_t i = 0;
#if defined(__SSE2__)
    __m128i buckets = _mm_setzero_si128();
    const __m128i lasts = _mm_set1_epi8((char)last);
    for (; i + 16 <= n; i += 16) {
        const __m128i t = _mm_loadu_si128((const __m128i *)(tokens + i));
        const __m128i is_bucket = _mm_cmpeq_epi8(_mm_min_epu8(t, lasts), t);
        buckets = _mm_max_epu8(buckets, _mm_and_si128(t, is_bucket));
    }
    buckets = _mm_max_epu8(buckets, _mm_srli_si128(buckets, 8));
    buckets = _mm_max_epu8(buckets, _mm_srli_si128(buckets, 4));
    buckets = _mm_max_epu8(buckets, _mm_srli_si128(buckets, 2));
    buckets = _mm_max_epu8(buckets, _mm_srli_si128(buckets, 1));
    bucket = (uint8_t)_mm_cvtsi128_si32(buckets);
#endif
    for (; i < n; i++)
        bucket = tokens[i] <= last && tokens[i] > bucket ? tokens[i] : bucket;
    return plan->nbits[bucket];
}

#define LOW_BITS(v, n) ((v) & (((uint64_t)1 << (n)) - 1))

/* ------------------------------------------------------------- running sums */

static void sum8(uint8_t *a, size_t n, uint8_t carry)
{
    size_t i = 0;
#if defined(__SSE2__)
    __m128i before = _mm_set1_epi8((char)carry);
    for (; i + 16 <= n; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(a + i)), last;
        v = _mm_add_epi8(v, _mm_slli_si128(v, 1));
        v = _mm_add_epi8(v, _mm_slli_si128(v, 2));
        v = _mm_add_epi8(v, _mm_slli_si128(v, 4));
        v = _mm_add_epi8(v, _mm_slli_si128(v, 8));
        v = _mm_add_epi8(v, before);
        _mm_storeu_si128((__m128i *)(a + i), v);
        last = _mm_shufflehi_epi16(_mm_unpackhi_epi8(v, v), 0xFF);
        before = _mm_unpackhi_epi64(last, last);
    }
    if (i)
        carry = a[i - 1];
#endif
    for (; i < n; i++)
        a[i] = carry = (uint8_t)(carry + a[i]);
}

static void sum16(uint16_t *a, size_t n, uint16_t carry)
{
    size_t i = 0;
#if defined(__SSE2__)
    __m128i before = _mm_set1_epi16((short)carry);
    for (; i + 8 <= n; i += 8) {
        __m128i v = _mm_loadu_si128((const __m128i *)(a + i)), last;
        v = _mm_add_epi16(v, _mm_slli_si128(v, 2));
        v = _mm_add_epi16(v, _mm_slli_si128(v, 4));
        v = _mm_add_epi16(v, _mm_slli_si128(v, 8));
        v = _mm_add_epi16(v, before);
        _mm_storeu_si128((__m128i *)(a + i), v);
        last = _mm_shufflehi_epi16(v, 0xFF);
        before = _mm_unpackhi_epi64(last, last);
    }
    if (i)
        carry = a[i - 1];
#endif
    for (; i < n; i++)
        a[i] = carry = (uint16_t)(carry + a[i]);
}

static void sum32(uint32_t *a, size_t n, uint32_t carry)
{
    size_t i = 0;
#if defined(__SSE2__)
    __m128i before = _mm_set1_epi32((int)carry);
    for (; i + 4 <= n; i += 4) {
        __m128i v = _mm_loadu_si128((const __m128i *)(a + i));
        v = _mm_add_epi32(v, _mm_slli_si128(v, 4));
        v = _mm_add_epi32(v, _mm_slli_si128(v, 8));
        v = _mm_add_epi32(v, before);
        _mm_storeu_si128((__m128i *)(a + i), v);
        before = _mm_shuffle_epi32(v, 0xFF);
    }
    if (i)
        carry = a[i - 1];
#endif
    for (; i < n; i++)
        a[i] = carry = carry + a[i];
}

static void sum64(uint64_t *a, size_t n, uint64_t carry)
{
    for (size_t i = 0; i < n; i++)
        a[i] = carry = carry + a[i];
}

/* ------------------------------------------------------------ choice of shifts */

/* Residuals that the choice of a shift looks at, and quotients that it counts: those by 2 to the power of
 * QUOTIENT_STEPS times as much are exact up to 255. */
enum { SHIFT_SAMPLE = 4096, QUOTIENT_STEPS = 4, QUOTIENT_BINS = 256 << QUOTIENT_STEPS };

/* n log2(n) for counts of a sample; set when the module is imported. */
static float count_logs[SHIFT_SAMPLE + 1];

static void set_count_logs(void)
{
    for (int n = 1; n <= SHIFT_SAMPLE; n++)
        count_logs[n] = (float)(n * log2(n));
}

static inline float count_log(size_t n)
{
    return count_logs[n];
}

#include "arrayvectors.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(name) JOIN(name, BITS)

#define WORK uint8_t
#define BITS 8
#include "arraywork.h"
#undef WORK
#undef BITS
#define WORK uint16_t
#define BITS 16
#include "arraywork.h"
#undef WORK
#undef BITS
#define WORK uint32_t
#define BITS 32
#include "arraywork.h"
#undef WORK
#undef BITS
#define WORK uint64_t
#define BITS 64
#include "arraywork.h"
#undef WORK
#undef BITS

/* --------------------------------------------------------------------- maps */

#define EACH(FROM, TO, expression)                                                                 \
    do {                                                                                           \
        const FROM *restrict from = work;                                                          \
        TO *restrict to = items;                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const FROM v = from[i];                                                                \
            to[i] = (TO)(expression);                                                              \
        }                                                                                          \
    } while (0)

/* For each work type that is not wider than items of 2, 4 and 8 bytes. */
#define EACH_WIDTH(TO, expression)                                                                 \
    do {                                                                                           \
        if (plan->width == 1)                                                                      \
            EACH(uint8_t, TO, expression);                                                         \
        else if (plan->width == 2)                                                                 \
            EACH(uint16_t, TO, expression);                                                        \
        else if (plan->width == 4)                                                                 \
            EACH(uint32_t, TO, expression);                                                        \
        else                                                                                       \
            EACH(uint64_t, TO, expression);                                                        \
    } while (0)

VECTORISED static void items_of_offset(const PlanePlan *plan, const void *work, void *items, size_t n,
                                       size_t itemsize)
{
    const uint64_t offset = plan->offset, scale = plan->scale;
    if (scale == 1) {
        if (itemsize == 1)
            EACH(uint8_t, uint8_t, v + (uint8_t)offset);
        else if (itemsize == 2)
            EACH_WIDTH(uint16_t, (uint16_t)v + (uint16_t)offset);
        else if (itemsize == 4)
            EACH_WIDTH(uint32_t, (uint32_t)v + (uint32_t)offset);
        else
            EACH_WIDTH(uint64_t, (uint64_t)v + offset);
    } else if (itemsize == 1)
        EACH(uint8_t, uint8_t, (uint32_t)v * (uint8_t)scale + (uint8_t)offset);
    else if (itemsize == 2)
        EACH_WIDTH(uint16_t, (uint32_t)v * (uint16_t)scale + (uint16_t)offset);
    else if (itemsize == 4)
        EACH_WIDTH(uint32_t, (uint32_t)v * (uint32_t)scale + (uint32_t)offset);
    else
        EACH_WIDTH(uint64_t, (uint64_t)v * scale + offset);
}

/* The highest of `b` bits is the sign, inverted: a negative float has all its bits inverted. */
#define FLOAT_OF(TO)                                                                               \
    do {                                                                                           \
        const TO top = (TO)((TO)1 << (8 * sizeof(TO) - 1 - (size_t)shift));                        \
        const TO all = (TO)(top | (TO)(top - 1)), offset = (TO)plan->offset;                       \
        EACH_WIDTH(TO, (TO)(((TO)(v + offset) & top ? (TO)(v + offset) ^ top : ~(TO)(v + offset))  \
                            & all)                                                                 \
                           << shift);                                                              \
    } while (0)

VECTORISED static void items_of_float(const PlanePlan *plan, const void *work, void *items, size_t n,
                                      size_t itemsize)
{
    const int shift = plan->shift;
    if (itemsize == 1) {
        const uint8_t top = (uint8_t)(0x80 >> shift), all = (uint8_t)(2 * top - 1);
        const uint8_t offset = (uint8_t)plan->offset;
        EACH(uint8_t, uint8_t,
             (uint32_t)(((uint8_t)(v + offset) & top ? (v + offset) ^ top : ~(v + offset)) & all)
                 << shift);
    } else if (itemsize == 2)
        FLOAT_OF(uint16_t);
    else if (itemsize == 4)
        FLOAT_OF(uint32_t);
    else
        FLOAT_OF(uint64_t);
}

VECTORISED static void items_of_quotient(const PlanePlan *plan, const void *work, void *items, size_t n,
                                         size_t itemsize)
{
    const uint64_t offset = plan->offset;
    const double divisor = plan->divisor;
    /* Numbers of 32 bits, which vectors can convert, are the rule. */
    const int64_t least = (int64_t)offset;
    if (plan->width <= 2 && least >= INT32_MIN && least <= INT32_MAX - 65535) {
        const int32_t small = (int32_t)least;
        const float single = (float)divisor;
        if (itemsize == 4 && single == divisor && labs(small) <= MAX_SINGLE - 65535) {
            /* Integers and divisor are exact in binary32, in which the quotient is the same: a
             * quotient of two numbers of 24 bits is too far from the middle of two others for
             * binary64 to round it there. */
            if (plan->width == 1)
                EACH(uint8_t, float, (float)(v + small) / single);
            else
                EACH(uint16_t, float, (float)(v + small) / single);
        } else if (itemsize == 4) {
            if (plan->width == 1)
                EACH(uint8_t, float, (double)(v + small) / divisor);
            else
                EACH(uint16_t, float, (double)(v + small) / divisor);
        } else if (plan->width == 1)
            EACH(uint8_t, double, (double)(v + small) / divisor);
        else
            EACH(uint16_t, double, (double)(v + small) / divisor);
    } else if (itemsize == 4)
        EACH_WIDTH(float, (double)(int64_t)(v + offset) / divisor);
    else
        EACH_WIDTH(double, (double)(int64_t)(v + offset) / divisor);
}

#define ENTRIES(FROM, TO)                                                                          \
    do {                                                                                           \
        const TO *dictionary = plan->dictionary;                                                   \
        EACH(FROM, TO, dictionary[v]);                                                             \
    } while (0)
#define ENTRIES_OF(FROM)                                                                           \
    do {                                                                                           \
        const FROM *ranks = work;                                                                  \
        FROM most = 0;                                                                             \
        for (size_t i = 0; i < n; i++)                                                             \
            most = ranks[i] > most ? ranks[i] : most;                                              \
        if (most >= plan->nentries)                                                                \
            return false;                                                                          \
        if (itemsize == 1)                                                                         \
            ENTRIES(FROM, uint8_t);                                                                \
        else if (itemsize == 2)                                                                    \
            ENTRIES(FROM, uint16_t);                                                               \
        else if (itemsize == 4)                                                                    \
            ENTRIES(FROM, uint32_t);                                                               \
        else                                                                                       \
            ENTRIES(FROM, uint64_t);                                                               \
    } while (0)

VECTORISED static bool items_of_rank(const PlanePlan *plan, const void *work, void *items, size_t n,
                                     size_t itemsize)
{
    if (plan->width == 1)
        ENTRIES_OF(uint8_t);
    else if (plan->width == 2)
        ENTRIES_OF(uint16_t);
    else if (plan->width == 4)
        ENTRIES_OF(uint32_t);
    else
        ENTRIES_OF(uint64_t);
    return true;
}

static inline bool is_identity(const PlanePlan *plan, size_t itemsize)
{
    return plan->map == MAP_OFFSET && (size_t)plan->width == itemsize && plan->offset == 0
           && plan->scale == 1;
}

/* Work integers to items, both aligned and apart; return whether all are in range. */
static bool items_of_work(const PlanePlan *plan, const void *work, void *items, size_t n,
                          size_t itemsize)
{
    switch (plan->map) {
    case MAP_OFFSET:
        items_of_offset(plan, work, items, n, itemsize);
        return true;
    case MAP_FLOAT:
        items_of_float(plan, work, items, n, itemsize);
        return true;
    case MAP_QUOTIENT:
        items_of_quotient(plan, work, items, n, itemsize);
        return true;
    default:
        return items_of_rank(plan, work, items, n, itemsize);
    }
}

/* --------------------------------------------------------------- exceptions */

#define SCATTER(TYPE)                                                                              \
    do {                                                                                           \
        const TYPE *from = (const TYPE *)values;                                                   \
        TYPE *to = (TYPE *)items;                                                                  \
        for (size_t i = 0; i < n; i += 64) {                                                       \
            uint64_t bits = 0;                                                                     \
            size_t left = (n - i + 7) / 8;                                                         \
            memcpy(&bits, mask + i / 8, left < 8 ? left : 8);                                      \
            if (bits == UINT64_MAX) {                                                              \
                memcpy(to + i, from, 64 * sizeof(TYPE));                                           \
                from += 64;                                                                        \
                continue;                                                                          \
            }                                                                                      \
            for (; bits; bits &= bits - 1)                                                         \
                to[i + (size_t)__builtin_ctzll(bits)] = *from++;                                   \
        }                                                                                          \
    } while (0)

/* Replace the aligned items whose bits are set in the mask by `values`, which are aligned too. */
static void put_exceptions(const uint8_t *mask, const uint8_t *values, uint8_t *items, size_t n,
                           size_t itemsize)
{
    if (itemsize == 1)
        SCATTER(uint8_t);
    else if (itemsize == 2)
        SCATTER(uint16_t);
    else if (itemsize == 4)
        SCATTER(uint32_t);
    else
        SCATTER(uint64_t);
}

static size_t encode_exceptions(Scratch *s, const uint8_t *mask, const uint8_t *items, size_t n,
                                size_t itemsize, uint8_t *out)
{
    size_t count = 0, k = 0, size = 4;
    Matches of_mask = {0, 0}, of_values = {0, 0}; /* always tried: fill values repeat */
    if (mask)
        for (size_t i = 0; i < n; i++)
            count += mask[i] != 0;
    put32(out, count);
    if (count == 0)
        return size;
    memset(s->mask, 0, (n + 7) / 8);
    for (size_t i = 0; i < n; i++)
        if (mask[i]) {
            s->mask[i / 8] |= (uint8_t)(1 << i % 8);
            for (size_t j = 0; j < itemsize; j++)
                s->values[j * count + k] = items[i * itemsize + j];
            k++;
        }
    size += encode_stream(s, s->mask, (n + 7) / 8, out + size, &of_mask);
    size += encode_stream(s, s->values, count * itemsize, out + size, &of_values);
    return size;
}

/* ------------------------------------------------------------------- blocks */

typedef struct {
    size_t itemsize, nplanes;
    bool is_big_endian;
    size_t shape[3], block[3];
    PlanePlan planes[MAX_PLANES];
} ChunkPlan;

/* Where a block is: its sides, and its first point in the chunk. */
typedef struct {
    size_t d, h, w, first;
} Place;

static inline size_t nblocks_on(const ChunkPlan *plan, int axis)
{
    return (plan->shape[axis] + plan->block[axis] - 1) / plan->block[axis];
}

static inline size_t side_at(const ChunkPlan *plan, int axis, size_t start)
{
    size_t left = plan->shape[axis] - start;
    return left < plan->block[axis] ? left : plan->block[axis];
}

static Place place_of(const ChunkPlan *plan, size_t index)
{
    Place place;
    size_t nh = nblocks_on(plan, 1), nw = nblocks_on(plan, 2);
    size_t x = index % nw * plan->block[2], y = index / nw % nh * plan->block[1];
    size_t z = index / nw / nh * plan->block[0];
    place.d = side_at(plan, 0, z);
    place.h = side_at(plan, 1, y);
    place.w = side_at(plan, 2, x);
    place.first = (z * plan->shape[1] + y) * plan->shape[2] + x;
    return place;
}

/* Planes of n items each, one behind the other, to points; a number of planes that is known when this
 * is compiled makes vectors possible. */
#define INTERLEAVE(TYPE, PLANES)                                                                   \
    do {                                                                                           \
        const TYPE *restrict from = (const TYPE *)items;                                           \
        for (size_t i = 0; i < n; i++)                                                             \
            for (size_t p = 0; p < (PLANES); p++)                                                  \
                memcpy(out + (i * (PLANES) + p) * sizeof(TYPE), from + p * count + i,              \
                       sizeof(TYPE));                                                              \
    } while (0)
#define INTERLEAVE_EACH(PLANES)                                                                    \
    do {                                                                                           \
        if (itemsize == 1)                                                                         \
            INTERLEAVE(uint8_t, PLANES);                                                           \
        else if (itemsize == 2)                                                                    \
            INTERLEAVE(uint16_t, PLANES);                                                          \
        else if (itemsize == 4)                                                                    \
            INTERLEAVE(uint32_t, PLANES);                                                          \
        else                                                                                       \
            INTERLEAVE(uint64_t, PLANES);                                                          \
    } while (0)

/* n points from planes of `count` items each, which start at `items`. */
VECTORISED static void interleave(const uint8_t *items, size_t n, size_t count, size_t itemsize,
                                  size_t nplanes, uint8_t *restrict out)
{
    switch (nplanes) {
    case 2:
        INTERLEAVE_EACH(2);
        break;
    case 3:
        INTERLEAVE_EACH(3);
        break;
    case 4:
        INTERLEAVE_EACH(4);
        break;
    default:
        INTERLEAVE_EACH(nplanes);
    }
}

static const uint8_t *decode_work(const PlanePlan *plan, const uint8_t *p, const uint8_t *end,
                                  void *work, const void *plane_before, const Place *place, Scratch *s)
{
    switch (plan->width) {
    case 1:
        return decode_work8(plan, p, end, work, plane_before, place->d, place->h, place->w, s);
    case 2:
        return decode_work16(plan, p, end, work, plane_before, place->d, place->h, place->w, s);
    case 4:
        return decode_work32(plan, p, end, work, plane_before, place->d, place->h, place->w, s);
    default:
        return decode_work64(plan, p, end, work, plane_before, place->d, place->h, place->w, s);
    }
}

VECTORISED static void reverse_bytes(uint8_t *items, size_t n, size_t itemsize)
{
    if (itemsize == 2)
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)items)[i] = __builtin_bswap16(((uint16_t *)items)[i]);
    else if (itemsize == 4)
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)items)[i] = __builtin_bswap32(((uint32_t *)items)[i]);
    else if (itemsize == 8)
        for (size_t i = 0; i < n; i++)
            ((uint64_t *)items)[i] = __builtin_bswap64(((uint64_t *)items)[i]);
}

/* Decode a block to `out`, where its slices are `stride` points apart; return whether it is sound. */
static bool decode_block(const ChunkPlan *plan, const Place *place, const uint8_t *p,
                         const uint8_t *end, uint8_t *out, size_t stride, Scratch *s)
{
    const size_t itemsize = plan->itemsize, nplanes = plan->nplanes;
    const size_t slice = place->h * place->w, n = place->d * slice;
    /* A block that is one run of aligned items is decoded in place. */
    const bool in_place = nplanes == 1 && (place->d == 1 || stride == slice)
                          && ((uintptr_t)out & (itemsize - 1)) == 0;
    const uint8_t *before = NULL;
    for (size_t index = 0; index < nplanes; index++) {
        const PlanePlan *plane = plan->planes + index;
        uint8_t *items = in_place ? out : s->items + index * n * itemsize, *work;
        size_t count;
        if (end - p < 4)
            return false;
        count = get32(p);
        p += 4;
        if (count > n)
            return false;
        if (count) {
            p = decode_stream(p, end, s->mask, (n + 7) / 8, s, true);
            if (!p || !is_bitmap(s->mask, n, count))
                return false;
            p = decode_stream(p, end, s->spare, count * itemsize, s, true);
            if (!p)
                return false;
            blosc_internal_unshuffle(itemsize, count * itemsize, s->spare, s->values);
        }
        /* The plane after this one may need the work integers, without the exceptions. */
        work = is_identity(plane, itemsize) && (count == 0 || nplanes == 1) ? items
                                                                            : s->work[index % 2];
        p = decode_work(plane, p, end, work, before, place, s);
        if (!p || (work != items && !items_of_work(plane, work, items, n, itemsize)))
            return false;
        if (count)
            put_exceptions(s->mask, s->values, items, n, itemsize);
        before = work;
    }
    if (plan->is_big_endian)
        reverse_bytes(in_place ? out : s->items, n * nplanes, itemsize);
    for (size_t z = 0; z < place->d && !in_place; z++) {
        const uint8_t *items = s->items + z * slice * itemsize;
        uint8_t *to = out + z * stride * nplanes * itemsize;
        if (nplanes == 1)
            memcpy(to, items, slice * itemsize);
        else
            interleave(items, slice, n, itemsize, nplanes, to);
    }
    return p == end;
}

/* Largest stored size of a block of n points: exceptions, 16 classes, streams that are stored. */
static size_t block_bound(const ChunkPlan *plan, size_t n)
{
    size_t each = 64 + n / 8 + n * plan->itemsize /* exceptions */
                  + (1 + 2 * plan->itemsize) * n + n / GROUP + MAX_CLASSES * 16 + 8 * STREAM_HEAD;
    return plan->nplanes * (each + SLACK);
}

/* Encode a block from the planes of the whole chunk: work integers, and of those with exceptions a
 * mask of bytes and the items. */
static size_t encode_block(const ChunkPlan *plan, const Place *place, const uint8_t **works,
                           const uint8_t **masks, const uint8_t **items, uint8_t *out, Scratch *s,
                           Matches *matches)
{
    const size_t slice = place->h * place->w, n = place->d * slice;
    const size_t stride = plan->shape[1] * plan->shape[2];
    uint8_t *const start = out;
    for (size_t index = 0; index < plan->nplanes; index++) {
        const PlanePlan *plane = plan->planes + index;
        const size_t width = (size_t)plane->width;
        uint8_t *work = s->work[index % 2];
        const uint8_t *before = s->work[(index + 1) % 2];
        s->matches_of = matches + index * MATCHES_KINDS;
        if (masks[index]) {
            for (size_t z = 0; z < place->d; z++) {
                size_t at = place->first + z * stride;
                memcpy(s->tokens + z * slice, masks[index] + at, slice);
                memcpy(s->items + z * slice * plan->itemsize, items[index] + at * plan->itemsize,
                       slice * plan->itemsize);
            }
            out += encode_exceptions(s, s->tokens, s->items, n, plan->itemsize, out);
        } else {
            put32(out, 0);
            out += 4;
        }
        for (size_t z = 0; z < place->d; z++)
            memcpy(work + z * slice * width, works[index] + (place->first + z * stride) * width,
                   slice * width);
        switch (width) {
        case 1:
            out += encode_work8(plane, (void *)work, (const void *)before, out, place->d, place->h,
                                place->w, s);
            break;
        case 2:
            out += encode_work16(plane, (void *)work, (const void *)before, out, place->d, place->h,
                                 place->w, s);
            break;
        case 4:
            out += encode_work32(plane, (void *)work, (const void *)before, out, place->d, place->h,
                                 place->w, s);
            break;
        default:
            out += encode_work64(plane, (void *)work, (const void *)before, out, place->d, place->h,
                                 place->w, s);
        }
    }
    return (size_t)(out - start);
}

#endif
