/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Duplicate discard by the numbers of one source, without a lock: frer/core/src/prp/discard.rs has
 * the same algorithm and its reasons.
 *
 * `newest` has the newest number with its lap, and the latest period with a frame. A word has 16
 * numbers: bits of the present period, bits of the former one, the period and the lap. The word
 * decides: of two copies at once, one sets the bit. A packet whose tries all fail is accepted.
 *
 * A stale `newest` is harmless: it makes a number older than it is. Then its word is of a later
 * lap, and the packet is accepted without state.
 *
 * The includer provides recover_load and recover_cas (recover.h). No order between these accesses
 * is required.
 */
#ifndef ONBEAT_DISCARD_H
#define ONBEAT_DISCARD_H

#include <stdbool.h>
#include <linux/types.h>

#define DISCARD_TRIES 8

#define NEWEST_VALID	   (1ULL << 63)
#define NEWEST_PERIOD	   32
#define NEWEST_PERIOD_BITS 31

#define DISCARD_NUMBERS 16
#define DISCARD_WORDS	(0x10000 / DISCARD_NUMBERS)
#define WORD_PERIOD	32
#define WORD_LAP	52
#define PERIOD_BITS	20
#define LAP_BITS	12

#define FORGET_PERIODS 2
#define MOST_BEHIND    32767

/* The signed distance between numbers of this number of bits. */
static __always_inline __s32 distance_of(__u32 from, __u32 to, __u32 bits)
{
	return (__s32)((to - from) << (32 - bits)) >> (32 - bits);
}

static __always_inline __u64 discard_word(__u16 present, __u16 before, __u32 period, __u32 lap)
{
	period &= (1U << PERIOD_BITS) - 1;
	lap &= (1U << LAP_BITS) - 1;
	return (__u64)lap << WORD_LAP | (__u64)period << WORD_PERIOD |
	       (__u64)before << DISCARD_NUMBERS | present;
}

/* The word after a number; sets `first` if it is the first copy. */
static __always_inline __u64 word_after(__u64 word, __u16 bit, __u32 period, __u32 lap, bool *first)
{
	__s32 laps = distance_of(word >> WORD_LAP, lap, LAP_BITS);
	__s32 age = distance_of(word >> WORD_PERIOD, period, PERIOD_BITS);
	__u16 present = word, before = word >> DISCARD_NUMBERS;

	*first = true;
	/* The numbers wrapped around, perhaps within the forget time; or all are forgotten. */
	if (laps > 0 || age < -1 || age > 1)
		return discard_word(bit, 0, period, lap);
	/* The word has numbers of a later lap: without state, a frame is accepted. */
	if (laps < 0)
		return word;
	if (age == 1) {
		before = present;
		present = 0;
	}
	/* Arrival times of CPUs are not in order. */
	if (age == -1)
		period++;
	*first = !((present | before) & bit);
	return *first ? discard_word(present | bit, before, period, lap) : word;
}

/* Whether a frame is the first one with its number. */
static __always_inline bool discard_accepts(__u64 *newest_at, __u64 *words, __u16 number,
					    __u32 period)
{
	__u32 extended = 0, newest, latest;
	__u64 head, word, place, *at;
	bool first, known;
	__s32 silence;
	__u16 behind;
	int i;

	period &= (1U << NEWEST_PERIOD_BITS) - 1;
	for (i = 0; i < DISCARD_TRIES; i++) {
		__u64 next;

		head = recover_load(newest_at);
		known = head & NEWEST_VALID;
		newest = head;
		latest = head >> NEWEST_PERIOD & ((1U << NEWEST_PERIOD_BITS) - 1);
		silence = distance_of(latest, period, NEWEST_PERIOD_BITS);
		if (!known) {
			/* Lap 1: words have lap 0, and numbers before the first one are of it. */
			newest = 1 << 16 | number;
			latest = period;
		} else if (silence >= FORGET_PERIODS) {
			/*
			 * All are forgotten: in new laps none returns when periods of words wrap.
			 * The source may have started again, at any number.
			 */
			newest = ((newest >> 16) + 2) << 16 | number;
		}
		if (silence > 0 || silence < -FORGET_PERIODS)
			latest = period;
		behind = (__u16)newest - number;
		if (behind <= MOST_BEHIND) {
			extended = newest - behind;
		} else {
			extended = newest + (__u16)(number - (__u16)newest);
			newest = extended;
		}
		next = NEWEST_VALID | (__u64)latest << NEWEST_PERIOD | newest;
		if (next == head || recover_cas(newest_at, head, next) == head)
			break;
	}
	if (i == DISCARD_TRIES)
		return true;
	place = number / DISCARD_NUMBERS;
	/* The compiler knows the bound, and the verifier of Linux 6.1 may not. */
	asm volatile("" : "+r"(place));
	at = &words[place & (DISCARD_WORDS - 1)];
	for (i = 0; i < DISCARD_TRIES; i++) {
		__u64 after;

		word = recover_load(at);
		after =
		    word_after(word, 1 << number % DISCARD_NUMBERS, period, extended >> 16, &first);
		if (after == word || recover_cas(at, word, after) == word)
			return first;
	}
	return true;
}

#endif
