/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The base recovery function (802.1CB 7.4.3) without a lock: individual and sequence recovery are
 * instances of it.
 *
 * Its state is one word, the head, which is replaced by compare-and-swap only, and a ring of words
 * that record the numbers seen (abi/frer.h). A packet claims its number in the ring, then commits
 * the claim on the head. The usual packet, the next one of the head's epoch, needs no commit if the
 * head has not changed: RecovSeqNum follows from the ring. Lost numbers are not counted: they
 * follow from head and ring.
 *
 * This file is compiled twice: into the programs, and into the explorer (tests/explore), which runs
 * all interleavings of these accesses. The includer provides
 *	recover_load	a load; acquire: later accesses are not performed before it
 *	recover_cas	compare-and-swap, returns the former value; ordered with all other accesses
 *	recover_count	an addition to a counter, in no order
 *	note_gap	records a time between accepted packets
 *	ring_word	the word of the ring for an epoch, or NULL
 *	deciding_word	the same; of the former ring if the function moves (history.h)
 *	recovery_flags, history_length	parameters that may change meanwhile
 *	find_recovery	the function of a slot
 *	find_record	its record
 *	bpf_loop	calls a function with 0, 1, ... until it returns 1
 *	likely, unlikely
 */
#ifndef ONBEAT_RECOVER_H
#define ONBEAT_RECOVER_H

#include "recover_head.h"

/* Tries of one packet. In each failed one, another CPU has changed this function's state. */
#define RECOVER_TRIES 12
/* Tries to move the time stamp forward: it is replaced once per step of the clock. */
#define STAMP_TRIES 8

enum outcome {
	RECOVER_PASS,
	RECOVER_DUPLICATE,
	RECOVER_ROGUE,
	RECOVER_AGAIN,	 /* the state has changed meanwhile */
	RECOVER_EXPIRED, /* the timer has expired by the head of the claim */
};

/* What a packet has changed in its former tries. */
struct claim {
	__u64 head; /* by which it was judged */
	__u32 position;
	__s16 delta; /* between its number and RecovSeqNum */
	__u8 generation;
	__u8 flags; /* CLAIM_* */
};

#define CLAIM_STAMPED 1	 /* it has restarted the timer */
#define CLAIM_HELD    2	 /* its claim waits for its commit */
#define CLAIM_STANDS  4	 /* it was superseded by a reset before its commit */
#define CLAIM_EARLY   8	 /* it precedes the first number since the reset */
#define CLAIM_SECOND  16 /* its number is not claimed in the second ring yet */

/*
 * Move the time stamp forward, once per step of the clock. Functions marked RECOVER_GLOBAL are rare
 * paths; the verifier checks each once, by itself.
 */
RECOVER_GLOBAL int forward_timer(__u32 slot, __u64 now)
{
	struct frer_recovery_record *record = find_record(slot);
	struct recovery f;

	if (!find_recovery(slot, &f) || !record)
		return false;
	for (int i = 0; i < STAMP_TRIES; i++) {
		__u64 stamp = recover_load(&f.r->restarted_ns);

		if ((__s64)(now - stamp) <= 0)
			return true;
		if (recover_cas(&f.r->restarted_ns, stamp, now) == stamp) {
			note_gap(&f, record, now - stamp);
			return true;
		}
	}
	return false;
}

static __always_inline void restart_timer(__u32 slot, struct frer_recovery *r, __u64 now)
{
	if ((__s64)(now - recover_load(&r->restarted_ns)) > 0)
		forward_timer(slot, now);
}

/* 7.4.3.2.4: whether no packet has restarted the timer for its timeout. */
static __always_inline bool timer_expired(struct frer_recovery *r, __u64 head, __u64 now)
{
	__u64 timeout = r->config.timeout_ns;

	return timeout && head & FRER_HEAD_RUNNING &&
	       (__s64)(now - recover_load(&r->restarted_ns)) >= (__s64)timeout;
}

/* The head at the highest number that the ring has in its epoch. */
static __always_inline __u64 head_of_ring(const struct recovery *f, __u64 head, bool moving)
{
	__u64 *at = deciding_word(f, moving, epoch_of(head_position(head)));

	return at ? advanced(head, recover_load(at)) : head;
}

/*
 * The head at RecovSeqNum. While the first number is in the window, each number is committed on the
 * head.
 */
static __always_inline __u64 newest_head(const struct recovery *f, __u64 head, bool moving)
{
	if (head & (FRER_HEAD_TAKE_ANY | FRER_HEAD_YOUNG))
		return head;
	return head_of_ring(f, head, moving);
}

/* newest_head, for functions with little room on the stack. */
RECOVER_GLOBAL __u64 newest_of(__u32 slot, __u64 head, bool moving)
{
	struct recovery f;

	return find_recovery(slot, &f) ? newest_head(&f, head, moving) : head;
}

/* The seen numbers in the window of the head, and those of them that precede the first one. */
struct tally {
	__u32 seen;
	__u32 early;
};

/* The number of epochs from that of one position up to that of another one. */
static __always_inline __u32 epochs_between(__u32 from, __u32 to)
{
	return ((epoch_of(to) - epoch_of(from)) & FRER_EPOCH_MASK) + 1;
}

/* The epochs of a window, from that of `from` on. */
struct tally_walk {
	__u64 head;
	__u32 slot;
	__u32 from;
	struct tally tally;
	bool has_first;
};

/* Those of an epoch. The verifier checks a function that bpf_loop calls once. */
static long tally_epoch(__u64 index, void *context)
{
	struct tally_walk *walk = context;
	__u32 to = head_position(walk->head), first = head_first(walk->head);
	__u32 epoch = (epoch_of(walk->from) + index) & FRER_EPOCH_MASK;
	__u32 before = (first - 1) & FRER_POSITION_MASK;
	__u64 *at, word, bits;
	struct recovery f;

	if (!find_recovery(walk->slot, &f))
		return 1;
	at = ring_word(&f, epoch);
	if (!at)
		return 1;
	word = recover_load(at);
	if (word >> FRER_SEEN_BITS != tag_of(walk->head, epoch))
		return 0;
	bits = word & bits_between(epoch, walk->from, to);
	if (walk->has_first) {
		/* It counts as seen already; a longer history records it, too. */
		if (epoch == epoch_of(first))
			bits &= ~seen_bit(first);
		if (distance(epoch << FRER_SEEN_SHIFT, before) <= 0)
			walk->tally.early +=
			    __builtin_popcountll(bits & bits_between(epoch, walk->from, before));
	}
	walk->tally.seen += __builtin_popcountll(bits);
	return 0;
}

/* Those of the window; false: none. */
RECOVER_GLOBAL int tally_window(__u32 slot, __u64 head, struct tally *tally)
{
	struct tally_walk walk = {.head = head, .slot = slot};
	__u32 to = head_position(head), numbers;
	struct recovery f;
	__s32 length;
	__u16 flags;

	if (!tally || !find_recovery(slot, &f))
		return false;
	length = history_length(&f);
	flags = recovery_flags(&f);
	/* Without history, or without a number since the reset. */
	if (flags & FRER_RECOVERY_MATCH || head & FRER_HEAD_TAKE_ANY)
		return false;
	numbers = ((to - head_first(head)) & FRER_POSITION_MASK) + 1;
	/* During these milliseconds, as if none of the window was lost. */
	if (flags & FRER_RECOVERY_MOVING) {
		tally->seen = numbers > (__u32)length ? (__u32)length : numbers;
		return true;
	}
	walk.from = (to - length + 1) & FRER_POSITION_MASK;
	walk.has_first = head & FRER_HEAD_YOUNG && first_within(head, length);
	walk.tally.seen = walk.has_first;
	bpf_loop(epochs_between(walk.from, to), tally_epoch, &walk, 0);
	*tally = walk.tally;
	return true;
}

struct renewal {
	__u64 head;
	__u32 slot;
};

static long renew_word(__u64 index, void *context)
{
	const struct renewal *renewal = context;
	struct recovery f;
	__u64 *at, word;

	if (!find_recovery(renewal->slot, &f))
		return 1;
	at = deciding_word(&f, recovery_flags(&f) & FRER_RECOVERY_MOVING, index);
	if (!at)
		return 1;
	word = recover_load(at);
	/* Another CPU may have reset the function, and a packet claimed its number since. */
	if (word >> FRER_SEEN_BITS >> FRER_EPOCH_BITS != head_generation(renewal->head) &&
	    !is_later(word >> FRER_SEEN_BITS, renewal->head, 0))
		recover_cas(at, word, tag_of(renewal->head, 0) << FRER_SEEN_BITS);
	return 0;
}

/*
 * A tag of the same value returns after all generations. Before that, words of former generations
 * are replaced by words without a number.
 */
static __always_inline void renew_ring(__u32 slot, const struct recovery *f, __u64 head)
{
	bool moving = recovery_flags(f) & FRER_RECOVERY_MOVING;
	__u32 words = (moving ? f->r->config.former_mask : f->r->config.ring_mask) + 1;
	struct renewal renewal = {head, slot};

	if (!(head_generation(head) & (FRER_GENERATION_MASK >> 1)))
		bpf_loop(words, renew_word, &renewal, 0);
}

/* What few packets count, in any combination. */
#define COUNT_OUT_OF_ORDER 1
#define COUNT_EARLY	   2 /* a number before the first one since the reset */
#define COUNT_LAP	   4 /* the head was moved over all positions */
#define COUNT_MATCHED	   8
#define COUNT_ROGUE	   16
#define COUNT_TAGLESS	   32
#define COUNT_TAGLESS_PASS 64
#define COUNT_CONTENDED	   128

RECOVER_GLOBAL int count_rare(__u32 slot, __u32 what)
{
	struct frer_recovery_record *record = find_record(slot);

	if (!record)
		return false;
	if (what & COUNT_OUT_OF_ORDER)
		recover_count(&record->out_of_order, 1);
	if (what & COUNT_EARLY)
		recover_count(&record->early_passed, 1);
	if (what & COUNT_LAP)
		recover_count(&record->distance, FRER_POSITION_MASK + 1ULL);
	if (what & COUNT_MATCHED)
		recover_count(&record->matched, 1);
	if (what & COUNT_ROGUE)
		recover_count(&record->rogue, 1);
	if (what & COUNT_TAGLESS)
		recover_count(&record->tagless, 1);
	if (what & COUNT_TAGLESS_PASS)
		recover_count(&record->tagless_passed, 1);
	if (what & COUNT_CONTENDED)
		recover_count(&record->contended, 1);
	return true;
}

/* A reset that waits for no timeout. */
#define AT_ONCE (~0ULL)

/*
 * SequenceRecoveryReset (7.4.3.3), unless the head is another one by now, or the timer was
 * restarted. The head is marked before the time stamp is read; a packet that needs no commit on the
 * head restarts the timer before it reads the head again. One of both sees the other.
 *
 * Lost numbers are those that left the window without having been seen: what the head passed is
 * added to the counters.
 */
RECOVER_GLOBAL int restart(__u32 slot, __u64 head, __u64 now)
{
	struct frer_recovery_record *record = find_record(slot);
	struct recovery f;
	struct tally tally = {};
	__u32 before, passed = 0;
	__u64 newest;

	if (!find_recovery(slot, &f) || !record)
		return false;
	if (!(head & FRER_HEAD_EXPIRING)) {
		if (recover_cas(&f.r->head, head, touched(head) | FRER_HEAD_EXPIRING) != head)
			return false;
		head = touched(head) | FRER_HEAD_EXPIRING;
	}
	if (now != AT_ONCE && !timer_expired(f.r, head, now))
		return false;
	before = history_length(&f) - 1;
	newest = newest_head(&f, head, recovery_flags(&f) & FRER_RECOVERY_MOVING);
	tally_window(slot, newest, &tally);
	if (!(head & FRER_HEAD_TAKE_ANY))
		passed = (head_position(newest) - head_first(head)) & FRER_POSITION_MASK;
	renew_ring(slot, &f, head);
	if (recover_cas(&f.r->head, head, restarted(head)) != head)
		return false;
	recover_count(&record->resets, 1);
	if (f.r->config.flags & FRER_RECOVERY_MATCH)
		return true;
	recover_count(&record->distance, passed);
	recover_count(&record->seen, tally.seen);
	recover_count(&record->early_distance, passed < before ? passed : before);
	recover_count(&record->early_seen, tally.early);
	return true;
}

/* The epochs ahead of a head. */
struct claim_walk {
	__u64 head;
	__u32 slot;
	__u32 to;
	__u32 found;
	bool former;
};

/* The highest claim of an epoch. */
static long claim_in_epoch(__u64 index, void *context)
{
	struct claim_walk *walk = context;
	__u32 from = (head_position(walk->head) + 1) & FRER_POSITION_MASK;
	__u32 epoch = (epoch_of(from) + index) & FRER_EPOCH_MASK;
	struct recovery f;
	__u64 *at, word, bits;

	if (!find_recovery(walk->slot, &f))
		return 1;
	at = deciding_word(&f, walk->former, epoch);
	if (!at)
		return 1;
	word = recover_load(at);
	bits = word & bits_between(epoch, from, walk->to);
	if (word >> FRER_SEEN_BITS == tag_of(walk->head, epoch) && bits)
		walk->found = epoch << FRER_SEEN_SHIFT | highest_bit(bits);
	return 0;
}

/*
 * The highest claim ahead of the head, which is at RecovSeqNum, or its position: the CPU that made
 * it has not moved the head yet.
 */
RECOVER_GLOBAL __u32 claim_ahead(__u32 slot, __u64 head, bool former)
{
	__u32 last = head_position(head), from = (last + 1) & FRER_POSITION_MASK;
	struct claim_walk walk = {.head = head, .slot = slot, .found = last, .former = former};
	struct recovery f;

	if (!find_recovery(slot, &f))
		return last;
	walk.to = (last + history_length(&f) - 1) & FRER_POSITION_MASK;
	bpf_loop(epochs_between(from, walk.to), claim_in_epoch, &walk, 0);
	return walk.found;
}

/*
 * The first number since a reset is not in the ring: the head has it as long as it may be in the
 * window. Before that becomes longer, it remains there.
 */
static __always_inline __s32 young_length(const struct recovery *f)
{
	if (recovery_flags(f) & FRER_RECOVERY_EXTENDING)
		return 1 << (FRER_POSITION_BITS - 1);
	return history_length(f);
}

/* Replace a head by one that is moved from it. */
static __always_inline bool replace_head(__u32 slot, const struct recovery *f, __u64 head,
					 __u64 next)
{
	__u32 first = head_first(head);

	if (recover_cas(&f->r->head, head, next) != head)
		return false;
	if (((head_position(next) - first) & FRER_POSITION_MASK) <
	    ((head_position(head) - first) & FRER_POSITION_MASK))
		count_rare(slot, COUNT_LAP);
	return true;
}

/* Commit a claim on a head of its generation. */
static __always_inline enum outcome commit(__u32 slot, const struct recovery *f, __u64 head,
					   struct claim *claim)
{
	__u32 counts = claim->delta != 1 ? COUNT_OUT_OF_ORDER : 0;
	__u64 next = touched(head);

	if (distance(claim->position, head_position(head)) > 0)
		next = moved(head, claim->position, young_length(f));
	if (!replace_head(slot, f, head, next))
		return RECOVER_AGAIN;
	if (claim->flags & CLAIM_EARLY)
		counts |= COUNT_EARLY;
	if (counts)
		count_rare(slot, counts);
	return RECOVER_PASS;
}

/* Whether a packet of a function that moves to another ring claims its number in both. */
static __always_inline bool uses_second(const struct recovery *f)
{
	__u16 flags = recovery_flags(f);

	/* It does not move any more: packets of this step may still run. */
	return flags & FRER_RECOVERY_BOTH || !(flags & FRER_RECOVERY_MOVING);
}

/*
 * While a function moves to another ring (history.h), a number that is claimed in the former ring
 * is also claimed in the other one, where packets of the time after claim theirs: each number
 * passes once. Returns RECOVER_PASS with the second claim.
 */
RECOVER_GLOBAL int claim_second(__u32 slot, __u64 head, struct claim *claim)
{
	__u64 *at, word, next, tag;
	struct recovery f;

	if (!claim || !find_recovery(slot, &f))
		return RECOVER_PASS;
	at = ring_word(&f, epoch_of(claim->position));
	if (!at)
		return RECOVER_PASS;
	tag = tag_of(head, epoch_of(claim->position));
	word = recover_load(at);
	next = word | seen_bit(claim->position);
	if (word >> FRER_SEEN_BITS != tag) {
		next = tag << FRER_SEEN_BITS | seen_bit(claim->position);
		/* The number has left the history. Never a valid frame less. */
		if (word & FRER_SEEN_MASK &&
		    is_later(word >> FRER_SEEN_BITS, head, epoch_of(claim->position))) {
			claim->flags &= ~CLAIM_SECOND;
			return RECOVER_PASS;
		}
	}
	if (next == word) {
		/*
		 * The claim was copied; or, after all that were copied have ended, a packet of the
		 * time after has passed. The former ring has this claim: judged again, it is a
		 * duplicate.
		 */
		if (recovery_flags(&f) & FRER_RECOVERY_BOTH) {
			claim->flags &= ~CLAIM_SECOND;
			return RECOVER_PASS;
		}
		claim->flags &= ~(CLAIM_HELD | CLAIM_SECOND);
		return RECOVER_AGAIN;
	}
	if (recover_cas(at, word, next) != word)
		return RECOVER_AGAIN;
	claim->flags &= ~CLAIM_SECOND;
	return RECOVER_PASS;
}

/*
 * VectorRecoveryAlgorithm (7.4.3.4), for a number after the first one. `newest`: the head at
 * RecovSeqNum. `length`: that of the history, before the head was loaded.
 */
static __always_inline enum outcome judge_vector(__u32 slot, const struct recovery *f, __u64 head,
						 __u64 newest, __s32 length, __u16 number,
						 __u64 now, struct claim *claim, const bool moving)
{
	struct frer_recovery *r = f->r;
	__s32 delta = number_delta(number, head_number(newest));
	__u32 position = (head_position(newest) + delta) & FRER_POSITION_MASK;
	__u32 epoch = epoch_of(position);
	__u64 *at, word, next;

	if (delta >= length || delta <= -length) {
		if (delta > 0) {
			position = claim_ahead(slot, newest, moving);
			if (moving && position == head_position(newest) && uses_second(f))
				position = claim_ahead(slot, newest, false);
			if (position != head_position(newest)) {
				replace_head(slot, f, head, moved(head, position, young_length(f)));
				return RECOVER_AGAIN;
			}
		}
		/* A former head with a present length refuses valid numbers, and the reverse. */
		if (recover_load(&r->head) != head || newest_of(slot, head, moving) != newest ||
		    history_length(f) != length)
			return RECOVER_AGAIN;
		return claim->flags & CLAIM_STANDS ? RECOVER_PASS : RECOVER_ROGUE;
	}
	if (head & FRER_HEAD_YOUNG && position == head_first(head))
		return RECOVER_DUPLICATE;
	at = deciding_word(f, moving, epoch);
	if (!at)
		return RECOVER_PASS;
	word = recover_load(at);
	if (word >> FRER_SEEN_BITS == tag_of(head, epoch)) {
		if (word & seen_bit(position)) {
			if (delta <= 0)
				return RECOVER_DUPLICATE;
			/* The CPU that claimed it has not moved the head yet. */
			replace_head(slot, f, head, moved(head, position, young_length(f)));
			return RECOVER_AGAIN;
		}
		next = word | seen_bit(position);
	} else {
		/* A later word belongs to a later head; otherwise it is older than all others. */
		if (is_later(word >> FRER_SEEN_BITS, head, epoch) && recover_load(&r->head) != head)
			return RECOVER_AGAIN;
		next = tag_of(head, epoch) << FRER_SEEN_BITS | seen_bit(position);
	}
	if (recover_cas(at, word, next) != word)
		return RECOVER_AGAIN;
	claim->position = position;
	claim->generation = head_generation(head);
	claim->delta = delta;
	claim->flags = (claim->flags & ~CLAIM_EARLY) | CLAIM_HELD | CLAIM_STAMPED;
	if (head & FRER_HEAD_YOUNG && distance(position, head_first(head)) < 0)
		claim->flags |= CLAIM_EARLY;
	/* Before the commit: a CPU that sees the new head also sees this time. */
	restart_timer(slot, r, now);
	if (moving && uses_second(f)) {
		claim->flags |= CLAIM_SECOND;
		if (claim_second(slot, head, claim) != RECOVER_PASS)
			return RECOVER_AGAIN;
	}
	return commit(slot, f, head, claim);
}

/* MatchRecoveryAlgorithm (7.4.3.5), for a number after the first one. */
static __always_inline enum outcome judge_match(__u32 slot, const struct recovery *f, __u64 head,
						__u16 number, __u64 now, struct claim *claim)
{
	__s32 delta = number_delta(number, head_number(head));
	struct frer_recovery *r = f->r;

	if (!delta)
		return RECOVER_DUPLICATE;
	claim->flags |= CLAIM_STAMPED;
	restart_timer(slot, r, now);
	if (recover_cas(&r->head, head, touched(at_position(head, number))) != head)
		return RECOVER_AGAIN;
	count_rare(slot, COUNT_MATCHED | (delta != 1 ? COUNT_OUT_OF_ORDER : 0));
	return RECOVER_PASS;
}

/* One try to judge a packet. */
RECOVER_GLOBAL int judge(__u32 slot, __u32 number, __u64 now, struct claim *claim, bool moving)
{
	struct frer_recovery *r;
	struct recovery f;
	__s32 length;
	__u64 head;

	if (!claim || !find_recovery(slot, &f))
		return RECOVER_PASS;
	r = f.r;
	/* Before the head: a former one with a present length passes numbers that are too old. */
	length = history_length(&f);
	head = recover_load(&r->head);
	if (claim->flags & CLAIM_HELD) {
		if (head_generation(head) == claim->generation) {
			if (moving && claim->flags & CLAIM_SECOND &&
			    claim_second(slot, head, claim) != RECOVER_PASS)
				return RECOVER_AGAIN;
			return commit(slot, &f, head, claim);
		}
		/* Judged again in the new generation; if rogue there, the claim stands. */
		claim->flags = (claim->flags & ~(CLAIM_HELD | CLAIM_SECOND)) | CLAIM_STANDS;
	}
	if (r->config.timeout_ns) {
		__u64 before = head;

		if (timer_expired(r, before, now)) {
			claim->head = before;
			return RECOVER_EXPIRED;
		}
		/*
		 * Of the time stamp's time or later: a former head refuses valid numbers. The timer
		 * of one that was started meanwhile is not checked yet.
		 */
		head = recover_load(&r->head);
		if (head & ~before & FRER_HEAD_RUNNING)
			return RECOVER_AGAIN;
	}
	claim->head = head;
	if (head & FRER_HEAD_TAKE_ANY) {
		claim->flags |= CLAIM_STAMPED;
		restart_timer(slot, r, now);
		if (recover_cas(&r->head, head, started(head, number)) != head)
			return RECOVER_AGAIN;
		if (r->config.flags & FRER_RECOVERY_MATCH)
			count_rare(slot, COUNT_MATCHED);
		return RECOVER_PASS;
	}
	if (r->config.flags & FRER_RECOVERY_MATCH)
		return judge_match(slot, &f, head, number, now, claim);
	return judge_vector(slot, &f, head, newest_of(slot, head, moving), length, number, now,
			    claim, moving);
}

/* Reset the function if its timer has expired. */
static __always_inline void expire(__u32 slot, const struct recovery *f, __u64 now)
{
	__u64 head = recover_load(&f->r->head);

	if (timer_expired(f->r, head, now))
		restart(slot, head, now);
}

/* A packet without a number, or a discarded one of individual recovery, restarts the timer. */
static __always_inline void keep_running(__u32 slot, const struct recovery *f, __u64 now)
{
	for (int i = 0; i < RECOVER_TRIES;) {
		__u64 head;

		/* Linux 6.1 rejects a loop whose step is placed before its head ("back-edge"). */
		i++;
		asm volatile("" : "+r"(i));
		head = recover_load(&f->r->head);
		if (timer_expired(f->r, head, now)) {
			restart(slot, head, now);
			continue;
		}
		restart_timer(slot, f->r, now);
		if (recover_cas(&f->r->head, head, touched(head) | FRER_HEAD_RUNNING) == head)
			return;
	}
}

#define NO_SEQUENCE (FRER_NUMBER_MASK + 1)

/* A packet without a number. Returns true if it passes. */
RECOVER_GLOBAL int recover_tagless(__u32 slot, __u64 now)
{
	struct recovery f;
	bool individual, pass;

	if (!find_recovery(slot, &f))
		return true;
	individual = recovery_flags(&f) & FRER_RECOVERY_INDIVIDUAL;
	pass = recovery_flags(&f) & FRER_RECOVERY_TAKE_NOSEQ;
	count_rare(slot, COUNT_TAGLESS | (pass ? COUNT_TAGLESS_PASS : 0));
	if (pass && individual)
		recover_count(&f.r->passed, 1);
	if (pass || individual)
		keep_running(slot, &f, now);
	else
		expire(slot, &f, now);
	return pass;
}

/* All cases and all tries. Returns true if the packet passes. */
RECOVER_GLOBAL int recover_numbered(__u32 slot, __u32 number, __u64 now, struct claim *claim,
				    bool moving)
{
	int outcome = RECOVER_AGAIN;
	struct recovery f;
	bool pass;

	if (!claim || !find_recovery(slot, &f))
		return true;
	for (int i = 0; i < RECOVER_TRIES; i++) {
		outcome = judge(slot, number, now, claim, moving);
		if (outcome == RECOVER_EXPIRED) {
			restart(slot, claim->head, now);
			outcome = RECOVER_AGAIN;
		}
		if (outcome == RECOVER_AGAIN)
			continue;
		/*
		 * A CPU that read the time stamp before would reset the function, although its
		 * timer has been restarted: the head must differ.
		 */
		if (outcome == RECOVER_PASS || !(claim->flags & CLAIM_STAMPED) ||
		    recover_cas(&f.r->head, claim->head, touched(claim->head)) == claim->head)
			break;
		outcome = RECOVER_AGAIN;
	}
	if (outcome == RECOVER_AGAIN) {
		/* Never a valid frame less. */
		count_rare(slot, COUNT_CONTENDED);
		outcome = RECOVER_PASS;
	}
	if (outcome == RECOVER_ROGUE)
		count_rare(slot, COUNT_ROGUE);
	pass = outcome == RECOVER_PASS;
	if (recovery_flags(&f) & FRER_RECOVERY_INDIVIDUAL) {
		recover_count(pass ? &f.r->passed : &f.r->discarded, 1);
		if (!pass)
			keep_running(slot, &f, now);
	}
	return pass;
}

/* A program run may use the rings by the flags that it has read at any time (history.h). */
static __always_inline bool recover_again(__u32 slot, const struct recovery *f, __u32 sequence,
					  __u64 now, struct claim *claim)
{
	if (sequence == NO_SEQUENCE)
		return recover_tagless(slot, now);
	return recover_numbered(slot, sequence, now, claim,
				recovery_flags(f) & FRER_RECOVERY_MOVING);
}

/*
 * What nearly all packets of the vector algorithm do: a number of the window that was seen, or the
 * next one in the epoch of the head. The first number is not in the window any more: each number is
 * committed on the head before, and in its epoch, to count laps; and of match recovery always.
 * Everything else is left to recover_again.
 */
static __always_inline enum outcome recover_usual(__u32 slot, const struct recovery *f,
						  __u16 number, __u64 now, struct claim *claim)
{
	struct frer_recovery *r = f->r;
	__u64 stamp = recover_load(&r->restarted_ns);
	/* At the time stamp's time or later: it has not expired there. */
	__u64 head = recover_load(&r->head), *at, word, bit;
	__u32 last = head_position(head) | (FRER_SEEN_BITS - 1), position;
	__s32 back = number_delta(last, number), length;

	if (unlikely((head & FRER_HEAD_FLAGS) != FRER_HEAD_RUNNING || back < 0))
		return RECOVER_AGAIN;
	if (unlikely(r->config.timeout_ns && (__s64)(now - stamp) >= (__s64)r->config.timeout_ns))
		return RECOVER_AGAIN;
	if (unlikely(recovery_flags(f) & FRER_RECOVERY_MOVING))
		return RECOVER_AGAIN;
	position = last - back;
	at = ring_word(f, epoch_of(position));
	if (unlikely(!at))
		return RECOVER_AGAIN;
	word = recover_load(at);
	if (unlikely(word >> FRER_SEEN_BITS != head_tag(head) - (back >> FRER_SEEN_SHIFT)))
		return RECOVER_AGAIN;
	bit = seen_bit(position);
	if (word & bit) {
		length = history_length(f);
		/* Wherever RecovSeqNum is in its epoch, or as all numbers ahead are not seen. */
		if (likely(back < length) ||
		    (back < FRER_SEEN_BITS && (word & FRER_SEEN_MASK) < bit << length))
			return RECOVER_DUPLICATE;
		return RECOVER_AGAIN;
	}
	/* The number before is RecovSeqNum: of the bits up to it, its own is the highest. */
	if (unlikely(back >= FRER_SEEN_BITS || ((word & FRER_SEEN_MASK) ^ bit >> 1) >= bit >> 1 ||
		     bit == 1))
		return RECOVER_AGAIN;
	if (unlikely(epoch_of(head_first_number(head)) == epoch_of(number)))
		return RECOVER_AGAIN;
	if (unlikely(recover_cas(at, word, word | bit) != word))
		return RECOVER_AGAIN;
	/* Not before the claim: with this time, the number before would still end the window. */
	if (unlikely((__s64)(now - stamp) > 0))
		forward_timer(slot, now);
	if (likely(recover_load(&r->head) == head))
		return RECOVER_PASS;
	claim->position = position;
	claim->delta = 1;
	claim->generation = head_generation(head);
	claim->flags = CLAIM_HELD | CLAIM_STAMPED;
	return RECOVER_AGAIN;
}

/*
 * What nearly all packets of the match algorithm do: the number that follows the last one.
 * Everything else is left to recover_again.
 */
static __always_inline enum outcome match_usual(__u32 slot, const struct recovery *f, __u16 number,
						__u64 now, struct claim *claim)
{
	const __u64 deciding = FRER_HEAD_TAKE_ANY | FRER_HEAD_RUNNING | FRER_HEAD_EXPIRING;
	struct frer_recovery *r = f->r;
	__u64 stamp = recover_load(&r->restarted_ns);
	/* At the time stamp's time or later: it has not expired there. */
	__u64 head = recover_load(&r->head);

	if (unlikely((head & deciding) != FRER_HEAD_RUNNING ||
		     number_delta(number, head_number(head)) != 1))
		return RECOVER_AGAIN;
	if (unlikely(r->config.timeout_ns && (__s64)(now - stamp) >= (__s64)r->config.timeout_ns))
		return RECOVER_AGAIN;
	if (unlikely((__s64)(now - stamp) > 0)) {
		claim->flags = CLAIM_STAMPED;
		forward_timer(slot, now);
	}
	if (unlikely(recover_cas(&r->head, head, touched(at_position(head, number))) != head))
		return RECOVER_AGAIN;
	return RECOVER_PASS;
}

/*
 * Returns true if the packet of a member passes; `sequence` may be NO_SEQUENCE. `serial`: packets
 * are processed one at a time.
 */
static __always_inline bool recover_individual(__u32 slot, const struct recovery *f, __u32 sequence,
					       __u64 now, bool serial)
{
	enum outcome outcome = RECOVER_AGAIN;
	struct claim claim = {}, changed;

	if (sequence != NO_SEQUENCE && recovery_flags(f) & FRER_RECOVERY_MATCH)
		outcome = match_usual(slot, f, sequence, now, &claim);
	if (likely(outcome == RECOVER_PASS)) {
		if (serial)
			f->r->usual_passed++;
		else
			recover_count(&f->r->usual_passed, 1);
		return true;
	}
	changed = claim;
	return recover_again(slot, f, sequence, now, &changed);
}

/*
 * Returns true if the packet passes; `sequence` may be NO_SEQUENCE. For sequence recovery, whose
 * passed and discarded packets the members of its stream count.
 */
static __always_inline bool recover(__u32 slot, const struct recovery *f, __u32 sequence, __u64 now)
{
	enum outcome outcome = RECOVER_AGAIN;
	struct claim claim = {}, changed;

	if (sequence != NO_SEQUENCE)
		outcome = recover_usual(slot, f, sequence, now, &claim);
	if (likely(outcome == RECOVER_PASS || outcome == RECOVER_DUPLICATE))
		return outcome == RECOVER_PASS;
	/* A copy, so that the first try keeps its own in registers. */
	changed = claim;
	return recover_again(slot, f, sequence, now, &changed);
}

#endif
