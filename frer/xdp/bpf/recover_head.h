/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The head of a recovery function and the words of its ring, as values: their layout is in
 * abi/frer.h. Without access to either; recover.h has those.
 */
#ifndef ONBEAT_RECOVER_HEAD_H
#define ONBEAT_RECOVER_HEAD_H

/* Fields of the head. */

#define FRER_HEAD_FLAGS                                                                            \
	(FRER_HEAD_TAKE_ANY | FRER_HEAD_RUNNING | FRER_HEAD_YOUNG | FRER_HEAD_EXPIRING)

static __always_inline __u32 head_position(__u64 head)
{
	return head >> FRER_HEAD_POSITION & FRER_POSITION_MASK;
}

static __always_inline __u16 head_number(__u64 head)
{
	return head >> FRER_HEAD_POSITION & FRER_NUMBER_MASK;
}

static __always_inline __u32 head_generation(__u64 head)
{
	return head >> FRER_HEAD_GENERATION;
}

static __always_inline __u16 head_first_number(__u64 head)
{
	return head >> FRER_HEAD_FIRST & FRER_NUMBER_MASK;
}

/* The position of the first number since the reset. */
static __always_inline __u32 head_first(__u64 head)
{
	return FRER_FIRST_LAP | head_first_number(head);
}

/* The signed distance from position b to position a. */
static __always_inline __s32 distance(__u32 a, __u32 b)
{
	return (__s32)((a - b) << (32 - FRER_POSITION_BITS)) >> (32 - FRER_POSITION_BITS);
}

/* The signed distance from number b to number a. */
static __always_inline __s32 number_delta(__u16 a, __u16 b)
{
	return (__s32)((__u32)(a - b) << (32 - FRER_NUMBER_BITS)) >> (32 - FRER_NUMBER_BITS);
}

/* Differs from the head before: a CPU that decided by that one fails to replace this one. */
static __always_inline __u64 touched(__u64 head)
{
	return (head & ~(FRER_TOUCH_MASK | FRER_HEAD_EXPIRING)) | ((head + 1) & FRER_TOUCH_MASK);
}

static __always_inline __u64 at_position(__u64 head, __u32 position)
{
	return (head & ~((__u64)FRER_POSITION_MASK << FRER_HEAD_POSITION)) |
	       (__u64)position << FRER_HEAD_POSITION;
}

/*
 * The head with a position ahead. `length`: numbers from the first one on, of which the window has
 * the first.
 */
static __always_inline __u64 moved(__u64 head, __u32 position, __s32 length)
{
	if (head & FRER_HEAD_YOUNG && distance(position, head_first(head)) >= length)
		head &= ~FRER_HEAD_YOUNG;
	return touched(at_position(head, position));
}

/* The head after the first number since a reset, which it records: it is not in the ring. */
static __always_inline __u64 started(__u64 head, __u16 number)
{
	head &= ~((__u64)FRER_NUMBER_MASK << FRER_HEAD_FIRST | FRER_HEAD_TAKE_ANY);
	head |= FRER_HEAD_RUNNING | FRER_HEAD_YOUNG | (__u64)number << FRER_HEAD_FIRST;
	return touched(at_position(head, FRER_FIRST_LAP | number));
}

/* The head after a reset (7.4.3.3). */
static __always_inline __u64 restarted(__u64 head)
{
	__u64 generation = (head_generation(head) + 1) & FRER_GENERATION_MASK;

	return generation << FRER_HEAD_GENERATION | (__u64)FRER_NUMBER_MASK << FRER_HEAD_POSITION |
	       FRER_HEAD_TAKE_ANY;
}

/* Words of the ring: the tag, which is epoch and generation, above the bits of its numbers. */

static __always_inline __u32 epoch_of(__u32 position)
{
	return position >> FRER_SEEN_SHIFT;
}

static __always_inline __u64 tag_of(__u64 head, __u32 epoch)
{
	return (__u64)head_generation(head) << FRER_EPOCH_BITS | epoch;
}

/* The tag of the head's own epoch. */
static __always_inline __u64 head_tag(__u64 head)
{
	return head >> (FRER_HEAD_POSITION + FRER_SEEN_SHIFT);
}

static __always_inline __u64 seen_bit(__u32 position)
{
	return 1ULL << (position & (FRER_SEEN_BITS - 1));
}

/* Whether a tag is later than that of `head` and `epoch`. */
static __always_inline bool is_later(__u64 tag, __u64 head, __u32 epoch)
{
	__u32 generations =
	    ((tag >> FRER_EPOCH_BITS) - head_generation(head)) & FRER_GENERATION_MASK;
	__u32 epochs = (tag - epoch) & FRER_EPOCH_MASK;

	if (generations)
		return generations <= FRER_GENERATION_MASK / 2;
	return epochs && epochs <= FRER_EPOCH_MASK / 2;
}

/* The position of the highest bit that is set. */
static __always_inline __u32 highest_bit(__u32 bits)
{
	bits |= bits >> 1;
	bits |= bits >> 2;
	bits |= bits >> 4;
	bits |= bits >> 8;
	bits |= bits >> 16;
	return __builtin_popcount(bits) - 1;
}

/* The head at the position of RecovSeqNum. `word`: that of its epoch. */
static __always_inline __u64 advanced(__u64 head, __u64 word)
{
	__u32 last = head_position(head), seen = word & FRER_SEEN_MASK;

	if (word >> FRER_SEEN_BITS != head_tag(head) || !seen)
		return head;
	/* Its lowest bits are those of its place in the epoch. */
	last = (last & ~(__u32)(FRER_SEEN_BITS - 1)) | highest_bit(seen);
	return last > head_position(head) ? at_position(head, last) : head;
}

/* Bits of a word for the positions from `from` up to `to`, both included; it has one of them. */
static __always_inline __u64 bits_between(__u32 epoch, __u32 from, __u32 to)
{
	__u64 bits = FRER_SEEN_MASK;

	if (epoch == epoch_of(from))
		bits &= FRER_SEEN_MASK << (from & (FRER_SEEN_BITS - 1));
	if (epoch == epoch_of(to))
		bits &= FRER_SEEN_MASK >> (FRER_SEEN_BITS - 1 - (to & (FRER_SEEN_BITS - 1)));
	return bits;
}

/* Whether the first number since the reset is in a window of this length. */
static __always_inline bool first_within(__u64 head, __s32 length)
{
	return ((head_position(head) - head_first(head)) & FRER_POSITION_MASK) < (__u32)length;
}

#endif
