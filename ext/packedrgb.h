/* Packed residuals of 3 planes to RGB pixels, 32 at a time from bits to pixels in registers.
 *
 * Included once for each TARGET; see packed.h. `above` has a row of whole blocks of each plane.
 */

TARGET static inline __attribute__((always_inline)) void NAME(unpack_rgb_rows)(
    const uint8_t *bits, const uint8_t *widths, const uint8_t *reference, uint8_t *frame,
    uint8_t *above, size_t rows, size_t width, bool left, bool up)
{
    const size_t room = packed_blocks(width) * PACKED_BLOCK;
    memset(above, 0, 3 * room);
    for (size_t y = 0; y < rows; y++) {
        __m256i carries[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(),
                              _mm256_setzero_si256()};
        for (size_t x = 0; x < width; x += PACKED_BLOCK, widths += 3) {
            const size_t at = 3 * (y * width + x);
            __m256i values[3], pixels[3];
            for (int p = 0; p < 3; p++) {
                __m256i *stored = (__m256i *)(above + p * room + x);
                values[p] = NAME(items_of_block)(&bits, widths[p]);
                if (left)
                    values[p] = running_sums(values[p], &carries[p]);
                if (up) {
                    values[p] = _mm256_add_epi8(values[p], _mm256_loadu_si256(stored));
                    _mm256_storeu_si256(stored, values[p]);
                }
            }
            join_planes(values[0], values[1], values[2], pixels);
            if (width - x >= PACKED_BLOCK) {
                store_pixels(pixels, reference ? reference + at : NULL, frame + at);
            } else {
                uint8_t last[3 * PACKED_BLOCK] = {0};
                const size_t count = 3 * (width - x);
                if (reference)
                    memcpy(last, reference + at, count);
                store_pixels(pixels, reference ? last : NULL, last);
                memcpy(frame + at, last, count);
            }
        }
    }
}

TARGET static void NAME(unpack_rgb)(const uint8_t *bits, const uint8_t *widths,
                                    const uint8_t *reference, uint8_t *frame, uint8_t *above,
                                    size_t rows, size_t width, int flags)
{
    switch (flags & (FILTER_UP | FILTER_LEFT)) {
    case FILTER_UP | FILTER_LEFT:
        NAME(unpack_rgb_rows)(bits, widths, reference, frame, above, rows, width, true, true);
        break;
    case FILTER_UP:
        NAME(unpack_rgb_rows)(bits, widths, reference, frame, above, rows, width, false, true);
        break;
    case FILTER_LEFT:
        NAME(unpack_rgb_rows)(bits, widths, reference, frame, above, rows, width, true, false);
        break;
    default:
        NAME(unpack_rgb_rows)(bits, widths, reference, frame, above, rows, width, false, false);
    }
}

#undef TARGET
#undef NAME
