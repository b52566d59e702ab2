/* LZ4 blocks of few, long matches: a stream that any LZ4 decoder reads, and reads fast.
 *
 * LZ4's own search takes every match of 4 bytes. In bit planes of residuals most of those are chance:
 * they save a byte or two and cost the decoder a mispredicted branch each. Here a match has at least
 * SPARSE_MATCH bytes. Block format: doc/lz4_Block_format.md of LZ4 1.9.
 */

#ifndef BLOSCPACK_LZ4_SPARSE_H
#define BLOSCPACK_LZ4_SPARSE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    SPARSE_MATCH = 8,
    SPARSE_MIN_MATCH = 4,        /* what the format subtracts from lengths */
    SPARSE_LAST_LITERALS = 5,    /* the format: the last bytes are literals, */
    SPARSE_LAST_MATCH = 12,      /* and the last match starts before these */
    SPARSE_MAX_OFFSET = 65535,
    SPARSE_HASH_BITS = 12,
    SPARSE_PATIENCE = 5,         /* after 2 ** this failures the steps grow by one */
};

static inline uint64_t sparse_word(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline size_t sparse_hash(uint64_t word)
{
    return (size_t)(word * 0x9E3779B97F4A7C15u >> (64 - SPARSE_HASH_BITS));
}

/* A length from 15 on goes on in bytes behind the token. */
static inline uint8_t *sparse_length(uint8_t *out, size_t length)
{
    for (; length >= 255; length -= 255)
        *out++ = 255;
    *out++ = (uint8_t)length;
    return out;
}

/* Write literals and, but at the end, a match; NULL if there is no room. */
static inline uint8_t *sparse_sequence(uint8_t *out, const uint8_t *end, const uint8_t *literals,
                                       size_t nliterals, size_t offset, size_t length)
{
    uint8_t *token = out;
    if ((size_t)(end - out) < nliterals + nliterals / 255 + length / 255 + 8)
        return NULL;
    *out++ = (uint8_t)((nliterals < 15 ? nliterals : 15) << 4);
    if (nliterals >= 15)
        out = sparse_length(out, nliterals - 15);
    memcpy(out, literals, nliterals);
    out += nliterals;
    if (!offset)
        return out;
    *out++ = (uint8_t)offset;
    *out++ = (uint8_t)(offset >> 8);
    length -= SPARSE_MIN_MATCH;
    *token |= (uint8_t)(length < 15 ? length : 15);
    return length < 15 ? out : sparse_length(out, length - 15);
}

/* Encode `nbytes` to at most `room` bytes; return how many, 0 if they do not fit. */
static size_t encode_sparse_lz4(const uint8_t *source, size_t nbytes, uint8_t *out, size_t room)
{
    uint32_t places[1 << SPARSE_HASH_BITS] = {0};
    const uint8_t *end = out + room;
    uint8_t *start = out;
    size_t at = 1, anchor = 0, failures = 0;
    while (nbytes > SPARSE_LAST_MATCH && at < nbytes - SPARSE_LAST_MATCH) {
        uint64_t word = sparse_word(source + at);
        uint32_t *place = &places[sparse_hash(word)];
        size_t match = *place, length = SPARSE_MATCH, limit = nbytes - SPARSE_LAST_LITERALS;
        *place = (uint32_t)at;
        if (at - match > SPARSE_MAX_OFFSET || sparse_word(source + match) != word) {
            at += 1 + (failures++ >> SPARSE_PATIENCE);
            continue;
        }
        while (at > anchor && match > 0 && source[at - 1] == source[match - 1]) {
            at--;
            match--;
            length++;
        }
        while (at + length < limit && source[at + length] == source[match + length])
            length++;
        if (at + length > limit)
            length = limit - at;
        out = sparse_sequence(out, end, source + anchor, at - anchor, at - match, length);
        if (!out)
            return 0;
        at += length;
        anchor = at;
        failures = 0;
        if (at + 8 <= nbytes)
            places[sparse_hash(sparse_word(source + at - 2))] = (uint32_t)(at - 2);
    }
    out = sparse_sequence(out, end, source + anchor, nbytes - anchor, 0, 0);
    return out ? (size_t)(out - start) : 0;
}

#endif
