/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Changes of the history length that keep the state of a recovery function, while packets use it.
 *
 * Within its ring, a function shortens its history by one store, and extends it after it has
 * recorded the numbers before the old one as seen (set_history). EXTENDING is set from a grace
 * period before to a grace period after that. Another ring takes five steps,
 * between which no program run continues ("|" is a grace period, during which packets of both sides
 * run):
 *
 *	flags		ring	former	a packet claims its number in
 *	-		A	A	A, at the usual speed; from here on, in recover_again only:
 *	MOVING	      |	A	A	A
 *	MOVING	      |	B	A	A
 *	MOVING, BOTH  |	B	A	A, then B: it passes with both claims
 *	MOVING, BOTH  |	B	A	the same, after copy_ring
 *	-	      |	B	A	B
 *	-		B	B
 *
 * Packets of adjacent rows have one ring in common, so that each number passes once. The history is
 * the shorter one meanwhile: both rings hold two of its windows. The loader takes the steps
 * (frer/xdp/src/plane/history.rs); if it was killed, the next one reverts them.
 *
 * This file is compiled into the control program and into the explorer (tests/explore).
 */
#ifndef ONBEAT_HISTORY_H
#define ONBEAT_HISTORY_H

/*
 * Set bits of the word of an epoch, with a tag of this head, unless it is a later word. False:
 * packets hinder it.
 */
RECOVER_GLOBAL int record_bits(__u32 slot, __u64 head, __u32 epoch, __u64 bits)
{
	struct recovery f;
	__u64 *at;

	if (!find_recovery(slot, &f))
		return true;
	at = ring_word(&f, epoch);
	if (!at)
		return true;
	for (int i = 0; i < RECOVER_TRIES; i++) {
		__u64 word = recover_load(at), next = bits;

		if (word >> FRER_SEEN_BITS == tag_of(head, epoch))
			next = bits | (word & FRER_SEEN_MASK);
		else if (word & FRER_SEEN_MASK && is_later(word >> FRER_SEEN_BITS, head, epoch))
			return true;
		next |= tag_of(head, epoch) << FRER_SEEN_BITS;
		if (next == word || recover_cas(at, word, next) == word)
			return true;
	}
	return false;
}

/* A walk over words of the ring. */
struct ring_walk {
	__u64 head;
	__u32 slot;
	__u32 from;
	__u32 to;
	bool hindered;
};

/* Copy a word of the former ring. */
static long copy_word(__u64 index, void *context)
{
	struct ring_walk *walk = context;
	struct recovery f;
	__u64 *from, word, head;
	__u32 epoch;

	if (!find_recovery(walk->slot, &f))
		return 1;
	from = deciding_word(&f, true, index);
	if (!from)
		return 1;
	word = recover_load(from);
	if (!(word & FRER_SEEN_MASK))
		return 0;
	epoch = word >> FRER_SEEN_BITS & FRER_EPOCH_MASK;
	head = word >> FRER_SEEN_BITS >> FRER_EPOCH_BITS << FRER_HEAD_GENERATION;
	walk->hindered = !record_bits(walk->slot, head, epoch, word & FRER_SEEN_MASK);
	return walk->hindered;
}

/* Copy the former ring; false: packets hinder it. All packets claim in both rings by now. */
static __always_inline bool copy_ring(__u32 slot, const struct recovery *f)
{
	struct ring_walk walk = {.slot = slot};

	bpf_loop(f->r->config.former_mask + 1, copy_word, &walk, 0);
	return !walk.hindered;
}

static long fill_word(__u64 index, void *context)
{
	struct ring_walk *walk = context;
	__u32 epoch = (epoch_of(walk->from) + index) & FRER_EPOCH_MASK;
	__u64 bits = bits_between(epoch, walk->from, walk->to);

	walk->hindered = !record_bits(walk->slot, walk->head, epoch, bits);
	return walk->hindered;
}

/* Record the numbers from one position up to another one as seen; false: packets hinder it. */
RECOVER_GLOBAL int fill_ring(__u32 slot, __u64 head, __u32 from, __u32 to)
{
	struct ring_walk walk = {.head = head, .slot = slot, .from = from, .to = to};

	bpf_loop(epochs_between(from, to), fill_word, &walk, 0);
	return !walk.hindered;
}

/*
 * Correct whether the first number is in the window, for another length of the history. While it
 * is, each number is committed on the head; a packet of the usual path that has claimed its number
 * before may have found the former head. False: to be repeated, until nothing is to correct.
 */
RECOVER_GLOBAL int correct_young(__u32 slot, __u32 length)
{
	struct recovery f;
	__u64 head, newest, next;

	if (!find_recovery(slot, &f))
		return true;
	head = recover_load(&f.r->head);
	newest = head_of_ring(&f, head, false);
	next = newest & ~FRER_HEAD_YOUNG;
	if (first_within(newest, length))
		next |= FRER_HEAD_YOUNG;
	if (head & FRER_HEAD_TAKE_ANY || !((next | head) & FRER_HEAD_YOUNG) || next == head)
		return true;
	recover_cas(&f.r->head, head, touched(next));
	return false;
}

/* Whether the function was reset since it had a head. */
static __always_inline bool reset_since(const struct recovery *f, __u64 head)
{
	/* Not before the store that it follows. */
	return head_generation(recover_cas(&f->r->head, 0, 0)) != head_generation(head);
}

/*
 * Change the history length within the ring. If the history becomes longer, all packets have read
 * the head `before` or a later one, at its RecovSeqNum: numbers older than its history count as
 * seen. The counters of lost numbers, which follow from the window, keep their values. False: to be
 * repeated, with a later head. After a grace period, it is repeated with the same length: packets
 * that had read the former one may have moved the head meanwhile.
 */
static __always_inline bool set_history(__u32 slot, const struct recovery *f, __s32 length,
					__u64 before)
{
	__u64 head = recover_load(&f->r->head), difference;
	struct frer_recovery_record *record = find_record(slot);
	__u32 to, from, first = head_first(before);
	__s32 old = history_length(f);

	if (!record)
		return true;
	if (length > old) {
		to = (head_position(before) - old) & FRER_POSITION_MASK;
		from = (head_position(before) - length + 1) & FRER_POSITION_MASK;
		if (!(before & FRER_HEAD_TAKE_ANY) &&
		    (!fill_ring(slot, before, from, to) ||
		     (first_within(before, old) && !fill_ring(slot, before, first, first))))
			return false;
		head = before;
	}
	if (length != old) {
		set_history_length(f, length);
		if (!(head & FRER_HEAD_TAKE_ANY) && !reset_since(f, head)) {
			difference = (__s64)(old - length);
			recover_count(&record->distance, difference);
			recover_count(&record->early_distance, difference);
		}
	}
	for (__u64 i = 0; i < RECOVER_TRIES; i++)
		if (correct_young(slot, length))
			return true;
	return false;
}

#endif
