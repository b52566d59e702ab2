# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because planes are only indexed by the kernel, which clamps every coordinate to
# the shapes checked here, and tuples only after their length is checked.
"""Pictures from planes of luma and chroma: warped into floats, or as bytes.

The kernel takes planes, a homography and twelve colour coefficients; it knows neither codecs nor
colour spaces. warp.h has the arithmetic, which tests/reference/planes_warp.py repeats in Python.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free, malloc


cdef extern from "warp.h" nogil:
    enum:
        WARP_MAX_EDGE
    ctypedef struct Plane:
        const uint8_t *data
        ptrdiff_t stride
        int32_t width, height
        int across, down
    ctypedef struct Geometry:
        double homography[9]
        double low_x, high_x, low_y, high_y, margin
        double left, top
        bint nearest
    ctypedef struct Colours:
        float matrix[12]
        float bias[3]
        float scale[3]
        float outside[3]
        bint rounded
    ctypedef struct Job:
        Plane planes[3]
        int nplanes
        Geometry geometry
        Colours colours
        float *floats
        ptrdiff_t channel_stride, row_stride
        uint8_t *bytes
        int32_t rows, columns
    int use_vectors(int)
    size_t room_nbytes(const Job *)
    void run_job(Job *, uint8_t *)


MAX_EDGE = WARP_MAX_EDGE
# Extent of the picture: the clean aperture, the whole frame, or the clean aperture with its edge
# pixels extended by half a pixel.
CLEAN, SMEAR, EDGE = 0, 1, 2


def limit_vectors(int most):
    """Use the general code (0) or AVX2 (1).

    Returns the one that will be used, at most what the processor has. For tests; the default is
    the highest.
    """
    return use_vectors(most)


limit_vectors(1)


cdef int set_plane(Plane *plane, const uint8_t[:, :] data, int across, int down) except -1:
    if data.shape[1] > 1 and data.strides[1] != 1:
        raise ValueError("planes have their samples next to each other in a row")
    plane.data = &data[0, 0]
    plane.stride = data.strides[0]
    plane.height = <int32_t> data.shape[0]
    plane.width = <int32_t> data.shape[1]
    plane.across = across
    plane.down = down
    return 0


cdef int set_planes(Job *job, const uint8_t[:, :] y, const uint8_t[:, :] u,
                    const uint8_t[:, :] v, int across, int down) except -1:
    """Describe the planes; check that their sizes match."""
    cdef Py_ssize_t height = y.shape[0], width = y.shape[1]
    if not 0 < height <= WARP_MAX_EDGE or not 0 < width <= WARP_MAX_EDGE:
        raise ValueError(f"planes of {width} x {height} samples: edges have 1 to {WARP_MAX_EDGE}")
    set_plane(&job.planes[0], y, 0, 0)
    job.nplanes = 1
    if u is None and v is None:
        return 0
    if u is None or v is None or across & ~1 or down & ~1:
        raise ValueError("there are two planes of chroma or none, halved or not")
    height = (height + down) >> down
    width = (width + across) >> across
    if (u.shape[0] != height or v.shape[0] != height or u.shape[1] != width
            or v.shape[1] != width):
        raise ValueError(f"planes of chroma must have {width} x {height} samples")
    set_plane(&job.planes[1], u, across, down)
    set_plane(&job.planes[2], v, across, down)
    job.nplanes = 3
    return 0


cdef int set_aperture(Job *job, clean, int padding) except -1:
    """Set the range of source coordinates; check that the aperture is inside the frame."""
    cdef Py_ssize_t left, top, width, height
    cdef Geometry *geometry = &job.geometry
    left, top, width, height = clean
    if (left < 0 or top < 0 or width < 1 or height < 1 or left > job.planes[0].width - width
            or top > job.planes[0].height - height):
        raise ValueError(f"clean aperture {tuple(clean)} is not inside the frame of "
                         f"{job.planes[0].width} x {job.planes[0].height} samples")
    geometry.left = left
    geometry.top = top
    geometry.margin = 0.5 if padding == EDGE else 0.0
    if padding == SMEAR:
        geometry.low_x = -left
        geometry.low_y = -top
        geometry.high_x = job.planes[0].width - 1 - left
        geometry.high_y = job.planes[0].height - 1 - top
    elif padding == CLEAN or padding == EDGE:
        geometry.low_x = geometry.low_y = 0
        geometry.high_x = width - 1
        geometry.high_y = height - 1
    else:
        raise ValueError(f"padding must be {CLEAN}, {SMEAR} or {EDGE}, not {padding}")
    return 0


cdef int take_numbers(double *numbers, values, int count, what) except -1:
    cdef tuple found = tuple(values)
    cdef int i
    if len(found) != count:
        raise ValueError(f"{what}: {len(found)} numbers, {count} are needed")
    for i in range(count):
        numbers[i] = found[i]
    return 0


cdef int take_floats(float *numbers, values, int count, what) except -1:
    cdef double doubles[12]
    cdef int i
    take_numbers(doubles, values, count, what)
    for i in range(count):
        numbers[i] = <float> doubles[i]
    return 0


cdef int run_in_room(Job *job) except -1:
    cdef uint8_t *room = NULL
    with nogil:
        room = <uint8_t *> malloc(room_nbytes(job))
        if room != NULL:
            run_job(job, room)
            free(room)
    if room == NULL:
        raise MemoryError
    return 0


def warp(const uint8_t[:, :] y not None, const uint8_t[:, :] u, const uint8_t[:, :] v, int across,
         int down, clean, int padding, bint nearest, homography, matrix, bint rounded, bias, scale,
         outside, float[:, :, :] out not None):
    """Write a warped picture to `out`, three planes of floats.

    `across` and `down` are 1 where chroma is halved; `u` and `v` are None for grey. `clean` is
    (left, top, width, height). `homography` has 9 numbers that map an output pixel (x, y, 1) to a
    source pixel of the clean aperture. `matrix` has 12, one row per channel, for (luma, first
    chroma, second chroma, 1). With `rounded`, channels become whole numbers of 0 to 255. Then
    `bias` is subtracted and the result multiplied by `scale`. Pixels from outside the picture are
    `outside`, unchanged.
    """
    cdef Job job
    if out.shape[0] != 3 or out.shape[1] >= 1 << 31 or out.shape[2] > 1 << 24:
        raise ValueError("the output has three planes of rows of at most 16777216 pixels")
    if out.shape[2] > 1 and out.strides[2] != sizeof(float):
        raise ValueError("the output has the pixels of a row next to each other")
    if out.strides[0] % <Py_ssize_t> sizeof(float) or out.strides[1] % <Py_ssize_t> sizeof(float):
        raise ValueError("the output is not aligned to its items")
    set_planes(&job, y, u, v, across, down)
    set_aperture(&job, clean, padding)
    job.geometry.nearest = nearest
    take_numbers(job.geometry.homography, homography, 9, "homography")
    take_floats(job.colours.matrix, matrix, 12, "matrix")
    take_floats(job.colours.bias, bias, 3, "bias")
    take_floats(job.colours.scale, scale, 3, "scale")
    take_floats(job.colours.outside, outside, 3, "outside")
    job.colours.rounded = rounded
    job.rows = <int32_t> out.shape[1]
    job.columns = <int32_t> out.shape[2]
    if job.rows == 0 or job.columns == 0:
        return
    job.bytes = NULL
    job.floats = &out[0, 0, 0]
    job.channel_stride = out.strides[0] // <Py_ssize_t> sizeof(float)
    job.row_stride = out.strides[1] // <Py_ssize_t> sizeof(float)
    run_in_room(&job)


def picture(const uint8_t[:, :] y not None, const uint8_t[:, :] u, const uint8_t[:, :] v,
            int across, int down, clean, matrix, uint8_t[:, :, ::1] out not None):
    """Write the clean aperture to `out`, which has its height and width and three channels."""
    cdef Job job
    cdef int i
    set_planes(&job, y, u, v, across, down)
    set_aperture(&job, clean, CLEAN)
    if (out.shape[0] != job.geometry.high_y + 1 or out.shape[1] != job.geometry.high_x + 1
            or out.shape[2] != 3):
        raise ValueError("the output has the height and width of the clean aperture, and 3 channels")
    job.geometry.nearest = False
    for i in range(9):
        job.geometry.homography[i] = i % 4 == 0  # the identity
    take_floats(job.colours.matrix, matrix, 12, "matrix")
    for i in range(3):
        job.colours.bias[i] = job.colours.scale[i] = job.colours.outside[i] = 0
    job.colours.rounded = True
    job.rows = <int32_t> out.shape[0]
    job.columns = <int32_t> out.shape[1]
    job.floats = NULL
    job.channel_stride = job.row_stride = 0
    job.bytes = &out[0, 0, 0]
    run_in_room(&job)
