/* Image filters: pixels <-> residuals, for one unsigned item type.
 *
 * Included once for each ITEM; see frame.pyx for what the filters are. Rows are `width` pixels of
 * `channels` items. All arithmetic is modulo the range of the item, so that every filter has an
 * exact inverse for items of any type. Nothing here checks a size: the caller has.
 */

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(name) JOIN(name, ITEM)

VECTORISED static void NAME(add)(ITEM *items, const ITEM *others, size_t n)
{
    for (size_t i = 0; i < n; i++)
        items[i] = (ITEM)(items[i] + others[i]);
}

VECTORISED static void NAME(subtract)(ITEM *items, const ITEM *others, size_t n)
{
    for (size_t i = 0; i < n; i++)
        items[i] = (ITEM)(items[i] - others[i]);
}

/* Small differences of either sign become small numbers: 0, -1, 1, -2 ... to 0, 1, 2, 3. */
VECTORISED static void NAME(zigzag)(ITEM *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ITEM sign = (ITEM)(0 - (items[i] >> (8 * sizeof(ITEM) - 1)));
        items[i] = (ITEM)((ITEM)(items[i] << 1) ^ sign);
    }
}

VECTORISED static void NAME(unzigzag)(ITEM *items, size_t n)
{
    for (size_t i = 0; i < n; i++)
        items[i] = (ITEM)((items[i] >> 1) ^ (ITEM)(0 - (items[i] & 1)));
}

/* Each item less the one `step` before it; `copy` has room for n items. */
static void NAME(left)(ITEM *items, size_t n, size_t step, ITEM *restrict copy)
{
    memcpy(copy, items, n * sizeof(ITEM));
    NAME(subtract)(items + step, copy, n - step);
}

static void NAME(unleft)(ITEM *items, size_t n, size_t step)
{
    size_t i = step;
#ifdef HAVE_SUMS
    if (step == 1 && sizeof(ITEM) == 1) {
        sum_bytes((uint8_t *)items, n);
        return;
    }
    if (step == 1 && sizeof(ITEM) == 2) {
        sum_words((uint16_t *)items, n);
        return;
    }
#endif
    for (; i < n; i++)
        items[i] = (ITEM)(items[i] + items[i - step]);
}

/* Pixels to planes: green, red less green, blue less green, and a fourth as it is. */
VECTORISED static void NAME(split3)(const ITEM *pixels, ITEM *restrict first,
                                    ITEM *restrict second, ITEM *restrict third, size_t width)
{
    for (size_t x = 0; x < width; x++) {
        ITEM green = pixels[3 * x + 1];
        first[x] = green;
        second[x] = (ITEM)(pixels[3 * x] - green);
        third[x] = (ITEM)(pixels[3 * x + 2] - green);
    }
}

VECTORISED static void NAME(split4)(const ITEM *pixels, ITEM *restrict first,
                                    ITEM *restrict second, ITEM *restrict third,
                                    ITEM *restrict fourth, size_t width)
{
    for (size_t x = 0; x < width; x++) {
        ITEM green = pixels[4 * x + 1];
        first[x] = green;
        second[x] = (ITEM)(pixels[4 * x] - green);
        third[x] = (ITEM)(pixels[4 * x + 2] - green);
        fourth[x] = pixels[4 * x + 3];
    }
}

VECTORISED static void NAME(join3)(const ITEM *first, const ITEM *second, const ITEM *third,
                                   ITEM *restrict pixels, size_t width)
{
    for (size_t x = 0; x < width; x++) {
        ITEM green = first[x];
        pixels[3 * x] = (ITEM)(second[x] + green);
        pixels[3 * x + 1] = green;
        pixels[3 * x + 2] = (ITEM)(third[x] + green);
    }
}

VECTORISED static void NAME(join4)(const ITEM *first, const ITEM *second, const ITEM *third,
                                   const ITEM *fourth, ITEM *restrict pixels, size_t width)
{
    for (size_t x = 0; x < width; x++) {
        ITEM green = first[x];
        pixels[4 * x] = (ITEM)(second[x] + green);
        pixels[4 * x + 1] = green;
        pixels[4 * x + 2] = (ITEM)(third[x] + green);
        pixels[4 * x + 3] = fourth[x];
    }
}

/* Rows of one plane or of whole pixels, values to residuals in place: the last row first, since the
 * one above must be whole yet. */
static void NAME(rows_to_residuals)(ITEM *items, size_t rows, size_t length, size_t step, int flags,
                                    ITEM *restrict copy)
{
    for (size_t y = rows; y-- > 0;) {
        ITEM *row = items + y * length;
        if (flags & FILTER_UP && y > 0)
            NAME(subtract)(row, row - length, length);
        if (flags & FILTER_LEFT)
            NAME(left)(row, length, step, copy);
        if (flags & FILTER_ZIGZAG)
            NAME(zigzag)(row, length);
    }
}

static void NAME(row_to_values)(ITEM *row, size_t y, size_t length, size_t step, int flags)
{
    if (flags & FILTER_ZIGZAG)
        NAME(unzigzag)(row, length);
    if (flags & FILTER_LEFT)
        NAME(unleft)(row, length, step);
    if (flags & FILTER_UP && y > 0)
        NAME(add)(row, row - length, length);
}

/* `frame`, less `reference` if that is not NULL, to residuals. `work` has room for a frame; it is
 * used for BITS, and its first row of pixels always. */
static void NAME(encode)(const ITEM *frame, const ITEM *reference, ITEM *residuals, ITEM *work,
                         size_t rows, size_t width, size_t channels, int flags)
{
    size_t length = width * channels, plane = rows * width;
    size_t nplanes = flags & FILTER_PLANES ? channels : 1, count = rows * length / nplanes;
    if (flags & FILTER_PLANES) {
        for (size_t y = 0; y < rows; y++) {
            const ITEM *pixels = frame + y * length;
            ITEM *row = residuals + y * width;
            if (reference) {
                memcpy(work, pixels, length * sizeof(ITEM));
                NAME(subtract)(work, reference + y * length, length);
                pixels = work;
            }
            if (channels == 3)
                NAME(split3)(pixels, row, row + plane, row + 2 * plane, width);
            else
                NAME(split4)(pixels, row, row + plane, row + 2 * plane, row + 3 * plane, width);
        }
        for (size_t channel = 0; channel < channels; channel++)
            NAME(rows_to_residuals)(residuals + channel * plane, rows, width, 1, flags, work);
    } else {
        memcpy(residuals, frame, rows * length * sizeof(ITEM));
        if (reference)
            NAME(subtract)(residuals, reference, rows * length);
        NAME(rows_to_residuals)(residuals, rows, length, channels, flags, work);
    }
    if (!(flags & FILTER_BITS))
        return;
    for (size_t p = 0; p < nplanes; p++) {
        /* The other half of the work space is for the bytes of a plane. */
        uint8_t *items = (uint8_t *)(residuals + p * count), *copy = (uint8_t *)work;
        memcpy(copy, items, count * sizeof(ITEM));
        planes_of_items(copy, items, count, sizeof(ITEM), copy + count * sizeof(ITEM));
    }
}

/* The inverse of `encode`; overwrites `residuals`. `work` has room for a frame, for BITS. */
static void NAME(decode)(ITEM *residuals, const ITEM *reference, ITEM *frame, ITEM *work,
                         size_t rows, size_t width, size_t channels, int flags)
{
    size_t length = width * channels, plane = rows * width;
#ifdef HAVE_BANDS
    if (sizeof(ITEM) == 1 && has_bands(rows, channels, flags)) {
        decode_bands((uint8_t *)residuals, (const uint8_t *)reference, (uint8_t *)frame,
                     (uint8_t *)work, rows, width, flags);
        return;
    }
#endif
    if (flags & FILTER_BITS) {
        size_t nplanes = flags & FILTER_PLANES ? channels : 1, count = rows * length / nplanes;
        /* The frame itself is room for the bytes of a plane: it is written last. */
        for (size_t p = 0; p < nplanes; p++)
            items_of_planes((uint8_t *)(residuals + p * count), (uint8_t *)(work + p * count),
                            count, sizeof(ITEM), (uint8_t *)frame);
        residuals = work;
    }
    for (size_t y = 0; y < rows; y++) {
        ITEM *pixels = frame + y * length;
        if (flags & FILTER_PLANES) {
            ITEM *row = residuals + y * width;
            for (size_t channel = 0; channel < channels; channel++)
                NAME(row_to_values)(row + channel * plane, y, width, 1, flags);
            if (channels == 3)
                NAME(join3)(row, row + plane, row + 2 * plane, pixels, width);
            else
                NAME(join4)(row, row + plane, row + 2 * plane, row + 3 * plane, pixels, width);
        } else {
            ITEM *row = residuals + y * length;
            NAME(row_to_values)(row, y, length, channels, flags);
            memcpy(pixels, row, length * sizeof(ITEM));
        }
        if (reference)
            NAME(add)(pixels, reference + y * length, length);
    }
}

#undef NAME
#undef JOIN
#undef JOIN_
#undef ITEM
