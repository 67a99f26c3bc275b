/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sequential algorithms of 802.1CB 7.4.3, word by word: a history that shifts. */
#ifndef ONBEAT_EXPLORE_REFERENCE_H
#define ONBEAT_EXPLORE_REFERENCE_H

struct reference {
	bool take_any, match, individual, running;
	bool was_reset; /* since the includer cleared it */
	__u32 number, length;
	__u8 window[2 * FRER_MAX_HISTORY]; /* [0] is RecovSeqNum; with some older ones */
	__s32 first_at; /* index of the first number since the reset; numbers behind precede it */
	__u32 lost, early, rogue;
	__u32 moved; /* numbers since the head was read */
	__u64 timeout, restarted;
};

static void reference_reset(struct reference *s)
{
	memset(s->window, 0, sizeof(s->window));
	s->take_any = true;
	s->running = false;
	s->was_reset = true;
}

static void reference_begin(struct reference *s, __u32 length, __u64 timeout, bool match,
			    bool individual)
{
	memset(s, 0, sizeof(*s));
	s->length = length;
	s->timeout = timeout;
	s->match = match;
	s->individual = individual;
	reference_reset(s);
}

/*
 * Numbers older than the history at the time that the head was read, `moved` numbers ago, count as
 * seen, unless it had no number; later ones that are unseen and return to the window are not lost.
 */
static void reference_set_length(struct reference *s, __u32 length)
{
	for (__u32 i = length; i < s->length && !s->take_any; i++) {
		s->lost += !s->window[i];
		s->early += !s->window[i] && s->first_at < (__s32)i;
	}
	for (__u32 i = s->length; i < length && !s->take_any; i++) {
		if (i >= s->length + s->moved)
			s->window[i] = 1;
		s->lost -= !s->window[i];
		s->early -= !s->window[i] && s->first_at < (__s32)i;
	}
	s->length = length;
}

static bool reference_vector(struct reference *s, __u32 number)
{
	__s32 half = 1 << (FRER_NUMBER_BITS - 1);
	__s32 delta = (__s32)((number - s->number + half) & FRER_NUMBER_MASK) - half;

	if (delta >= (__s32)s->length || delta <= -(__s32)s->length) {
		s->rogue++;
		return false;
	}
	if (delta <= 0) {
		if (s->window[-delta])
			return false;
		s->window[-delta] = 1;
		return true;
	}
	for (; delta; delta--) {
		__u32 last = s->length - 1;

		s->lost += !s->window[last];
		s->early += !s->window[last] && s->first_at < (__s32)last;
		memmove(s->window + 1, s->window, sizeof(s->window) - 1);
		s->window[0] = 0;
		if (s->first_at < 2 * FRER_MAX_HISTORY)
			s->first_at++;
		s->moved++;
	}
	s->window[0] = 1;
	s->number = number;
	return true;
}

static bool reference_packet(struct reference *s, __u32 number, __u64 now)
{
	bool pass;

	if (s->running && s->timeout && (__s64)(now - s->restarted) >= (__s64)s->timeout)
		reference_reset(s);
	if (s->take_any) {
		s->take_any = false;
		s->number = number;
		s->window[0] = 1;
		s->first_at = 0;
		pass = true;
	} else if (s->match) {
		pass = number != s->number;
		s->number = number;
	} else {
		pass = reference_vector(s, number);
	}
	if (pass || s->individual) {
		if (!s->running || now > s->restarted)
			s->restarted = now;
		s->running = true;
	}
	return pass;
}

#endif
