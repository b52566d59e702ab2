# cython: boundscheck=False, wraparound=False, freethreading_compatible=True
# boundscheck is off because every index into a typed buffer is the constant 0, used only after a
# check that the length is positive.
"""Array chunks: blocks of items to their stored bytes and back (docs/formats/arraychunk.md).

The kernel knows neither headers nor how plans are chosen. A `Kernel` is made of the fields of a plan,
all of which are checked again, since the loops rely on them. Decoding trusts no byte of a block:
failures are returned as negative codes, which the caller turns into errors.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport isfinite
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset


cdef extern from "arraychunk.h" nogil:
    ctypedef struct ZSTD_DCtx:
        pass
    ctypedef struct ZSTD_CCtx:
        pass
    ZSTD_DCtx *ZSTD_createDCtx()
    size_t ZSTD_freeDCtx(ZSTD_DCtx *)
    ZSTD_CCtx *ZSTD_createCCtx()
    size_t ZSTD_freeCCtx(ZSTD_CCtx *)
    size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *, int, int)
    unsigned ZSTD_isError(size_t)
    enum:
        ZSTD_LEVEL
        ZSTD_CONTENT_SIZE
        ZSTD_LITERALS
        ZSTD_BLOCK_DELIMITERS
        MAX_PLANES
        MAX_BLOCK_NBYTES
        MAX_ENTRIES
        SLACK
        MAP_OFFSET
        MAP_FLOAT
        MAP_QUOTIENT
        MAP_RANK
        CODER_BINS
        AFTER_SLICE
        AFTER_PLANE
        MATCHES_KINDS
    ctypedef struct PlanePlan:
        int map, width, predictor, coder, shift, k
        size_t nvalues
        uint64_t offset, scale
        double divisor
        size_t nentries
        const void *values
        const void *dictionary
        uint64_t bases[256]
        uint8_t nbits[256]
        unsigned ntokens
    ctypedef struct Matches:
        uint8_t losses, wait
    ctypedef struct Scratch:
        ZSTD_DCtx *dctx
        ZSTD_CCtx *literals
        ZSTD_CCtx *matches
        uint8_t *tokens
        uint8_t *bitmap
        uint8_t *rest
        uint8_t *classes
        uint8_t *encoded
        uint8_t *sparse
        size_t encoded_room
        uint8_t *work[2]
        uint8_t *residuals
        uint8_t *spare
        uint8_t *items
        uint8_t *mask
        uint8_t *values
    ctypedef struct ChunkPlan:
        size_t itemsize
        size_t nplanes
        bint is_big_endian
        size_t shape[3]
        size_t block[3]
        PlanePlan planes[16]
    ctypedef struct Place:
        size_t d, h, w, first
    int use_vectors(int)
    void set_count_logs()
    uint32_t get32(const uint8_t *)
    void put32(uint8_t *, size_t)
    size_t nblocks_on(const ChunkPlan *, int)
    Place place_of(const ChunkPlan *, size_t)
    bint decode_block(const ChunkPlan *, const Place *, const uint8_t *, const uint8_t *, uint8_t *,
                      size_t, Scratch *)
    size_t block_bound(const ChunkPlan *, size_t)
    size_t encode_block(const ChunkPlan *, const Place *, const uint8_t **, const uint8_t **,
                        const uint8_t **, uint8_t *, Scratch *, Matches *)
    void predict8(const uint8_t *, const uint8_t *, uint8_t *, size_t, size_t, size_t, int, uint8_t *)
    void predict16(const uint16_t *, const uint16_t *, uint16_t *, size_t, size_t, size_t, int,
                   uint16_t *)
    void predict32(const uint32_t *, const uint32_t *, uint32_t *, size_t, size_t, size_t, int,
                   uint32_t *)
    void predict64(const uint64_t *, const uint64_t *, uint64_t *, size_t, size_t, size_t, int,
                   uint64_t *)


cdef enum:
    REFUSED_BLOCK = -101
    REFUSED_MEMORY = -103

DAMAGED_BLOCK = REFUSED_BLOCK
NO_MEMORY = REFUSED_MEMORY


def limit_vectors(int most):
    """Select how residuals become integers: portable code (0) or AVX2 (1).

    Returns what will be used, limited by the processor. For tests; 1 is the default.
    """
    return use_vectors(most)


limit_vectors(1)
set_count_logs()


cdef class Workspace:
    """Contexts and memory for one block, reused by later calls of any thread."""

    cdef Scratch scratch
    cdef uint8_t *memory
    cdef size_t room

    def __dealloc__(self):
        ZSTD_freeDCtx(self.scratch.dctx)
        ZSTD_freeCCtx(self.scratch.literals)
        ZSTD_freeCCtx(self.scratch.matches)
        free(self.memory)

    cdef bint prepare(self, size_t blocksize, bint encode) noexcept nogil:
        """Allocate memory for blocks of `blocksize`; return False if there is not enough."""
        cdef Scratch *s = &self.scratch
        cdef size_t part = (blocksize + SLACK + 4096) // 64 * 64
        cdef uint8_t *p
        if s.dctx == NULL:
            s.dctx = ZSTD_createDCtx()
        if encode and s.matches == NULL:
            s.literals = ZSTD_createCCtx()
            s.matches = ZSTD_createCCtx()
            if s.literals == NULL or s.matches == NULL or set_parameters(s):
                return False
        if self.room < blocksize:
            free(self.memory)
            self.memory = <uint8_t *> malloc(17 * part)
            self.room = blocksize if self.memory != NULL else 0
            if self.memory == NULL:
                return False
            p = self.memory
            s.tokens = p
            s.bitmap = p + part
            s.rest = p + 2 * part
            s.classes = p + 3 * part
            s.work[0] = p + 4 * part
            s.work[1] = p + 5 * part
            s.residuals = p + 6 * part
            s.spare = p + 7 * part  # two parts
            s.items = p + 9 * part
            s.mask = p + 10 * part
            s.values = p + 11 * part
            s.encoded = p + 12 * part  # two parts
            s.encoded_room = 2 * part
            s.sparse = p + 14 * part  # two parts
        return s.dctx != NULL


cdef bint set_parameters(Scratch *s) noexcept nogil:
    """Set the parameters of both encoders; return whether one was refused."""
    cdef size_t codes[7]
    cdef int i
    codes[0] = ZSTD_CCtx_setParameter(s.literals, ZSTD_LEVEL, 1)
    codes[1] = ZSTD_CCtx_setParameter(s.literals, ZSTD_LITERALS, 1)
    codes[2] = ZSTD_CCtx_setParameter(s.literals, ZSTD_CONTENT_SIZE, 0)
    codes[3] = ZSTD_CCtx_setParameter(s.literals, ZSTD_BLOCK_DELIMITERS, 1)
    codes[4] = ZSTD_CCtx_setParameter(s.matches, ZSTD_LEVEL, 1)
    codes[5] = ZSTD_CCtx_setParameter(s.matches, ZSTD_LITERALS, 1)
    codes[6] = ZSTD_CCtx_setParameter(s.matches, ZSTD_CONTENT_SIZE, 0)
    for i in range(7):
        if ZSTD_isError(codes[i]):
            return True
    return False


# Idle workspaces, at most 3.4 MiB each. `pop` and `append` of a list are atomic, so no lock is needed.
cdef list idle = []

cdef enum:
    MAX_IDLE = 16
    MAX_KEPT_BLOCK = 1 << 17


cdef Workspace take_workspace():
    try:
        return idle.pop()
    except IndexError:
        return Workspace()


cdef int put_back(Workspace workspace) except -1:
    if workspace.room <= MAX_KEPT_BLOCK and len(idle) < MAX_IDLE:
        idle.append(workspace)
    return 0


def is_ascending(bytes values not None, size_t width):
    """Return whether integers of `width` bytes, at most 8, are each larger than the one before."""
    cdef const char *source = values
    cdef uint64_t before, value = 0
    cdef size_t i, count
    if not 1 <= width <= 8:
        raise ValueError(f"integers of {width} bytes")
    count = <size_t> len(values) // width
    for i in range(count):
        before = value
        value = 0
        memcpy(&value, source + i * width, width)
        if i and value <= before:
            return False
    return True


cdef class Kernel:
    """A plan, ready for its blocks. Safe from many threads.

    Parameters: bytes per item; points of the chunk and of a block on each axis; and for each plane
    (map, width, predictor, coder, shift, k, offset, scale, divisor, values, dictionary). `values`
    are the frequent residuals and `dictionary` the entries, as contiguous bytes. With `is_big_endian`
    the bytes of decoded items are in reverse order; encoding and the dictionary know nothing of it.
    """

    cdef ChunkPlan plan
    cdef readonly size_t nblocks
    cdef size_t block_points
    cdef list kept

    def __init__(self, size_t itemsize, shape, block, planes, bint is_big_endian=False):
        cdef int axis
        cdef size_t nbytes = itemsize * len(planes)
        if itemsize not in (1, 2, 4, 8) or not 1 <= len(planes) <= MAX_PLANES:
            raise ValueError("itemsize must be 1, 2, 4 or 8, with 1 to 16 planes")
        self.plan.itemsize = itemsize
        self.plan.nplanes = len(planes)
        self.plan.is_big_endian = is_big_endian
        self.nblocks = 1
        self.block_points = 1
        for axis in range(3):
            self.plan.shape[axis] = shape[axis]
            self.plan.block[axis] = block[axis]
            if not 1 <= self.plan.block[axis] <= self.plan.shape[axis] < 1 << 31:
                raise ValueError(f"blocks of {block} do not divide {shape}")
            nbytes *= self.plan.block[axis]
            self.block_points *= self.plan.block[axis]
            if nbytes > MAX_BLOCK_NBYTES:
                raise ValueError(f"a block has at most {MAX_BLOCK_NBYTES} bytes")
        if shape[0] * shape[1] * shape[2] * len(planes) * itemsize >= 1 << 31:
            raise ValueError("a chunk has at most 2 GiB")
        if block[2] != shape[2] and not block[0] == block[1] == 1:
            raise ValueError("a block of part of a row has one row")
        for axis in range(3):
            self.nblocks *= nblocks_on(&self.plan, axis)
        self.kept = []
        for index, fields in enumerate(planes):
            self.set_plane(index, fields)

    cdef int set_plane(self, size_t index, fields) except -1:
        cdef int map, width, predictor, coder, shift, k
        cdef uint64_t offset, scale
        cdef double divisor
        cdef bytes values, dictionary
        cdef Aligned copy
        cdef PlanePlan *plane = &self.plan.planes[index]
        cdef size_t itemsize = self.plan.itemsize
        (map, width, predictor, coder, shift, k, offset, scale, divisor, values,
         dictionary) = fields
        if (width not in (1, 2, 4, 8) or width > <int> itemsize or not 0 <= map <= 3
                or not 0 <= coder <= 2 or not 0 <= predictor < 32
                or predictor & 7 in (4, 6, 7) or not 0 <= shift < 8 * <int> itemsize):
            raise ValueError(f"plane {index}: a field is out of range")
        if predictor & AFTER_PLANE and (index == 0 or self.plan.planes[index - 1].width != width):
            raise ValueError(f"plane {index}: there is no plane before it of equal width")
        if map == MAP_QUOTIENT and (itemsize < 4 or not isfinite(divisor) or divisor == 0):
            raise ValueError(f"plane {index}: no division by {divisor}")
        if map == MAP_RANK and not 1 <= len(dictionary) // itemsize <= MAX_ENTRIES:
            raise ValueError(f"plane {index}: a dictionary has 1 to {MAX_ENTRIES} entries")
        plane.map = map
        plane.width = width
        plane.predictor = predictor
        plane.coder = coder
        plane.shift = shift
        plane.k = k
        plane.offset = offset
        plane.scale = scale
        plane.divisor = divisor
        plane.nvalues = len(values) // width
        plane.nentries = len(dictionary) // itemsize
        if coder == CODER_BINS:
            self.set_bins(index, values)
        # The memory of a bytes object is aligned to 8 bytes only by chance.
        copy = Aligned(values)
        self.kept.append(copy)
        plane.values = copy.memory
        copy = Aligned(dictionary)
        self.kept.append(copy)
        plane.dictionary = copy.memory
        return 0

    cdef int set_bins(self, size_t index, bytes values) except -1:
        cdef PlanePlan *plane = &self.plan.planes[index]
        cdef int nbits = 8 * plane.width, k = plane.k, m
        cdef unsigned base, t, i
        cdef const char *source = values
        if not 0 <= k < nbits or (nbits - k + 1) << k > 256:
            raise ValueError(f"plane {index}: k {k} has too many tokens")
        base = (nbits - k + 1) << k
        if plane.nvalues > 256 - base:
            raise ValueError(f"plane {index}: {plane.nvalues} frequent residuals are too many")
        plane.ntokens = base + plane.nvalues
        for t in range(base):
            m = max(0, <int> (t >> k) - 1)
            plane.nbits[t] = m
            plane.bases[t] = t if t < 2u << k else (<uint64_t> (1u << k) + (t & ((1u << k) - 1))) << m
        if not is_ascending(values, plane.width):
            raise ValueError(f"plane {index}: frequent residuals do not ascend")
        for i in range(plane.nvalues):
            plane.nbits[base + i] = 0
            plane.bases[base + i] = 0
            memcpy(&plane.bases[base + i], source + i * plane.width, plane.width)
        return 0

    def decode_into(self, const uint8_t[::1] ends not None, const uint8_t[::1] stored not None,
                    size_t low, size_t first, size_t count, uint8_t[::1] out not None):
        """Decode `count` blocks from block `first` on; return a negative code on failure, else 0.

        `ends` holds the start of block 0, then the end of each block, as u32. `stored` is the part
        of the chunk from position `low` on. `out` is the whole content, of which only these blocks
        are written, or one block alone.
        """
        cdef size_t at, stop, index, stride, high = low + stored.shape[0]
        cdef size_t nbytes = out.shape[0]
        cdef bint alone
        cdef bint sound = True
        cdef Place place
        cdef uint8_t *target
        cdef size_t step = self.plan.itemsize * self.plan.nplanes
        cdef Workspace workspace
        if (<size_t> ends.shape[0] != 4 * (self.nblocks + 1) or first >= self.nblocks
                or not 1 <= count <= self.nblocks - first or stored.shape[0] == 0):
            return REFUSED_BLOCK
        place = place_of(&self.plan, first)
        alone = nbytes != self.plan.shape[0] * self.plan.shape[1] * self.plan.shape[2] * step
        if alone and (count != 1 or nbytes != place.d * place.h * place.w * step):
            return REFUSED_BLOCK
        workspace = take_workspace()
        with nogil:
            if not workspace.prepare(self.block_points * step, False):
                with gil:  # the workspace is not put back, so that its memory is freed
                    return REFUSED_MEMORY
            for index in range(first, first + count):
                at = get32(&ends[0] + 4 * index)
                stop = get32(&ends[0] + 4 * index + 4)
                if at > stop or at < low or stop > high:
                    sound = False
                    break
                place = place_of(&self.plan, index)
                stride = place.h * place.w if alone else self.plan.shape[1] * self.plan.shape[2]
                target = &out[0] if alone else &out[0] + place.first * step
                if not decode_block(&self.plan, &place, &stored[0] + (at - low),
                                    &stored[0] + (stop - low), target, stride, &workspace.scratch):
                    sound = False
                    break
        put_back(workspace)
        return 0 if sound else REFUSED_BLOCK

    def encode(self, works, masks, items, size_t limit, blocks=None, int matches_wait=0):
        """Encode blocks; return the stored bytes and the list of their sizes, or None.

        For each plane, `works` has the work integers of the chunk; `masks` and `items` have a byte for
        each item that is not 0 for an exception, and the items, or None. None is returned if more than
        `limit` bytes are needed. `blocks` lists the blocks to encode, by default all. The first
        `matches_wait` streams of each kind, at most 255, are not tried as frames with matches; those
        of exceptions always are.
        """
        cdef Encoding encoding = self.encoding(works, masks, items, blocks, limit, matches_wait)
        cdef size_t i
        if encoding is None:
            return None
        return (PyBytes_FromStringAndSize(<char *> encoding.stored, encoding.used),
                [encoding.sizes[i] for i in range(encoding.count)])

    def encode_chunk(self, works, masks, items, bytes head, size_t table, size_t limit,
                     int matches_wait=0):
        """Return `head` with all blocks behind it, or None if these need more than `limit` bytes.

        The end of each block is written to position `table` of the head, and the size of the chunk to
        position 12. The other parameters are those of `encode`.
        """
        cdef size_t nhead = len(head), at = nhead, i
        cdef Encoding encoding
        cdef bytes chunk
        cdef const char *front = head
        cdef uint8_t *out
        if not 16 <= table <= nhead or self.nblocks > (nhead - table) // 4:
            raise ValueError(f"a head of {nhead} bytes has no table of {self.nblocks} ends at {table}")
        encoding = self.encoding(works, masks, items, None, limit, matches_wait)
        if encoding is None:
            return None
        chunk = PyBytes_FromStringAndSize(NULL, nhead + encoding.used)
        out = <uint8_t *> PyBytes_AS_STRING(chunk)
        with nogil:
            memcpy(out, front, nhead)
            memcpy(out + nhead, encoding.stored, encoding.used)
            for i in range(encoding.count):
                at += encoding.sizes[i]
                put32(out + table + 4 * i, at)
            put32(out + 12, at)
        return chunk

    def encoded_size(self, works, size_t limit, int matches_wait=0):
        """Return the stored size of all blocks of planes without exceptions; at most `limit`."""
        nones = [None] * <Py_ssize_t> self.plan.nplanes
        cdef Encoding encoding = self.encoding(works, nones, nones, None, limit, matches_wait)
        return limit if encoding is None else encoding.used

    cdef Encoding encoding(self, works, masks, items, blocks, size_t limit, int matches_wait):
        """Encode blocks; None if these need more than `limit` bytes. See `encode`."""
        cdef const uint8_t *work_of[16]
        cdef const uint8_t *mask_of[16]
        cdef const uint8_t *items_of[16]
        cdef const uint8_t[::1] view
        cdef size_t npoints = self.plan.shape[0] * self.plan.shape[1] * self.plan.shape[2]
        cdef size_t plane, i, index, size
        cdef Place place
        cdef Encoding encoding
        cdef Workspace workspace
        cdef Matches matches[16 * MATCHES_KINDS]
        if limit > 1 << 32:
            raise ValueError(f"a chunk has no {limit} bytes")
        for plane in range(self.plan.nplanes):
            view = works[plane]
            if <size_t> view.shape[0] != npoints * self.plan.planes[plane].width:
                raise ValueError(f"plane {plane}: {view.shape[0]} bytes of integers")
            work_of[plane] = &view[0]
            mask_of[plane] = items_of[plane] = NULL
            if masks[plane] is not None:
                view = masks[plane]
                if <size_t> view.shape[0] != npoints:
                    raise ValueError(f"plane {plane}: a mask of {view.shape[0]} bytes")
                mask_of[plane] = &view[0]
                view = items[plane]
                if <size_t> view.shape[0] != npoints * self.plan.itemsize:
                    raise ValueError(f"plane {plane}: {view.shape[0]} bytes of items")
                items_of[plane] = &view[0]
        # The limit is compared after each block, so there is room for one more.
        encoding = Encoding(self.nblocks if blocks is None else len(blocks),
                            limit + block_bound(&self.plan, self.block_points))
        for i in range(encoding.count):
            index = i if blocks is None else blocks[i]
            if index >= self.nblocks:
                raise IndexError(index)
            encoding.sizes[i] = index  # replaced by its size when the block is encoded
        workspace = take_workspace()
        if not workspace.prepare(self.block_points * self.plan.itemsize * self.plan.nplanes, True):
            raise MemoryError("array chunk")
        memset(matches, 0, sizeof(matches))
        for i in range(16 * MATCHES_KINDS):
            matches[i].wait = matches_wait
        with nogil:
            for i in range(encoding.count):
                place = place_of(&self.plan, encoding.sizes[i])
                size = encode_block(&self.plan, &place, work_of, mask_of, items_of,
                                    encoding.stored + encoding.used, &workspace.scratch, matches)
                encoding.sizes[i] = size
                encoding.used += size
                if encoding.used > limit:
                    break
        put_back(workspace)
        return None if encoding.used > limit else encoding


@cython.final
cdef class Encoding:
    """Stored bytes of `count` blocks, and their sizes."""

    cdef uint8_t *stored
    cdef size_t *sizes
    cdef size_t count, used

    def __cinit__(self, size_t count, size_t room):
        self.count = count
        self.stored = <uint8_t *> malloc(room)
        self.sizes = <size_t *> malloc((count or 1) * sizeof(size_t))
        if self.stored == NULL or self.sizes == NULL:
            raise MemoryError("array chunk")

    def __dealloc__(self):
        free(self.stored)
        free(self.sizes)


cdef class Aligned:
    """A copy of bytes in memory that is aligned for every type."""

    cdef uint8_t *memory

    def __cinit__(self, bytes source):
        self.memory = <uint8_t *> malloc(len(source) + SLACK)
        if self.memory == NULL:
            raise MemoryError("array chunk")
        memset(self.memory, 0, len(source) + SLACK)
        memcpy(self.memory, <const uint8_t *> source, len(source))

    def __dealloc__(self):
        free(self.memory)


cdef extern from "arraychoice.h" nogil:
    ctypedef struct Facts:
        uint64_t least, most, bits
    ctypedef struct Quotients:
        size_t count
        int32_t least, most
    Facts facts8(const uint8_t *, size_t, int)
    Facts facts16(const uint16_t *, size_t, int)
    Facts facts32(const uint32_t *, size_t, int)
    Facts facts64(const uint64_t *, size_t, int)
    void order_items(const void *, size_t, size_t, int, int, uint64_t, void *, int)
    Quotients quotients_of(const void *, size_t, size_t, double, int32_t *, uint8_t *)
    size_t ranks_of(const void *, size_t, size_t, uint16_t *, void *, size_t)
    void estimate_all8(const uint8_t *, size_t, size_t, size_t, size_t, const int *, size_t, uint8_t *,
                       double *)
    void estimate_all16(const uint16_t *, size_t, size_t, size_t, size_t, const int *, size_t,
                        uint16_t *, double *)
    void estimate_all32(const uint32_t *, size_t, size_t, size_t, size_t, const int *, size_t,
                        uint32_t *, double *)
    void estimate_all64(const uint64_t *, size_t, size_t, size_t, size_t, const int *, size_t,
                        uint64_t *, double *)
    double estimate_planes(const uint8_t *, size_t, size_t)
    ctypedef struct Run:
        uint64_t value, count
    ctypedef struct Worth:
        double worth
        size_t index
    ctypedef struct Distinct:
        size_t count, first, last
    void sort_integers(void *, void *, size_t, size_t)
    size_t draw(const void *, size_t, size_t, size_t, void *)
    Distinct distinct_of(void *, size_t, size_t)
    uint64_t common_divisor_of(const void *, size_t, size_t, int, uint64_t, uint64_t)
    size_t finite_of(const void *, size_t, size_t, void *)
    size_t runs_of(const void *, size_t, size_t, Run *)
    double bits_of_bins(const Run *, size_t, size_t, int, int, Worth *, size_t *)
    enum:
        NPREDICTORS


cdef size_t check_items(const uint8_t[::1] items, int itemsize) except 0:
    """Return the number of aligned items."""
    if (itemsize not in (1, 2, 4, 8) or items.shape[0] == 0 or items.shape[0] % itemsize
            or <size_t> &items[0] % itemsize):
        raise ValueError(f"no aligned items of {itemsize} bytes")
    return items.shape[0] // itemsize


def facts_of(const uint8_t[::1] items not None, int itemsize, int kind):
    """Return the least and the largest ordered integer of items, and the bits that any item has.

    `kind` is 0 for unsigned integers, 1 for signed ones, 2 for floats.
    """
    cdef size_t n = check_items(items, itemsize)
    cdef Facts facts
    with nogil:
        if itemsize == 1:
            facts = facts8(&items[0], n, kind)
        elif itemsize == 2:
            facts = facts16(<const uint16_t *> &items[0], n, kind)
        elif itemsize == 4:
            facts = facts32(<const uint32_t *> &items[0], n, kind)
        else:
            facts = facts64(<const uint64_t *> &items[0], n, kind)
    return facts.least, facts.most, facts.bits


def order_into(const uint8_t[::1] items not None, int itemsize, int kind, int shift,
               uint64_t offset, uint8_t[::1] out not None, int width):
    """Write ordered integers of `width` bytes, shifted right by `shift`, less `offset`, to `out`."""
    cdef size_t n = check_items(items, itemsize)
    if (check_items(out, width) != n or width > itemsize or not 0 <= shift < 8 * itemsize
            or not 0 <= kind <= 2):
        raise ValueError("an integer of at most their size is needed for each item")
    with nogil:
        order_items(&items[0], n, itemsize, kind, shift, offset, &out[0], width)


def quotients_into(const uint8_t[::1] items not None, int itemsize, double divisor,
                   uint8_t[::1] out not None, uint8_t[::1] mask not None):
    """Write numbers whose quotients by `divisor` are the floats to `out`, as i32.

    `mask` is set to 1 where there is no such number, else to 0. Returns how many there are, the least
    and the largest.
    """
    cdef size_t n = check_items(items, itemsize)
    cdef Quotients found
    if check_items(out, 4) != n or <size_t> mask.shape[0] != n or itemsize < 4:
        raise ValueError("a number and a byte are needed for each float")
    with nogil:
        found = quotients_of(&items[0], n, itemsize, divisor, <int32_t *> &out[0], &mask[0])
    return found.count, found.least, found.most


def places_into(const uint8_t[::1] items not None, int itemsize, uint8_t[::1] out not None,
                uint8_t[::1] entries not None):
    """Write distinct items to `entries`, as they occur first, and the place of each item to `out`.

    Places are u16. Returns the number of entries, or 0 if there is not enough room for them.
    """
    cdef size_t n = check_items(items, itemsize), most = check_items(entries, itemsize), count
    if check_items(out, 2) != n or most > MAX_ENTRIES:
        raise ValueError(f"a place is needed for each item, and at most {MAX_ENTRIES} entries")
    with nogil:
        count = ranks_of(&items[0], n, itemsize, <uint16_t *> &out[0], &entries[0], most)
    return count


def estimate_predictors(const uint8_t[::1] works not None, int width, size_t d, size_t h, size_t w,
                        predictors):
    """Return the bits that windows of `d * h * w` integers may need, for each predictor."""
    cdef size_t n = check_items(works, width), window = d * h * w, nwindows, count = 0
    cdef int numbers[NPREDICTORS]
    cdef double bits[NPREDICTORS]
    cdef uint8_t *spare
    if window == 0 or n % window or len(predictors) > NPREDICTORS:
        raise ValueError(f"no windows of {d} x {h} x {w} integers")
    nwindows = n // window
    for predictor in predictors:
        if predictor & AFTER_PLANE:
            raise ValueError("the plane before is not known")
        numbers[count] = predictor
        bits[count] = 0
        count += 1
    spare = <uint8_t *> malloc(3 * window * width)
    if spare == NULL:
        raise MemoryError("array chunk")
    with nogil:
        if width == 1:
            estimate_all8(&works[0], nwindows, d, h, w, numbers, count, spare, bits)
        elif width == 2:
            estimate_all16(<const uint16_t *> &works[0], nwindows, d, h, w, numbers, count,
                           <uint16_t *> spare, bits)
        elif width == 4:
            estimate_all32(<const uint32_t *> &works[0], nwindows, d, h, w, numbers, count,
                           <uint32_t *> spare, bits)
        else:
            estimate_all64(<const uint64_t *> &works[0], nwindows, d, h, w, numbers, count,
                           <uint64_t *> spare, bits)
    free(spare)
    return [bits[i] for i in range(count)]


def entropy_of_bytes(const uint8_t[::1] integers not None, int width):
    """Return the bits of integers, if their bytes of each significance took their entropy."""
    cdef size_t n = check_items(integers, width)
    cdef double bits
    with nogil:
        bits = estimate_planes(&integers[0], n, width)
    return bits


def bins_of(const uint8_t[::1] residuals not None, int width, choices):
    """Return for each k of `choices` the bits that coder 2 may need, and the frequent residuals.

    `residuals` are a sorted sample, of `width` bytes each.
    """
    cdef size_t n = check_items(residuals, width)
    return bins_of_sorted(&residuals[0], n, width, choices)


cdef list bins_of_sorted(const void *residuals, size_t n, int width, choices):
    cdef size_t nruns, i, j, nchoices = len(choices)
    cdef int k
    cdef int ks[8]
    cdef double bits[8]
    cdef size_t counts[8]
    cdef uint64_t values[8][256]
    cdef Run *runs
    cdef Worth *worths
    cdef bytes packed
    cdef char *out
    if nchoices > 8:
        raise ValueError("at most 8 choices of k")
    for i in range(nchoices):
        k = ks[i] = choices[i]
        if not 0 <= k < 8 * width or (8 * width - k + 1) << k > 256:
            raise ValueError(f"k {k} has too many tokens")
    runs = <Run *> malloc(n * (sizeof(Run) + sizeof(Worth)))
    if runs == NULL:
        raise MemoryError("array chunk")
    worths = <Worth *> (runs + n)
    with nogil:
        nruns = runs_of(residuals, n, width, runs)
        for i in range(nchoices):
            bits[i] = bits_of_bins(runs, nruns, n, width, ks[i], worths, &counts[i])
            for j in range(counts[i]):  # at most 254
                values[i][j] = runs[worths[j].index].value
        free(runs)
    found = []
    for i in range(nchoices):
        packed = PyBytes_FromStringAndSize(NULL, counts[i] * width)
        out = PyBytes_AS_STRING(packed)
        for j in range(counts[i]):
            memcpy(out + j * width, &values[i][j], width)
        found.append((bits[i], packed))
    return found


def bins_of_blocks(const uint8_t[::1] work not None, int width, size_t d, size_t h, size_t w,
                   int predictor, size_t step, choices, uint8_t[::1] out not None):
    """Write the residuals of blocks to `out`; return `bins_of` every `step`-th of them.

    `work` are blocks of `d * h * w` aligned integers of `width` bytes, and `out` has as much room.
    """
    cdef size_t n = check_items(work, width), block = d * h * w, nsample, i
    cdef uint8_t *spare
    if (block == 0 or n % block or check_items(out, width) != n or predictor & AFTER_PLANE
            or step == 0):
        raise ValueError("residuals need as much aligned memory as the integers, and a step")
    nsample = (n + step - 1) // step
    spare = <uint8_t *> malloc(2 * max(block, nsample) * width)
    if spare == NULL:
        raise MemoryError("array chunk")
    try:
        with nogil:
            for i in range(n // block):
                predict_block(&work[0] + i * block * width, width, d, h, w, predictor,
                              &out[0] + i * block * width, spare)
            draw(&out[0], n, width, step, spare)
            sort_integers(spare, spare + nsample * width, nsample, width)
        return bins_of_sorted(spare, nsample, width, choices)
    finally:
        free(spare)


def sample_into(const uint8_t[::1] items not None, int itemsize, int kind, size_t step,
                uint8_t[::1] drawn not None, uint8_t[::1] ordered not None):
    """Write every `step`-th item to `drawn`, and the distinct ordered integers of these to `ordered`.

    Returns the number of distinct ones, and how often the least and the largest occur.
    """
    cdef size_t n = check_items(items, itemsize), count = check_items(drawn, itemsize)
    cdef uint8_t *spare
    cdef Distinct found
    if (step == 0 or count != (n + step - 1) // step or check_items(ordered, itemsize) != count
            or not 0 <= kind <= 2):
        raise ValueError("room is needed for each item that is drawn")
    spare = <uint8_t *> malloc(count * itemsize)
    if spare == NULL:
        raise MemoryError("array chunk")
    with nogil:
        draw(&items[0], n, itemsize, step, &drawn[0])
        order_items(&drawn[0], count, itemsize, kind, 0, 0, &ordered[0], itemsize)
        sort_integers(&ordered[0], spare, count, itemsize)
        found = distinct_of(&ordered[0], count, itemsize)
    free(spare)
    return found.count, found.first, found.last


def common_divisor(const uint8_t[::1] sample not None, const uint8_t[::1] items not None,
                   int itemsize, int kind, uint64_t least):
    """Return the largest divisor of all ordered integers less `least`, the least of them.

    `sample` are some of the ordered integers. If all of these are equal, 1 is returned.
    """
    cdef size_t nsample = check_items(sample, itemsize), n = check_items(items, itemsize)
    cdef uint64_t divisor
    if not 0 <= kind <= 1:
        raise ValueError("no divisor of floats")
    with nogil:
        divisor = common_divisor_of(&sample[0], nsample, itemsize, 0, least, 0)
        if divisor > 1:
            divisor = common_divisor_of(&items[0], n, itemsize, kind, least, divisor)
    return divisor if divisor else 1


def divisor_of(const uint8_t[::1] floats not None, int itemsize, divisors, size_t few,
               double share_of_few, double share):
    """Return the first divisor whose quotients are this share of the finite floats, or None.

    About `few` floats rule most divisors out. None too if fewer than half of the floats are finite.
    """
    cdef size_t n = check_items(floats, itemsize), ndivisors = len(divisors), nfinite, nfew, i
    cdef double each[64]
    cdef size_t found = ndivisors
    cdef uint8_t *spare
    cdef uint8_t *first
    cdef uint8_t *mask
    cdef int32_t *numbers
    if itemsize < 4 or few == 0 or ndivisors > 64:
        raise ValueError("no floats of 4 or 8 bytes, or more than 64 divisors")
    for i in range(ndivisors):
        each[i] = divisors[i]
    spare = <uint8_t *> malloc(n * (2 * itemsize + sizeof(int32_t) + 1))
    if spare == NULL:
        raise MemoryError("array chunk")
    first = spare + n * itemsize
    numbers = <int32_t *> (first + n * itemsize)
    mask = <uint8_t *> (numbers + n)
    with nogil:
        nfinite = finite_of(&floats[0], n, itemsize, spare)
        nfew = draw(spare, nfinite, itemsize, max(<size_t> 1, nfinite // few), first)
        for i in range(ndivisors if 2 * nfinite >= n else 0):
            if (quotients_of(first, nfew, itemsize, each[i], numbers, mask).count
                    >= nfew * share_of_few
                    and quotients_of(spare, nfinite, itemsize, each[i], numbers, mask).count
                    >= nfinite * share):
                found = i
                break
        free(spare)
    return None if found == ndivisors else divisors[found]


def boxes_into(const uint8_t[::1] items not None, size_t itemsize, shape, starts, sides,
               uint8_t[::1] out not None):
    """Copy boxes of an array of three axes to `out`, one behind the other.

    `shape` and `sides` are the items of the array and of a box on each axis, and `starts` the first
    item of each box, of which there are at most 16.
    """
    cdef size_t whole[3]
    cdef size_t side[3]
    cdef size_t firsts[16][3]
    cdef size_t total = itemsize, box = itemsize, count = len(starts), i, z, y, row
    cdef uint8_t *to = &out[0] if out.shape[0] else NULL
    cdef const uint8_t *source = &items[0] if items.shape[0] else NULL
    cdef int axis
    if not 1 <= count <= 16 or itemsize == 0:
        raise ValueError("1 to 16 boxes are needed")
    for axis in range(3):
        whole[axis] = shape[axis]
        side[axis] = sides[axis]
        if not 1 <= side[axis] <= whole[axis] <= <size_t> items.shape[0] // total:
            raise ValueError(f"boxes of {sides} are not in {shape}")
        total *= whole[axis]
        box *= side[axis]
        for i in range(count):
            firsts[i][axis] = starts[i][axis]
            if firsts[i][axis] > whole[axis] - side[axis]:
                raise ValueError(f"a box of {sides} at {starts[i]} is not in {shape}")
    if total != <size_t> items.shape[0] or count * box != <size_t> out.shape[0]:
        raise ValueError(f"{count} boxes of {box} bytes need as much room")
    row = side[2] * itemsize
    with nogil:
        for i in range(count):
            for z in range(firsts[i][0], firsts[i][0] + side[0]):
                for y in range(firsts[i][1], firsts[i][1] + side[1]):
                    memcpy(to, source + ((z * whole[1] + y) * whole[2] + firsts[i][2]) * itemsize, row)
                    to += row


cdef void predict_block(const void *work, int width, size_t d, size_t h, size_t w, int predictor,
                        void *out, void *spare) noexcept nogil:
    """Write the residuals of a block to `out`; `spare` has room for two blocks."""
    if width == 1:
        predict8(<const uint8_t *> work, NULL, <uint8_t *> out, d, h, w, predictor, <uint8_t *> spare)
    elif width == 2:
        predict16(<const uint16_t *> work, NULL, <uint16_t *> out, d, h, w, predictor,
                  <uint16_t *> spare)
    elif width == 4:
        predict32(<const uint32_t *> work, NULL, <uint32_t *> out, d, h, w, predictor,
                  <uint32_t *> spare)
    else:
        predict64(<const uint64_t *> work, NULL, <uint64_t *> out, d, h, w, predictor,
                  <uint64_t *> spare)


def predict_into(const uint8_t[::1] work not None, int width, size_t d, size_t h, size_t w,
                 int predictor, uint8_t[::1] out not None):
    """Write the residuals of one block of one plane to `out`.

    `work` and `out` are `d * h * w` aligned integers of `width` bytes.
    """
    cdef size_t n = check_items(work, width)
    cdef uint8_t *spare
    if n != d * h * w or check_items(out, width) != n or predictor & AFTER_PLANE:
        raise ValueError("residuals need as much aligned memory as the integers")
    spare = <uint8_t *> malloc(2 * n * width)
    if spare == NULL:
        raise MemoryError("array chunk")
    with nogil:
        predict_block(&work[0], width, d, h, w, predictor, &out[0], spare)
    free(spare)
