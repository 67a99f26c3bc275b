/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The skew between the paths of a stream, as frer/core/src/paths.rs records it. */
#ifndef ONBEAT_PATHS_H
#define ONBEAT_PATHS_H

#include "clock.h"
#include "recover_state.h"

/* In units of FRER_SKEW_UNIT ns; timeouts have the resolution of ticks. */
static __always_inline __u32 precise_now(void)
{
	return (test_clock ? now_ns() : bpf_ktime_get_ns()) / FRER_SKEW_UNIT;
}

static __always_inline __u32 skew_class(__u32 units)
{
	__u32 octave, class;

	if (units < 1 << FRER_SKEW_FIRST_LIMIT)
		return 0;
	octave = highest_bit(units) - FRER_SKEW_FIRST_LIMIT;
	class = 1 + 2 * octave + (units >> (octave + FRER_SKEW_FIRST_LIMIT - 1) & 1);
	return class < FRER_SKEW_CLASSES ? class : FRER_SKEW_CLASSES - 1;
}

static __always_inline void count_later(struct frer_skew *skew, __u32 units, __u16 behind)
{
	__u32 class = skew_class(units);

	if (class >= FRER_SKEW_CLASSES)
		return;
	if (units > skew->greatest)
		WRITE_ONCE(skew->greatest, units);
	if (behind > skew->behind)
		WRITE_ONCE(skew->behind, behind);
	if (skew->later[class] == 0xffff) {
		for (int i = 0; i < FRER_SKEW_CLASSES; i++)
			skew->later[i] /= 2;
		skew->first /= 2;
	}
	skew->later[class]++;
}

/* Of these numbers one is measured: arrivals last for two histories. */
static __always_inline __u32 sampled(const struct recovery *f)
{
	__u32 interval = 1 << highest_bit(history_length(f) - 1) >> 1;

	return interval > FRER_SAMPLED ? interval : FRER_SAMPLED;
}

/*
 * Record a copy of a measured number. CPUs that record for one member at the same time may lose a
 * sample.
 */
__noinline int record_path(__u32 function, __u32 member, __u32 sequence, bool pass)
{
	struct frer_skew *skew = bpf_map_lookup_elem(&skews, &member);
	struct frer_arrivals *arrivals = bpf_map_lookup_elem(&arrivals_of, &function);
	__u32 place, interval;
	struct recovery f;
	__u64 arrival, head;
	__s16 behind;

	if (!skew || !arrivals || !find_recovery(function, &f))
		return false;
	interval = sampled(&f);
	if (sequence & (interval - 1))
		return false;
	place = sequence / interval % FRER_ARRIVALS;
	if (pass) {
		arrival = (__u64)precise_now() << 32 | (member & 0xffff) << 16 | sequence;
		WRITE_ONCE(arrivals->first[place], arrival);
		WRITE_ONCE(skew->first, skew->first + 1);
		return true;
	}
	arrival = READ_ONCE(arrivals->first[place]);
	/* A sender or a path that doubles a frame is not a path of its own. */
	if (!arrival || (__u16)arrival != sequence || (__u16)(arrival >> 16) == (__u16)member)
		return true;
	head = recover_load(&f.r->head);
	head = newest_of(function, head, recovery_flags(&f) & FRER_RECOVERY_MOVING);
	behind = head_number(head) - sequence;
	count_later(skew, precise_now() - (__u32)(arrival >> 32), behind > 0 ? behind : 0);
	return true;
}

#endif
