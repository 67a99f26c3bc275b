/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The base recovery function (802.1CB 7.4.3): individual and sequence recovery are instances of it.
 *
 * The history is a ring: number n is at bit n mod ring, so that the usual step of one number
 * writes one bit instead of shifting all. A ring of 64 is in the function's cache line, a longer
 * one in its record. The reset timer is a time stamp: the next packet or the control program's
 * sweep, whichever is first, detects that it has expired and resets the function.
 */
#ifndef ONBEAT_RECOVER_H
#define ONBEAT_RECOVER_H

#include "maps.h"

/* A bit range of up to 1,023 bits touches at most 17 words. */
#define RANGE_WORDS (FRER_HISTORY_WORDS + 1)

/* A recovery function; both parts are under the lock of the first. */
struct recovery {
	struct frer_recovery *r;
	struct frer_recovery_record *record;
};

static __always_inline bool find_recovery(__u32 slot, struct recovery *f)
{
	f->r = bpf_map_lookup_elem(&recoveries, &slot);
	f->record = bpf_map_lookup_elem(&recovery_records, &slot);
	return f->r && f->record;
}

/* The word of a ring longer than 64. */
static __always_inline __u64 *ring_word(const struct recovery *f, __u32 number)
{
	__u32 bit = number & (f->r->config.ring - 1);

	return &f->record->history[(bit / 64) & (FRER_HISTORY_WORDS - 1)];
}

static __always_inline __u64 *history_word(const struct recovery *f, __u32 number)
{
	return f->r->config.ring <= 64 ? &f->r->history : ring_word(f, number);
}

static __always_inline __u64 history_bit(__u32 number)
{
	return 1ULL << (number & 63);
}

/*
 * Count the set bits of `count` numbers starting at `number`, and clear them if `clear`. `count` is
 * at least one and less than the ring. A ring of 64 is one word. Iterations of the loop must not
 * branch except to leave it: with the choice between word and record inside, Linux 6.1 verifies
 * more than a million instructions and rejects the program.
 */
static __always_inline __u32 history_range(const struct recovery *f, __u32 number, __u32 count,
					   bool clear)
{
	__u32 first = number & 63;
	__u32 end = first + count; /* counted from the first word's first bit, as `first` is */
	__u64 mask = ~0ULL << first;
	__u32 ones = 0;

	if (f->r->config.ring <= 64) {
		mask = ~0ULL >> ((64 - count) & 63);
		mask = mask << first | mask >> ((64 - first) & 63);
		ones = __builtin_popcountll(f->r->history & mask);
		if (clear)
			f->r->history &= ~mask;
		return ones;
	}
	for (__u32 i = 0; i < RANGE_WORDS; i++) {
		__u64 *word = ring_word(f, number + i * 64);
		bool last = end <= (i + 1) * 64;

		if (last)
			mask &= ~0ULL >> ((64 - end) & 63);
		ones += __builtin_popcountll(*word & mask);
		if (clear)
			*word &= ~mask;
		if (last)
			break;
		mask = ~0ULL;
	}
	return ones;
}

/* 7.4.3.3 */
static __always_inline void recovery_reset(const struct recovery *f)
{
	struct frer_recovery *r = f->r;

	r->recov_seq_num = 0xffff;
	r->history = 0;
	for (int i = 0; i < FRER_HISTORY_WORDS; i++)
		f->record->history[i] = 0;
	r->take_any = 1;
	r->running = 0;
	r->born = 0;
	r->unborn = 0;
	f->record->resets++;
}

static __always_inline void timer_restart(struct frer_recovery *r, __u64 now)
{
	/* `now` was read before locking: another CPU may have read a later time and locked first.
	 */
	if (!r->running || (__s64)(now - r->restarted_ns) > 0)
		r->restarted_ns = now;
	r->running = 1;
}

/* 7.4.3.2.4: whether no packet has passed the function for its reset timeout. */
static __always_inline bool timer_expired(const struct frer_recovery *r, __u64 now)
{
	return r->running && r->config.timeout_ns &&
	       (__s64)(now - r->restarted_ns) >= (__s64)r->config.timeout_ns;
}

static __always_inline bool vector_recovery(const struct recovery *f, __u16 sequence)
{
	struct frer_recovery *r = f->r;
	__s32 delta = (__s16)(sequence - r->recov_seq_num);
	__s32 length = r->config.history_length;
	__u32 lost;

	if (delta >= length || delta <= -length) {
		f->record->rogue++;
		return false;
	}
	if (delta <= 0) {
		__u64 *word = history_word(f, sequence);

		if (*word & history_bit(sequence))
			return false;
		*word |= history_bit(sequence);
		if (r->unborn && -delta >= r->born)
			r->unborn--;
		f->record->out_of_order++;
		return true;
	}
	if (delta == 1) {
		__u32 falls = (__u16)(sequence - length);

		lost = !(*history_word(f, falls) & history_bit(falls));
	} else {
		__u16 falls = r->recov_seq_num - length + 1;

		f->record->out_of_order++;
		lost = delta - history_range(f, falls, delta, false);
		history_range(f, (__u16)(r->recov_seq_num + 1), delta, true);
	}
	*history_word(f, sequence) |= history_bit(sequence);
	f->record->lost += lost;
	if (r->unborn) {
		__u32 before = lost < r->unborn ? lost : r->unborn;

		f->record->lost_before_first += before;
		r->unborn -= before;
		r->born = r->born + delta < length ? r->born + delta : length;
	}
	r->recov_seq_num = sequence;
	return true;
}

static __always_inline bool match_recovery(const struct recovery *f, __u16 sequence)
{
	struct frer_recovery *r = f->r;
	__s32 delta = (__s16)(sequence - r->recov_seq_num);

	if (delta == 0)
		return false;
	if (delta != 1)
		f->record->out_of_order++;
	r->recov_seq_num = sequence;
	return true;
}

static __always_inline bool take_first(const struct recovery *f, __u16 sequence)
{
	struct frer_recovery *r = f->r;

	r->take_any = 0;
	r->recov_seq_num = sequence;
	if (!(r->config.flags & FRER_RECOVERY_MATCH)) {
		*history_word(f, sequence) |= history_bit(sequence);
		r->born = 1;
		r->unborn = r->config.history_length - 1;
	}
	return true;
}

/* Returns true if the packet passes. */
static __always_inline bool recover(const struct recovery *f, bool has_sequence, __u16 sequence,
				    __u64 now)
{
	struct frer_recovery *r = f->r;
	bool pass;

	bpf_spin_lock(&r->lock);
	if (timer_expired(r, now))
		recovery_reset(f);
	if (!has_sequence) {
		f->record->tagless++;
		pass = r->config.flags & FRER_RECOVERY_TAKE_NOSEQ;
	} else {
		if (r->take_any)
			pass = take_first(f, sequence);
		else if (r->config.flags & FRER_RECOVERY_MATCH)
			pass = match_recovery(f, sequence);
		else
			pass = vector_recovery(f, sequence);
		if (!pass)
			r->discarded++;
	}
	if (pass)
		r->passed++;
	if (pass || (r->config.flags & FRER_RECOVERY_INDIVIDUAL))
		timer_restart(r, now);
	bpf_spin_unlock(&r->lock);
	return pass;
}

#endif
