/* The steps of warp.h with AVX2, 8 pixels or 16 samples at a time.
 *
 * Each does as many of n as are whole groups and returns their number; the general code does the
 * rest. The numbers are the same to the last bit.
 */

#ifndef BLOSCPACK_WARPVECTORS_H
#define BLOSCPACK_WARPVECTORS_H

#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__)
#include <immintrin.h>
#define HAVE_AVX2
#define AVX2 __attribute__((target("avx2")))

AVX2 static size_t blend_rows_avx2(const uint8_t *above, const uint8_t *below, int32_t weight,
                                   int16_t *out, size_t n)
{
    const __m256i weights = _mm256_set1_epi16((int16_t)weight);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(above + i)));
        __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(below + i)));
        __m256i moved = _mm256_mulhrs_epi16(_mm256_slli_epi16(_mm256_sub_epi16(b, a), 7), weights);
        _mm256_storeu_si256((__m256i *)(out + i),
                            _mm256_add_epi16(_mm256_slli_epi16(a, 7), moved));
    }
    return i;
}

/* Pairs of blended samples, one in each half, by pairs of weights. */
AVX2 static inline __m256 blend_pairs(__m256i pairs, __m256i weights)
{
    __m256i sums = _mm256_madd_epi16(pairs, weights);
    return _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(1.0f / (1 << 21)));
}

/* Reads two samples from each place. */
AVX2 static size_t blend_columns_avx2(const int16_t *blended, const int32_t *at,
                                      const int32_t *weights, float *out, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i places = _mm256_loadu_si256((const __m256i *)(at + i));
        __m256i pairs = _mm256_i32gather_epi32((const int *)blended, places, 2);
        __m256i both = _mm256_loadu_si256((const __m256i *)(weights + i));
        _mm256_storeu_ps(out + i, blend_pairs(pairs, both));
    }
    return i;
}

AVX2 static inline __m256i in_plane_avx2(__m256i at, int shift, int32_t edge, bool nearest)
{
    if (shift && nearest)
        at = _mm256_and_si256(_mm256_srai_epi32(at, 1), _mm256_set1_epi32(~(ONE - 1)));
    else if (shift)
        at = _mm256_srai_epi32(_mm256_sub_epi32(at, _mm256_set1_epi32(HALF)), 1);
    at = _mm256_max_epi32(at, _mm256_setzero_si256());
    return _mm256_min_epi32(at, _mm256_set1_epi32((edge - 1) * ONE));
}

/* The sample at a place of a plane and the one after it, as 16-bit halves; 4 bytes are read. */
AVX2 static inline __m256i pairs_at(const uint8_t *data, __m256i places, __m256i passed)
{
    const __m256i halves = _mm256_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13,
                                            -1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1,
                                            13, -1);
    __m256i words = _mm256_i32gather_epi32((const int *)data, places, 1);
    return _mm256_shuffle_epi8(_mm256_srlv_epi32(words, passed), halves);
}

AVX2 static size_t sample_row_avx2(const Plane *plane, const int32_t *x, const int32_t *y,
                                   bool nearest, float *out, size_t n)
{
    /* Places are 32-bit numbers, and 4 bytes are read, which a row must have. */
    if (plane->width < 4 || plane->stride < plane->width ||
        (int64_t)plane->stride * plane->height > INT32_MAX)
        return 0;
    const __m256i fraction = _mm256_set1_epi32(ONE - 1);
    const __m256i last_read = _mm256_set1_epi32(plane->width - 4);
    const __m256i last_row = _mm256_set1_epi32(plane->height - 1);
    const __m256i stride = _mm256_set1_epi32((int32_t)plane->stride);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i across = in_plane_avx2(_mm256_loadu_si256((const __m256i *)(x + i)), plane->across,
                                       plane->width, nearest);
        __m256i down = in_plane_avx2(_mm256_loadu_si256((const __m256i *)(y + i)), plane->down,
                                     plane->height, nearest);
        __m256i column = _mm256_srai_epi32(across, 15), row = _mm256_srai_epi32(down, 15);
        /* At the right edge the read begins earlier, and what comes before is passed over. */
        __m256i read = _mm256_min_epi32(column, last_read);
        __m256i passed = _mm256_slli_epi32(_mm256_sub_epi32(column, read), 3);
        __m256i above = _mm256_add_epi32(_mm256_mullo_epi32(row, stride), read);
        __m256i has_below = _mm256_cmpgt_epi32(last_row, row);
        __m256i below = _mm256_add_epi32(above, _mm256_and_si256(has_below, stride));
        __m256i upper = pairs_at(plane->data, above, passed);
        __m256i lower = pairs_at(plane->data, below, passed);
        __m256i weight = _mm256_and_si256(down, fraction);
        weight = _mm256_or_si256(weight, _mm256_slli_epi32(weight, 16));
        __m256i moved = _mm256_mulhrs_epi16(
            _mm256_slli_epi16(_mm256_sub_epi16(lower, upper), 7), weight);
        __m256i pairs = _mm256_add_epi16(_mm256_slli_epi16(upper, 7), moved);
        weight = _mm256_srli_epi32(_mm256_and_si256(across, fraction), 1);
        weight = _mm256_or_si256(_mm256_slli_epi32(weight, 16),
                                 _mm256_sub_epi32(_mm256_set1_epi32(HALF), weight));
        _mm256_storeu_ps(out + i, blend_pairs(pairs, weight));
    }
    return i;
}

AVX2 static inline __m256 channel_avx2(const float *matrix, __m256 y, __m256 u, __m256 v)
{
    __m256 sum = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(matrix[0]), y),
                               _mm256_mul_ps(_mm256_set1_ps(matrix[1]), u));
    sum = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_set1_ps(matrix[2]), v));
    return _mm256_add_ps(sum, _mm256_set1_ps(matrix[3]));
}

AVX2 static inline __m256i rounded_avx2(__m256 value)
{
    value = _mm256_max_ps(value, _mm256_setzero_ps());
    value = _mm256_min_ps(value, _mm256_set1_ps(255.0f));
    return _mm256_cvttps_epi32(_mm256_add_ps(value, _mm256_set1_ps(0.5f)));
}

AVX2 static size_t write_floats_avx2(const Colours *colours, const float *y, const float *u,
                                     const float *v, float *const *out, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 luma = _mm256_loadu_ps(y + i), first = _mm256_loadu_ps(u + i);
        __m256 second = _mm256_loadu_ps(v + i);
        for (int k = 0; k < 3; k++) {
            __m256 value = channel_avx2(colours->matrix + 4 * k, luma, first, second);
            if (colours->rounded)
                value = _mm256_cvtepi32_ps(rounded_avx2(value));
            value = _mm256_sub_ps(value, _mm256_set1_ps(colours->bias[k]));
            _mm256_storeu_ps(out[k] + i, _mm256_mul_ps(value, _mm256_set1_ps(colours->scale[k])));
        }
    }
    return i;
}

AVX2 static size_t write_bytes_avx2(const Colours *colours, const float *y, const float *u,
                                    const float *v, uint8_t *out, size_t n)
{
    /* Three bytes of each four, of 4 pixels. */
    const __m256i kept = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
                                          0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    size_t i = 0;
    /* The last store reaches 4 bytes, less than 2 pixels, beyond the 8. */
    for (; i + 10 <= n; i += 8) {
        __m256 luma = _mm256_loadu_ps(y + i), first = _mm256_loadu_ps(u + i);
        __m256 second = _mm256_loadu_ps(v + i);
        __m256i channels[3], pixels;
        for (int k = 0; k < 3; k++)
            channels[k] = rounded_avx2(channel_avx2(colours->matrix + 4 * k, luma, first, second));
        pixels = _mm256_or_si256(channels[0], _mm256_slli_epi32(channels[1], 8));
        pixels = _mm256_or_si256(pixels, _mm256_slli_epi32(channels[2], 16));
        pixels = _mm256_shuffle_epi8(pixels, kept);
        _mm_storeu_si128((__m128i *)(out + 3 * i), _mm256_castsi256_si128(pixels));
        _mm_storeu_si128((__m128i *)(out + 3 * i + 12), _mm256_extracti128_si256(pixels, 1));
    }
    return i;
}

/* 4 coordinates, in double precision, to fixed point; `inside` loses those that are not. */
AVX2 static inline __m128i fixed_avx2(__m256d x, double low, double high, double margin,
                                      double origin, __m256d *inside)
{
    __m256d from = _mm256_set1_pd(low), to = _mm256_set1_pd(high);
    __m256d above = _mm256_cmp_pd(x, _mm256_set1_pd(low - margin), _CMP_GE_OQ);
    __m256d below = _mm256_cmp_pd(x, _mm256_set1_pd(high + margin), _CMP_LE_OQ);
    *inside = _mm256_and_pd(*inside, _mm256_and_pd(above, below));
    /* Of NaN these give the second operand. */
    x = _mm256_min_pd(_mm256_max_pd(x, from), to);
    x = _mm256_mul_pd(_mm256_add_pd(x, _mm256_set1_pd(origin)), _mm256_set1_pd(ONE));
    return _mm256_cvttpd_epi32(_mm256_add_pd(x, _mm256_set1_pd(0.5)));
}

AVX2 static size_t find_sources_avx2(const Geometry *g, const double *h, int32_t row,
                                     bool is_affine, int32_t *x, int32_t *y, int32_t *inside,
                                     size_t n)
{
    const __m256d in_x = _mm256_set1_pd(h[1] * row + h[2]);
    const __m256d in_y = _mm256_set1_pd(h[4] * row + h[5]);
    const __m256d in_w = _mm256_set1_pd(h[7] * row + h[8]);
    const __m128i snapped = _mm_set1_epi32(~(ONE - 1)), half = _mm_set1_epi32(HALF);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        __m128i index = _mm_add_epi32(_mm_set1_epi32((int32_t)i), _mm_setr_epi32(0, 1, 2, 3));
        __m256d column = _mm256_cvtepi32_pd(index);
        __m256d from_x = _mm256_add_pd(_mm256_mul_pd(_mm256_set1_pd(h[0]), column), in_x);
        __m256d from_y = _mm256_add_pd(_mm256_mul_pd(_mm256_set1_pd(h[3]), column), in_y);
        __m256d is_inside = _mm256_castsi256_pd(_mm256_set1_epi32(-1));
        if (!is_affine) {
            __m256d w = _mm256_add_pd(_mm256_mul_pd(_mm256_set1_pd(h[6]), column), in_w);
            from_x = _mm256_div_pd(from_x, w);
            from_y = _mm256_div_pd(from_y, w);
        }
        __m128i at_x = fixed_avx2(from_x, g->low_x, g->high_x, g->margin, g->left, &is_inside);
        __m128i at_y = fixed_avx2(from_y, g->low_y, g->high_y, g->margin, g->top, &is_inside);
        if (g->nearest) {
            at_x = _mm_and_si128(_mm_add_epi32(at_x, half), snapped);
            at_y = _mm_and_si128(_mm_add_epi32(at_y, half), snapped);
        }
        _mm_storeu_si128((__m128i *)(x + i), at_x);
        _mm_storeu_si128((__m128i *)(y + i), at_y);
        /* The lower halves of the 4 masks. */
        __m256i mask = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(is_inside),
                                                   _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
        _mm_storeu_si128((__m128i *)(inside + i), _mm256_castsi256_si128(mask));
    }
    return i;
}
#endif

#endif
