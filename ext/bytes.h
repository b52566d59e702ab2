/* Undoing the filters of 8-bit pixels with AVX2, a band of rows at a time.
 *
 * The general way of residual.h goes over the whole frame once for each filter. Here the bits of 8
 * rows become bytes, values and pixels before the next 8 are looked at, so that nothing but the
 * residuals and the pixels leaves the core's own cache. The results are the same.
 */

#ifndef BLOSCPACK_BYTES_H
#define BLOSCPACK_BYTES_H

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__)
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HAVE_BANDS
#define AVX2 __attribute__((target("avx2")))
#define GFNI __attribute__((target("avx2,gfni")))

enum { VECTORS_NONE, VECTORS_AVX2, VECTORS_GFNI };

/* What of these the processor has, or less: tests try each. */
static int vectors = VECTORS_NONE;

static int use_vectors(int most)
{
    int has = VECTORS_NONE;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        has = __builtin_cpu_supports("gfni") ? VECTORS_GFNI : VECTORS_AVX2;
    return vectors = most < has ? most : has;
}

/* Rows of a band: with 8 rows, a plane of bits of any width is whole bytes. */
enum { BAND_ROWS = 8 };

#define SWAP_WIDE(a, b, shift, mask)                                                       \
    do {                                                                                   \
        __m256i differing = _mm256_and_si256(                                              \
            _mm256_xor_si256(_mm256_srli_epi16(a, shift), b), _mm256_set1_epi8(mask));     \
        b = _mm256_xor_si256(b, differing);                                                \
        a = _mm256_xor_si256(a, _mm256_slli_epi16(differing, shift));                      \
    } while (0)

/* 8 planes of 32 bytes, `stride` bytes apart. With zigzag, bit i of a value is bit i + 1 of what is
 * stored, and the highest is 0, all of them inverted where bit 0 is set. */
AVX2 static inline void load_planes(const uint8_t *planes, size_t stride, bool zigzag, __m256i *p)
{
    for (int i = 0; i < 8; i++)
        p[i] = _mm256_loadu_si256((const __m256i *)(planes + i * stride));
    if (zigzag) {
        __m256i sign = p[0];
        for (int i = 0; i < 7; i++)
            p[i] = _mm256_xor_si256(p[i + 1], sign);
        p[7] = sign;
    }
}

/* Byte k of all 8 vectors, side by side: byte 8 k + i of the result is byte k of p[i]. */
AVX2 static inline void interleave_planes(const __m256i *p, __m256i *bytes)
{
    __m256i pairs[8], quads[8];
    for (int i = 0; i < 4; i++) {
        pairs[i] = _mm256_unpacklo_epi8(p[2 * i], p[2 * i + 1]);
        pairs[4 + i] = _mm256_unpackhi_epi8(p[2 * i], p[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        quads[2 * i] = _mm256_unpacklo_epi16(pairs[2 * i], pairs[2 * i + 1]);
        quads[2 * i + 1] = _mm256_unpackhi_epi16(pairs[2 * i], pairs[2 * i + 1]);
    }
    /* Groups 2 i and 2 i + 1 of the lower lane, and 16 later of the upper one. */
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 2; i++) {
            __m256i low = quads[4 * half + i], high = quads[4 * half + 2 + i];
            bytes[4 * half + 2 * i] = _mm256_unpacklo_epi32(low, high);
            bytes[4 * half + 2 * i + 1] = _mm256_unpackhi_epi32(low, high);
        }
}

AVX2 static inline void store_groups(uint8_t *out, const __m256i *bytes)
{
    for (int i = 0; i < 4; i++) {
        __m256i a = bytes[2 * i], b = bytes[2 * i + 1];
        _mm256_storeu_si256((__m256i *)(out + 32 * i), _mm256_permute2x128_si256(a, b, 0x20));
        _mm256_storeu_si256((__m256i *)(out + 128 + 32 * i), _mm256_permute2x128_si256(a, b, 0x31));
    }
}

static void last_groups(const uint8_t *planes, size_t stride, uint8_t *out, size_t n, bool zigzag)
{
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < 8; i++) {
            unsigned stored = 0;
            for (int bit = 0; bit < 8; bit++)
                stored |= (planes[bit * stride + k] >> i & 1u) << bit;
            out[8 * k + i] = (uint8_t)(zigzag ? stored >> 1 ^ (0u - (stored & 1u)) : stored);
        }
}

/* n bytes of each of 8 planes of bits to 8 n bytes. */
AVX2 static void bytes_of_planes_avx2(const uint8_t *planes, size_t stride, uint8_t *out, size_t n,
                                      bool zigzag)
{
    __m256i p[8], bytes[8];
    size_t k = 0;
    for (; k + 32 <= n; k += 32) {
        load_planes(planes + k, stride, zigzag, p);
        for (int i = 0; i < 8; i += 2)
            SWAP_WIDE(p[i], p[i + 1], 1, 0x55);
        for (int i = 0; i < 8; i += 4) {
            SWAP_WIDE(p[i], p[i + 2], 2, 0x33);
            SWAP_WIDE(p[i + 1], p[i + 3], 2, 0x33);
        }
        for (int i = 0; i < 4; i++)
            SWAP_WIDE(p[i], p[i + 4], 4, 0x0F);
        interleave_planes(p, bytes);
        store_groups(out + 8 * k, bytes);
    }
    last_groups(planes + k, stride, out + 8 * k, n - k, zigzag);
}

/* The same where the processor transposes 8 x 8 bits by itself. */
GFNI static void bytes_of_planes_gfni(const uint8_t *planes, size_t stride, uint8_t *out, size_t n,
                                      bool zigzag)
{
    const __m256i identity = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i p[8], reversed[8], bytes[8];
    size_t k = 0;
    for (; k + 32 <= n; k += 32) {
        load_planes(planes + k, stride, zigzag, p);
        for (int i = 0; i < 8; i++)  /* bit i of a product is that of byte 7 - i of the matrix */
            reversed[i] = p[7 - i];
        interleave_planes(reversed, bytes);
        for (int i = 0; i < 8; i++)
            bytes[i] = _mm256_gf2p8affine_epi64_epi8(identity, bytes[i], 0);
        store_groups(out + 8 * k, bytes);
    }
    last_groups(planes + k, stride, out + 8 * k, n - k, zigzag);
}

/* Running sums of 32 bytes, and of those before, whose sum is in every byte of `carry`. */
AVX2 static inline __m256i running_sums(__m256i sums, __m256i *carry)
{
    const __m256i last = _mm256_set1_epi8(15);
    __m256i lower, values;
    sums = _mm256_add_epi8(sums, _mm256_slli_si256(sums, 1));
    sums = _mm256_add_epi8(sums, _mm256_slli_si256(sums, 2));
    sums = _mm256_add_epi8(sums, _mm256_slli_si256(sums, 4));
    sums = _mm256_add_epi8(sums, _mm256_slli_si256(sums, 8));
    /* The sum of the lower lane goes to the upper one. */
    lower = _mm256_permute2x128_si256(sums, sums, 0x08);
    sums = _mm256_add_epi8(sums, _mm256_shuffle_epi8(lower, last));
    values = _mm256_add_epi8(sums, *carry);
    /* One addition is all that the next step waits for. */
    sums = _mm256_permute2x128_si256(sums, sums, 0x11);
    *carry = _mm256_add_epi8(*carry, _mm256_shuffle_epi8(sums, last));
    return values;
}

/* Residuals of a row to values, in place: sums along the row, and the row above (or NULL) added. */
AVX2 static void values_of_row(uint8_t *row, const uint8_t *above, size_t n, bool left)
{
    __m256i carry = _mm256_setzero_si256();
    uint8_t sum = 0;
    size_t x = 0;
    for (; x + 32 <= n; x += 32) {
        __m256i values = _mm256_loadu_si256((const __m256i *)(row + x));
        if (left)
            values = running_sums(values, &carry);
        if (above)
            values = _mm256_add_epi8(values, _mm256_loadu_si256((const __m256i *)(above + x)));
        _mm256_storeu_si256((__m256i *)(row + x), values);
    }
    if (left)
        sum = (uint8_t)_mm256_extract_epi8(carry, 0);
    for (; x < n; x++) {
        sum = (uint8_t)((left ? sum : 0) + row[x]);
        row[x] = (uint8_t)(sum + (above ? above[x] : 0));
    }
}

/* Where byte 16 part + i of 16 pixels comes from in one of their planes. */
#define FROM(part, channel, i) \
    ((16 * (part) + (i)) % 3 == (channel) ? (char)((16 * (part) + (i)) / 3) : (char)-1)
#define FROM_LANE(part, c)                                                                     \
    FROM(part, c, 0), FROM(part, c, 1), FROM(part, c, 2), FROM(part, c, 3), FROM(part, c, 4),  \
        FROM(part, c, 5), FROM(part, c, 6), FROM(part, c, 7), FROM(part, c, 8),                \
        FROM(part, c, 9), FROM(part, c, 10), FROM(part, c, 11), FROM(part, c, 12),             \
        FROM(part, c, 13), FROM(part, c, 14), FROM(part, c, 15)
#define SPREAD(part, c) _mm256_setr_epi8(FROM_LANE(part, c), FROM_LANE(part, c))

/* 32 values of green, red less green and blue less green to 32 pixels. */
AVX2 static inline void join_planes(__m256i g, __m256i red, __m256i blue, __m256i *pixels)
{
    const __m256i spread[3][3] = {{SPREAD(0, 0), SPREAD(0, 1), SPREAD(0, 2)},
                                  {SPREAD(1, 0), SPREAD(1, 1), SPREAD(1, 2)},
                                  {SPREAD(2, 0), SPREAD(2, 1), SPREAD(2, 2)}};
    __m256i r = _mm256_add_epi8(g, red), b = _mm256_add_epi8(g, blue), parts[3];
    for (int part = 0; part < 3; part++)
        parts[part] = _mm256_or_si256(_mm256_or_si256(_mm256_shuffle_epi8(r, spread[part][0]),
                                                      _mm256_shuffle_epi8(g, spread[part][1])),
                                      _mm256_shuffle_epi8(b, spread[part][2]));
    pixels[0] = _mm256_permute2x128_si256(parts[0], parts[1], 0x20);
    pixels[1] = _mm256_permute2x128_si256(parts[2], parts[0], 0x30);
    pixels[2] = _mm256_permute2x128_si256(parts[1], parts[2], 0x31);
}

/* 32 pixels, to which `reference` is added if not NULL. */
AVX2 static inline void store_pixels(const __m256i *pixels, const uint8_t *reference, uint8_t *out)
{
    for (int part = 0; part < 3; part++) {
        __m256i values = pixels[part];
        if (reference)
            values = _mm256_add_epi8(
                values, _mm256_loadu_si256((const __m256i *)(reference + 32 * part)));
        _mm256_storeu_si256((__m256i *)(out + 32 * part), values);
    }
}

/* Green, red less green and blue less green to pixels, to which `reference` is added if not NULL. */
AVX2 static void pixels_of_row(const uint8_t *green, const uint8_t *red, const uint8_t *blue,
                               const uint8_t *reference, uint8_t *pixels, size_t width)
{
    size_t x = 0;
    for (; x + 32 <= width; x += 32) {
        __m256i joined[3];
        join_planes(_mm256_loadu_si256((const __m256i *)(green + x)),
                    _mm256_loadu_si256((const __m256i *)(red + x)),
                    _mm256_loadu_si256((const __m256i *)(blue + x)), joined);
        store_pixels(joined, reference ? reference + 3 * x : NULL, pixels + 3 * x);
    }
    for (; x < width; x++) {
        const uint8_t *base = reference ? reference + 3 * x : (const uint8_t *)"\0\0";
        pixels[3 * x] = (uint8_t)(red[x] + green[x] + base[0]);
        pixels[3 * x + 1] = (uint8_t)(green[x] + base[1]);
        pixels[3 * x + 2] = (uint8_t)(blue[x] + green[x] + base[2]);
    }
}

/* Whether frames with these filters are for `decode_bands`. */
static bool has_bands(size_t rows, size_t channels, int flags)
{
    return vectors >= VECTORS_AVX2 && flags & FILTER_PLANES && channels == 3
           && rows >= 2 * BAND_ROWS;
}

/* Residuals with PLANES to RGB pixels; `work` has room for 6 * BAND_ROWS rows of a plane. */
AVX2 static void decode_bands(uint8_t *residuals, const uint8_t *reference, uint8_t *frame,
                              uint8_t *work, size_t rows, size_t width, int flags)
{
    const bool bits = flags & FILTER_BITS, zigzag = flags & FILTER_ZIGZAG;
    const size_t plane = rows * width, stride = plane / 8, band = BAND_ROWS * width;
    const uint8_t *above[3] = {NULL, NULL, NULL};
    for (size_t y = 0; y < rows; y += BAND_ROWS) {
        size_t nrows = rows - y < BAND_ROWS ? rows - y : BAND_ROWS, count = nrows * width;
        uint8_t *values[3];
        for (int c = 0; c < 3; c++) {
            uint8_t *stored = residuals + c * plane;
            if (!bits) {
                values[c] = stored + y * width;
                if (zigzag)
                    unzigzag_bytes(values[c], count);
                continue;
            }
            /* Two bands take turns: the last row of one is above the first row of the next. */
            values[c] = work + (2 * c + y / BAND_ROWS % 2) * band;
            if (vectors >= VECTORS_GFNI)
                bytes_of_planes_gfni(stored + y * width / 8, stride, values[c], count / 8, zigzag);
            else
                bytes_of_planes_avx2(stored + y * width / 8, stride, values[c], count / 8, zigzag);
            /* The last items of a plane, fewer than 8, follow its bits unchanged. */
            memcpy(values[c] + count / 8 * 8, stored + plane / 8 * 8, count % 8);
            if (zigzag)
                unzigzag_bytes(values[c] + count / 8 * 8, count % 8);
        }
        for (size_t row = 0; row < nrows; row++) {
            size_t at = 3 * (y + row) * width;
            for (int c = 0; c < 3; c++) {
                uint8_t *line = values[c] + row * width;
                if (flags & (FILTER_UP | FILTER_LEFT))
                    values_of_row(line, flags & FILTER_UP ? above[c] : NULL, width,
                                  flags & FILTER_LEFT);
                above[c] = line;
            }
            pixels_of_row(above[0], above[1], above[2], reference ? reference + at : NULL,
                          frame + at, width);
        }
    }
}

#else
static int use_vectors(int most)
{
    (void)most;
    return 0;
}
#endif
#endif
