/* C-Blosc alone: many chunks over a team of threads, each chunk on one thread.

   Nothing is checked, no container is made, no interpreter is involved: the limit for any
   storage of Blosc chunks. A thread takes the next chunk until all are taken, so that no thread waits
   for a slower one. Every function returns 0, or -1 when C-Blosc or the system failed. */

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "blosc.h"

#define MAX_THREADS 64

struct job {
    int (*step)(struct job *, size_t);
    size_t nchunks, chunk_nbytes, nbytes;
    const uint8_t *const *chunks; /* decode: from */
    uint8_t *out;                 /* decode: to */
    const uint8_t *src;           /* encode: from */
    uint8_t *const *slots;        /* encode: to, each of chunk_nbytes + BLOSC_MAX_OVERHEAD */
    size_t *sizes;
    const char *codec;
    int clevel, typesize;
    size_t blocksize;
    atomic_size_t next;
    atomic_int failed;
};

static size_t size_of(const struct job *job, size_t index)
{
    size_t start = index * job->chunk_nbytes;
    return job->nbytes - start < job->chunk_nbytes ? job->nbytes - start : job->chunk_nbytes;
}

static int decode_one(struct job *job, size_t index)
{
    size_t room = size_of(job, index);
    uint8_t *dest = job->out + index * job->chunk_nbytes;
    return blosc_decompress_ctx(job->chunks[index], dest, room, 1) == (int)room ? 0 : -1;
}

static int encode_one(struct job *job, size_t index)
{
    size_t nbytes = size_of(job, index);
    int code = blosc_compress_ctx(job->clevel, BLOSC_SHUFFLE, (size_t)job->typesize, nbytes,
                                  job->src + index * job->chunk_nbytes, job->slots[index],
                                  nbytes + BLOSC_MAX_OVERHEAD, job->codec, job->blocksize, 1);
    job->sizes[index] = code > 0 ? (size_t)code : 0;
    return code > 0 ? 0 : -1;
}

static void *work(void *argument)
{
    struct job *job = argument;
    for (;;) {
        size_t index = atomic_fetch_add(&job->next, 1);
        if (index >= job->nchunks)
            return NULL;
        if (job->step(job, index))
            atomic_store(&job->failed, 1);
    }
}

static int run(struct job *job, int nthreads)
{
    pthread_t helpers[MAX_THREADS];
    int started = 0;
    atomic_init(&job->next, 0);
    atomic_init(&job->failed, 0);
    while (started < nthreads - 1 && started < MAX_THREADS)
        if (pthread_create(&helpers[started], NULL, work, job))
            break;
        else
            started++;
    work(job);
    for (int i = 0; i < started; i++)
        pthread_join(helpers[i], NULL);
    return atomic_load(&job->failed) || started < nthreads - 1 ? -1 : 0;
}

int bare_decode(const uint8_t *const *chunks, size_t nchunks, size_t chunk_nbytes, size_t nbytes,
                uint8_t *out, int nthreads)
{
    struct job job = {.step = decode_one, .nchunks = nchunks, .chunk_nbytes = chunk_nbytes,
                      .nbytes = nbytes, .chunks = chunks, .out = out};
    return run(&job, nthreads);
}

int bare_encode(const uint8_t *src, size_t nchunks, size_t chunk_nbytes, size_t nbytes,
                int typesize, const char *codec, int clevel, size_t blocksize,
                uint8_t *const *slots, size_t *sizes, int nthreads)
{
    struct job job = {.step = encode_one, .nchunks = nchunks, .chunk_nbytes = chunk_nbytes,
                      .nbytes = nbytes, .src = src, .typesize = typesize, .codec = codec,
                      .clevel = clevel, .blocksize = blocksize, .slots = slots, .sizes = sizes};
    return run(&job, nthreads);
}

int bare_items(const uint8_t *chunk, int start, int nitems, int nbytes, uint8_t *out)
{
    return blosc_getitem(chunk, start, nitems, out) == nbytes ? 0 : -1;
}
