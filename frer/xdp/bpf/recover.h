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
 *	ring_word	the word of the ring for an epoch, or NULL
 *	find_recovery	the function of a slot
 *	find_record	its record
 *	likely, unlikely
 */
#ifndef ONBEAT_RECOVER_H
#define ONBEAT_RECOVER_H

/* Tries of one packet. In each failed one, another CPU has changed this function's state. */
#define RECOVER_TRIES 12
/* Tries to move the time stamp forward: it is replaced once per step of the clock. */
#define STAMP_TRIES 8

enum outcome {
	RECOVER_PASS,
	RECOVER_DUPLICATE,
	RECOVER_ROGUE,
	RECOVER_AGAIN, /* the state has changed meanwhile */
};

/* What a packet has changed in its former tries. */
struct claim {
	__u64 head; /* by which it was judged */
	__u32 position;
	__s16 delta; /* between its number and RecovSeqNum */
	__u8 generation;
	__u8 flags; /* CLAIM_* */
};

#define CLAIM_STAMPED 1 /* it has restarted the timer */
#define CLAIM_HELD    2 /* its claim waits for its commit */
#define CLAIM_STANDS  4 /* it was superseded by a reset before its commit */
#define CLAIM_EARLY   8 /* it precedes the first number since the reset */

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

/* The head with a position ahead. */
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

/*
 * Move the time stamp forward, once per step of the clock. Functions marked RECOVER_GLOBAL are rare
 * paths; the verifier checks each once, by itself.
 */
RECOVER_GLOBAL int forward_timer(__u32 slot, __u64 now)
{
	struct recovery f;

	if (!find_recovery(slot, &f))
		return false;
	for (int i = 0; i < STAMP_TRIES; i++) {
		__u64 stamp = recover_load(&f.r->restarted_ns);

		if ((__s64)(now - stamp) <= 0 ||
		    recover_cas(&f.r->restarted_ns, stamp, now) == stamp)
			return true;
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

/*
 * The head at RecovSeqNum. While the first number is in the window, each number is committed on the
 * head.
 */
static __always_inline __u64 newest_head(const struct recovery *f, __u64 head)
{
	__u64 *at;

	if (head & (FRER_HEAD_TAKE_ANY | FRER_HEAD_YOUNG))
		return head;
	at = ring_word(f, epoch_of(head_position(head)));
	return at ? advanced(head, recover_load(at)) : head;
}

/* The same, for a function with little room on the stack. */
RECOVER_GLOBAL __u64 newest_of(__u32 slot, __u64 head)
{
	struct recovery f;

	return find_recovery(slot, &f) ? newest_head(&f, head) : head;
}

/* The seen numbers in the window of the head, and those of them that precede the first one. */
struct tally {
	__u32 seen;
	__u32 early;
};

static __always_inline struct tally tally_window(const struct recovery *f, __u64 head)
{
	__u32 to = head_position(head);
	__u32 from = (to - f->r->config.history_length + 1) & FRER_POSITION_MASK;
	__u32 before = (head_first(head) - 1) & FRER_POSITION_MASK;
	struct tally tally = {};

	/* Without history, or without a number since the reset. */
	if (f->r->config.flags & FRER_RECOVERY_MATCH || head & FRER_HEAD_TAKE_ANY)
		return tally;
	for (__u32 i = 0; i < FRER_WINDOW_WORDS; i++) {
		__u32 epoch = (epoch_of(from) + i) & FRER_EPOCH_MASK;
		__u64 *at = ring_word(f, epoch);
		__u64 word, bits = 0;

		if (!at)
			break;
		word = recover_load(at);
		if (word >> FRER_SEEN_BITS == tag_of(head, epoch))
			bits = word & bits_between(epoch, from, to);
		tally.seen += __builtin_popcountll(bits);
		if (head & FRER_HEAD_YOUNG && distance(epoch << FRER_SEEN_SHIFT, before) <= 0)
			tally.early +=
			    __builtin_popcountll(bits & bits_between(epoch, from, before));
		if (epoch == epoch_of(to))
			break;
	}
	if (head & FRER_HEAD_YOUNG)
		tally.seen++;
	return tally;
}

/*
 * A tag of the same value returns after all generations. Before that, words of former generations
 * are replaced by words without a number.
 */
static __always_inline void renew_ring(const struct recovery *f, __u64 head)
{
	__u32 generation = head_generation(head);

	if (generation & (FRER_GENERATION_MASK >> 1))
		return;
	for (__u32 i = 0; i < FRER_RING_WORDS; i++) {
		__u64 *at = ring_word(f, i);
		__u64 word;

		if (i > f->r->config.ring_mask || !at)
			break;
		word = recover_load(at);
		if (word >> FRER_SEEN_BITS >> FRER_EPOCH_BITS != generation)
			recover_cas(at, word, tag_of(head, 0) << FRER_SEEN_BITS);
	}
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
	struct tally tally;
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
	before = f.r->config.history_length - 1;
	newest = newest_head(&f, head);
	tally = tally_window(&f, newest);
	if (!(head & FRER_HEAD_TAKE_ANY))
		passed = (head_position(newest) - head_first(head)) & FRER_POSITION_MASK;
	renew_ring(&f, head);
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

/*
 * The highest claim ahead of the head, which is at RecovSeqNum, or its position: the CPU that made
 * it has not moved the head yet.
 */
RECOVER_GLOBAL __u32 claim_ahead(__u32 slot, __u64 head)
{
	__u32 from = (head_position(head) + 1) & FRER_POSITION_MASK;
	__u32 found = head_position(head);
	struct recovery f;
	__u32 to;

	if (!find_recovery(slot, &f))
		return found;
	to = (found + f.r->config.history_length - 1) & FRER_POSITION_MASK;
	for (__u32 i = 0; i < FRER_WINDOW_WORDS; i++) {
		__u32 epoch = (epoch_of(from) + i) & FRER_EPOCH_MASK;
		__u64 *at = ring_word(&f, epoch);
		__u64 word, bits;

		if (!at)
			break;
		word = recover_load(at);
		bits = word & bits_between(epoch, from, to);
		if (word >> FRER_SEEN_BITS == tag_of(head, epoch) && bits)
			found = epoch << FRER_SEEN_SHIFT | highest_bit(bits);
		if (epoch == epoch_of(to))
			break;
	}
	return found;
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
		next = moved(head, claim->position, f->r->config.history_length);
	if (!replace_head(slot, f, head, next))
		return RECOVER_AGAIN;
	if (claim->flags & CLAIM_EARLY)
		counts |= COUNT_EARLY;
	if (counts)
		count_rare(slot, counts);
	return RECOVER_PASS;
}

/*
 * VectorRecoveryAlgorithm (7.4.3.4), for a number after the first one. `newest`: the head at
 * RecovSeqNum.
 */
static __always_inline enum outcome judge_vector(__u32 slot, const struct recovery *f, __u64 head,
						 __u64 newest, __u16 number, __u64 now,
						 struct claim *claim)
{
	struct frer_recovery *r = f->r;
	__s32 delta = number_delta(number, head_number(newest));
	__s32 length = r->config.history_length;
	__u32 position = (head_position(newest) + delta) & FRER_POSITION_MASK;
	__u32 epoch = epoch_of(position);
	__u64 *at, word, next;

	if (delta >= length || delta <= -length) {
		if (delta > 0) {
			position = claim_ahead(slot, newest);
			if (position != head_position(newest)) {
				replace_head(slot, f, head, moved(head, position, length));
				return RECOVER_AGAIN;
			}
		}
		return claim->flags & CLAIM_STANDS ? RECOVER_PASS : RECOVER_ROGUE;
	}
	if (head & FRER_HEAD_YOUNG && position == head_first(head))
		return RECOVER_DUPLICATE;
	at = ring_word(f, epoch);
	if (!at)
		return RECOVER_PASS;
	word = recover_load(at);
	if (word >> FRER_SEEN_BITS == tag_of(head, epoch)) {
		if (word & seen_bit(position)) {
			if (delta <= 0)
				return RECOVER_DUPLICATE;
			/* The CPU that claimed it has not moved the head yet. */
			replace_head(slot, f, head, moved(head, position, length));
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
static __always_inline enum outcome judge(__u32 slot, const struct recovery *f, __u16 number,
					  __u64 now, struct claim *claim)
{
	struct frer_recovery *r = f->r;
	__u64 head = recover_load(&r->head);

	if (claim->flags & CLAIM_HELD) {
		if (head_generation(head) == claim->generation)
			return commit(slot, f, head, claim);
		/* Judged again in the new generation; if rogue there, the claim stands. */
		claim->flags = (claim->flags & ~CLAIM_HELD) | CLAIM_STANDS;
	}
	if (r->config.timeout_ns) {
		__u64 before = head;

		if (timer_expired(r, before, now)) {
			restart(slot, before, now);
			return RECOVER_AGAIN;
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
		return judge_match(slot, f, head, number, now, claim);
	return judge_vector(slot, f, head, newest_of(slot, head), number, now, claim);
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
	individual = f.r->config.flags & FRER_RECOVERY_INDIVIDUAL;
	pass = f.r->config.flags & FRER_RECOVERY_TAKE_NOSEQ;
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
RECOVER_GLOBAL int recover_numbered(__u32 slot, __u32 number, __u64 now, struct claim *claim)
{
	enum outcome outcome = RECOVER_AGAIN;
	struct recovery f;
	bool pass;

	if (!claim || !find_recovery(slot, &f))
		return true;
	for (int i = 0; i < RECOVER_TRIES; i++) {
		outcome = judge(slot, &f, number, now, claim);
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
	if (f.r->config.flags & FRER_RECOVERY_INDIVIDUAL) {
		recover_count(pass ? &f.r->passed : &f.r->discarded, 1);
		if (!pass)
			keep_running(slot, &f, now);
	}
	return pass;
}

static __always_inline bool recover_again(__u32 slot, __u32 sequence, __u64 now,
					  struct claim *claim)
{
	if (sequence == NO_SEQUENCE)
		return recover_tagless(slot, now);
	return recover_numbered(slot, sequence, now, claim);
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
	position = last - back;
	at = ring_word(f, epoch_of(position));
	if (unlikely(!at))
		return RECOVER_AGAIN;
	word = recover_load(at);
	if (unlikely(word >> FRER_SEEN_BITS != head_tag(head) - (back >> FRER_SEEN_SHIFT)))
		return RECOVER_AGAIN;
	bit = seen_bit(position);
	if (word & bit) {
		length = r->config.history_length;
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
	if (unlikely((__s64)(now - stamp) > 0) &&
	    recover_cas(&r->restarted_ns, stamp, now) != stamp)
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
	return recover_again(slot, sequence, now, &changed);
}

#endif
