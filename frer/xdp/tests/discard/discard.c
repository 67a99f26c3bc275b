/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runs all interleavings of copies of frames on several CPUs through bpf/discard.h.
 *
 *	explore-discard CPUS PACKETS STARTS SEED [fresh|words] [twice] [beyond]
 *
 * A frame is an extended number: laps above the 16 bits that discard.h receives. At each end,
 * - each frame of which a copy arrived was accepted at least once,
 * - and exactly once if its copies arrived in one period or in two adjacent ones.
 * A period that a CPU is late with a copy counts like one between the copies. The second rule is
 * suspended once a CPU is late by two periods with any packet.
 *
 * All frames of a start are within 32,767 numbers, as those in flight are. With "beyond", copies
 * also arrive later: 40,000 numbers behind the newest one, before the number that they are
 * mistaken for. With "twice", only the first rule is checked.
 *
 * A load of `newest` may return an older value: any one since the last that this CPU has accessed.
 * With "words", loads of words also do; with "fresh", none does.
 *
 * A CPU's progress is the list of values that its accesses returned, as in tests/explore. States
 * that were visited before are cut off by a hash of 64 bits. Prints a line with counts; exit status
 * 1 if a rule is broken.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The present access, as seen by the function that is run. */
static unsigned long long recover_load(unsigned long long *at);
static unsigned long long recover_cas(unsigned long long *at, unsigned long long old,
				      unsigned long long new);
static void recover_store(unsigned long long *at, unsigned long long value);

#include "discard.h"

static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

#include "random.h"
#include "visited.h"

#define MAX_CPUS      3
#define MAX_PACKETS   4
#define MAX_FRAMES    8 /* of all CPUs */
#define MAX_LOCATIONS (1 + MAX_FRAMES)
#define MAX_VERSIONS  (1 + MAX_FRAMES) /* an operation stores once in a location */
#define MAX_LOG	      (4 * DISCARD_TRIES)
#define MAX_PATH      1024
#define WORDS	      4096
#define NUMBER_SPACE  65536
#define MOST_PACKETS  64   /* before a start */
#define MOST_SPREAD   4000 /* numbers from a packet to the next one */

/* A copy that arrives. */
struct copy {
	__u64 frame;
	__u32 period;
};

/* The values of a location, from the oldest one that a CPU may read. */
struct location {
	__u64 versions[MAX_VERSIONS];
	__u64 count;
};

struct cpu {
	__u64 packet; /* the present one */
	__u64 accesses;
	__u64 log;		   /* the hash of their values */
	__u64 seen[MAX_LOCATIONS]; /* the oldest version that it may read */
};

/* There is one world: exploration changes it and restores it, but for the logs. */
struct world {
	__u64 accepted[MAX_FRAMES];
	__u64 latest; /* of the periods of packets that have started, from the start's first */
	__u64 late[MAX_FRAMES]; /* most periods from that of a copy to the latest one at its end */
	__u64 is_late;		/* with any packet, by two periods */
	struct cpu cpus[MAX_CPUS];
	struct location locations[MAX_LOCATIONS]; /* `newest`, then the words */
};

/* Values of accesses. What a packet has logged remains until exploration returns to before it. */
static __u64 logs[MAX_CPUS][MAX_PACKETS][MAX_LOG];

static struct copy copies[MAX_CPUS][MAX_PACKETS];
static __u32 cpu_count, packets;
static bool is_fresh, with_words, may_pass_twice, beyond;

/* The state before a start. */
static __u64 newest, words[WORDS];

/* The frames of a start: acceptances before it, and the range of periods with copies. */
static struct {
	__u64 frame;
	__u64 accepted;
	__u32 first, last;
} frames[MAX_FRAMES];
static __u32 frame_count;

/* The words of a start: locations 1 and up. */
static __u32 tracked[MAX_LOCATIONS];
static __u32 location_count;

static struct world world;
static struct cpu *running;
static __u64 *running_log;
static __u32 access_number, replayed, choice;
static __u64 available; /* values that the access may return */
static jmp_buf stop;

static __u32 location_of(const __u64 *at)
{
	if (at == &newest)
		return 0;
	for (__u32 i = 1; i < location_count; i++)
		if (at == &words[tracked[i]])
			return i;
	fail("a word of no packet");
	return 0;
}

/* Whether an access is the next one; one that was performed before returns its value from the log.
 */
static bool is_next(__u64 *value)
{
	__u32 number = access_number++;

	if (number < replayed) {
		*value = running_log[number];
		return false;
	}
	if (number > replayed)
		longjmp(stop, 1);
	if (number == MAX_LOG)
		fail("more than %d accesses", MAX_LOG);
	return true;
}

static __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static __u64 performed(__u64 value)
{
	running_log[running->accesses++] = value;
	running->log = mix(running->log, value);
	return value;
}

static unsigned long long recover_load(unsigned long long *at)
{
	struct location *location;
	__u64 value = 0, *seen;
	__u32 i;

	if (!running)
		return *at;
	if (!is_next(&value))
		return value;
	i = location_of(at);
	location = &world.locations[i];
	seen = &running->seen[i];
	available = is_fresh || (i && !with_words) ? 1 : location->count - *seen;
	if (choice >= available)
		longjmp(stop, 1);
	*seen = location->count - 1 - choice;
	return performed(location->versions[*seen]);
}

static void write(__u32 i, __u64 value)
{
	struct location *location = &world.locations[i];

	if (location->count == MAX_VERSIONS)
		fail("more than %d values of a location", MAX_VERSIONS);
	location->versions[location->count++] = value;
	running->seen[i] = location->count - 1;
}

static unsigned long long recover_cas(unsigned long long *at, unsigned long long old,
				      unsigned long long new)
{
	__u64 value = *at;
	__u32 i;

	if (!running) {
		if (value == old)
			*at = new;
		return value;
	}
	if (!is_next(&value))
		return value;
	i = location_of(at);
	value = world.locations[i].versions[world.locations[i].count - 1];
	running->seen[i] = world.locations[i].count - 1;
	if (value == old)
		write(i, new);
	return performed(value);
}

/* Of the mistakes. */
static void __attribute__((unused)) recover_store(unsigned long long *at, unsigned long long value)
{
	__u64 none;

	if (!running) {
		*at = value;
		return;
	}
	if (!is_next(&none))
		return;
	write(location_of(at), value);
	performed(0);
}

static bool accepts(const struct copy *copy)
{
	return discard_accepts(&newest, words, copy->frame % NUMBER_SPACE, copy->period);
}

/* Removes values that no CPU may read any more. */
static void forget_versions(void)
{
	for (__u32 i = 0; i < location_count; i++) {
		struct location *location = &world.locations[i];
		__u64 oldest = location->count - 1;

		for (__u32 c = 0; c < cpu_count; c++)
			if (world.cpus[c].packet < packets && world.cpus[c].seen[i] < oldest)
				oldest = world.cpus[c].seen[i];
		if (!oldest)
			continue;
		location->count -= oldest;
		memmove(location->versions, location->versions + oldest,
			location->count * sizeof(__u64));
		memset(location->versions + location->count, 0, oldest * sizeof(__u64));
		for (__u32 c = 0; c < cpu_count; c++)
			world.cpus[c].seen[i] -= world.cpus[c].packet < packets ? oldest : 0;
	}
}

static __u32 frame_index(__u64 frame)
{
	for (__u32 i = 0; i < frame_count; i++)
		if (frames[i].frame == frame)
			return i;
	fail("a frame of no packet");
	return 0;
}

static __u32 first_period;

/* One access of a CPU, which may return one of several values; `false`: there are not that many. */
static bool advance(__u32 c, __u32 with_choice)
{
	struct cpu *cpu = &world.cpus[c];
	const struct copy *copy = &copies[c][cpu->packet];
	__u32 period = copy->period - first_period;
	bool is_accepted;
	__u32 frame;

	if (!cpu->accesses && period > world.latest)
		world.latest = period;
	running = cpu;
	running_log = logs[c][cpu->packet];
	replayed = cpu->accesses;
	access_number = 0;
	available = 1;
	choice = with_choice;
	if (setjmp(stop)) {
		running = NULL;
		if (choice >= available)
			return false;
		forget_versions();
		return true;
	}
	is_accepted = accepts(copy);
	running = NULL;
	if (choice >= available)
		return false;
	frame = frame_index(copy->frame);
	world.accepted[frame] += is_accepted;
	if (world.latest > period + world.late[frame])
		world.late[frame] = world.latest - period;
	world.is_late |= world.latest >= period + 2ULL;
	cpu->packet++;
	cpu->accesses = 0;
	cpu->log = 0;
	if (cpu->packet == packets)
		memset(cpu->seen, 0, sizeof(cpu->seen));
	forget_versions();
	return true;
}

static struct visited visited;
static __u64 states, ends, twice, wrong;

static __u8 path[MAX_PATH][2];
static __u32 path_length;

static void print_start(void)
{
	for (__u32 c = 0; c < cpu_count; c++) {
		fprintf(stderr, "  CPU %u:", c);
		for (__u32 i = 0; i < packets; i++)
			fprintf(stderr, " %" PRIu64 ".%" PRIu64 "@%u",
				(uint64_t)copies[c][i].frame / NUMBER_SPACE,
				(uint64_t)copies[c][i].frame % NUMBER_SPACE, copies[c][i].period);
		fputc('\n', stderr);
	}
	fprintf(stderr, "  newest %016" PRIx64 "\n", (uint64_t)newest);
	for (__u32 i = 1; i < location_count; i++)
		fprintf(stderr, "  word of %u: %016" PRIx64 "\n", tracked[i] * DISCARD_NUMBERS,
			(uint64_t)words[tracked[i]]);
	fprintf(stderr, "  accesses (CPU, age of the value):");
	for (__u32 i = 0; i < path_length; i++)
		fprintf(stderr, " %u,%u", path[i][0], path[i][1]);
	fputc('\n', stderr);
}

static void check(void)
{
	ends++;
	for (__u32 i = 0; i < frame_count; i++) {
		__u64 times = world.accepted[i] + frames[i].accepted;
		bool is_close =
		    frames[i].last - frames[i].first + world.late[i] <= 1 && !world.is_late;

		twice += times > 1;
		if (times > 0 && (times == 1 || !is_close || may_pass_twice))
			continue;
		if (!wrong++) {
			fprintf(stderr,
				"%s: frame %" PRIu64 ".%" PRIu64 ": accepted %" PRIu64 " times\n",
				times ? "twice" : "lost", (uint64_t)frames[i].frame / NUMBER_SPACE,
				(uint64_t)frames[i].frame % NUMBER_SPACE, (uint64_t)times);
			print_start();
		}
	}
}

#define HASH_KEYS 160

static __u64 hash_keys[HASH_KEYS];

static size_t world_size(void)
{
	return offsetof(struct world, locations) + location_count * sizeof(struct location);
}

/* NH of UMAC, as in tests/explore. */
static __u64 hash_of_world(void)
{
	const __u64 *value = (const __u64 *)&world;
	size_t count = world_size() / sizeof(__u64);
	unsigned __int128 sum = 0;

	_Static_assert(sizeof(world) / sizeof(__u64) < HASH_KEYS, "a key for each word");
	for (size_t i = 0; i < count; i += 2)
		sum += (unsigned __int128)(value[i] + hash_keys[i]) *
		       (i + 1 < count ? value[i + 1] + hash_keys[i + 1] : 1);
	return mix(mix(1, sum), sum >> 64);
}

/* All interleavings from the present state on. */
static void explore(void)
{
	bool has_ended = true;
	struct world from;

	if (wrong || visit(&visited, hash_of_world(), 0) == VISIT_KNOWN)
		return;
	if (path_length == MAX_PATH)
		fail("more than %d accesses", MAX_PATH);
	memcpy(&from, &world, world_size());
	for (__u32 c = 0; c < cpu_count; c++) {
		if (from.cpus[c].packet == packets)
			continue;
		has_ended = false;
		for (__u32 age = 0; advance(c, age); age++) {
			path[path_length][0] = c;
			path[path_length++][1] = age;
			explore();
			path_length--;
			memcpy(&world, &from, world_size());
		}
		memcpy(&world, &from, world_size());
	}
	if (has_ended)
		check();
}

/* Periods until the next packet: mostly none or one, or a silence. */
static __u32 random_silence(void)
{
	static const __u32 silences[] = {
	    1, 1, 2, 3, 4096, (1 << PERIOD_BITS) - 1, 1 << PERIOD_BITS, (1 << PERIOD_BITS) + 1};

	return silences[random_below(sizeof(silences) / sizeof(*silences))];
}

static void lost(__u64 frame)
{
	fprintf(stderr, "lost: one CPU alone: frame %" PRIu64 ".%" PRIu64 "\n",
		(uint64_t)frame / NUMBER_SPACE, (uint64_t)frame % NUMBER_SPACE);
	exit(1);
}

/* The frames that were accepted before a start. */
static struct copy former[MOST_PACKETS];
static __u32 former_count;

static void add_frame(const struct copy *copy)
{
	__u32 i = 0;

	while (i < frame_count && frames[i].frame != copy->frame)
		i++;
	if (i == frame_count) {
		frames[frame_count].frame = copy->frame;
		frames[frame_count].accepted = 0;
		frames[frame_count].first = frames[frame_count].last = copy->period;
		frame_count++;
	}
	if (copy->period - first_period < frames[i].first - first_period)
		frames[i].first = copy->period;
	if (copy->period - first_period > frames[i].last - first_period)
		frames[i].last = copy->period;
}

/* The first frame of a source that has started again: at any number, also one of a former frame. */
static __u64 restarted_source(__u64 top)
{
	__u64 number = random_below(NUMBER_SPACE);

	if (!random_below(3))
		number = top + NUMBER_SPACE / 2 - random_below(16);
	else if (former_count && random_below(2))
		number =
		    former[former_count - 1 - random_below(former_count < 4 ? former_count : 4)]
			.frame;
	return (top / NUMBER_SPACE + 2) * NUMBER_SPACE + number % NUMBER_SPACE;
}

/* A source from its first packet on; returns the newest frame, and sets the time of the last one.
 */
static __u64 run_source(__u32 *period, bool *is_silent)
{
	static const __u32 bases[] = {0, 1, 8, 32767, 32768, 65520, 65535};
	/* Laps of 12 and of 16 bits wrap around too. */
	static const __u32 laps[] = {1, 2, 4094, 4095, 65534};
	__u64 top = (__u64)laps[random_below(5)] * NUMBER_SPACE;
	__u32 count = random_below(4) ? random_below(MOST_PACKETS) : 0;
	__u32 step = (const __u32[]){2, 5000, 30000}[random_below(3)], silence;

	top += random_below(3) ? bases[random_below(7)] : random_below(NUMBER_SPACE);
	*period = (const __u32[]){
	    0, 1, 7, (1 << PERIOD_BITS) - 2, (1U << 31) - 2, ~0U - 1}[random_below(6)];
	former_count = 0;
	newest = 0;
	memset(words, 0, sizeof(words));
	*is_silent = false;
	if (!count)
		return top;
	/* A source that has run for some laps: its words are of former ones. */
	newest = NEWEST_VALID |
		 (__u64)(*period & ((1U << NEWEST_PERIOD_BITS) - 1)) << NEWEST_PERIOD | (__u32)top;
	for (__u32 i = 0; i < WORDS; i++)
		words[i] = discard_word(random_below(NUMBER_SPACE), random_below(NUMBER_SPACE),
					*period - random_below(4), (top >> 16) - 2);
	for (__u32 i = 0; i < count; i++) {
		struct copy copy;

		silence = random_below(8) ? 0 : random_silence();
		*period += silence;
		top += random_below(step);
		/* The source has started again. */
		if (silence >= FORGET_PERIODS && random_below(2))
			top = restarted_source(top);
		copy = (struct copy){top, *period};
		if (accepts(&copy))
			former[former_count++] = copy;
		else if (!former_count || former[former_count - 1].frame != top)
			lost(top);
	}
	silence = random_below(2) ? 0 : random_silence();
	*period += silence;
	*is_silent = silence >= FORGET_PERIODS;
	if (!*is_silent)
		return top;
	/* What precedes a silence does not arrive after it. */
	return random_below(2) ? restarted_source(top) : top + MAX_PACKETS * MOST_SPREAD;
}

static void start(void)
{
	__u32 period, spread = (const __u32[]){2, 12, 16, MOST_SPREAD}[random_below(4)], late = 0;
	__u32 ahead = random_below(4) ? 0 : random_below(8000);
	bool is_silent;
	__u64 top = run_source(&period, &is_silent);

	first_period = period;
	for (__u32 i = 0; i < packets; i++) {
		top += random_below(4) ? random_below(spread) : 0;
		copies[0][i] = (struct copy){top + ahead, period};
		/* The other paths: the same frames, with delay, loss and reordering. */
		for (__u32 c = 1; c < cpu_count; c++) {
			__u32 from = random_below(i + 1);

			copies[c][i] = copies[0][random_below(2) ? i : from];
			if (!random_below(4))
				copies[c][i].frame -= random_below(spread);
		}
	}
	if (!is_silent && former_count && random_below(2))
		copies[random_below(cpu_count)][random_below(packets)].frame =
		    former[former_count - 1].frame;
	if (beyond) {
		copies[1][packets - 1].frame = copies[0][0].frame - 40000;
		copies[0][packets - 1].frame = copies[1][packets - 1].frame + NUMBER_SPACE;
	}
	/* Each path has its steps of time. */
	for (__u32 c = 0; c < cpu_count; c++) {
		late = period;
		for (__u32 i = 0; i < packets; i++) {
			if (!random_below(4))
				late += random_below(8) ? 1 : random_silence();
			copies[c][i].period = late;
		}
	}
	frame_count = 0;
	location_count = 1;
	for (__u32 c = 0; c < cpu_count; c++)
		for (__u32 i = 0; i < packets; i++) {
			__u32 word = copies[c][i].frame % NUMBER_SPACE / DISCARD_NUMBERS, at = 1;

			add_frame(&copies[c][i]);
			while (at < location_count && tracked[at] != word)
				at++;
			if (at == location_count)
				tracked[location_count++] = word;
		}
	/* The first period of a start may be that of a former copy. */
	for (__u32 i = 0; i < former_count; i++)
		for (__u32 f = 0; f < frame_count; f++)
			if (frames[f].frame == former[i].frame) {
				/* The last time, if the frame was forgotten in between. */
				frames[f].accepted = 1;
				frames[f].first = former[i].period;
			}
	memset(&world, 0, sizeof(world));
	for (__u32 i = 0; i < location_count; i++) {
		world.locations[i].versions[0] = i ? words[tracked[i]] : newest;
		world.locations[i].count = 1;
	}
}

int main(int count, char **arguments)
{
	__u32 starts;

	if (count < 5)
		fail("usage: explore-discard CPUS PACKETS STARTS SEED [fresh|words] [twice] "
		     "[beyond]");
	cpu_count = atoi(arguments[1]);
	packets = atoi(arguments[2]);
	starts = atoi(arguments[3]);
	for (int i = 5; i < count; i++) {
		is_fresh |= !strcmp(arguments[i], "fresh");
		with_words |= !strcmp(arguments[i], "words");
		may_pass_twice |= !strcmp(arguments[i], "twice");
		beyond |= !strcmp(arguments[i], "beyond");
	}
	if (cpu_count < 2 || cpu_count > MAX_CPUS || !packets || packets > MAX_PACKETS ||
	    cpu_count * packets > MAX_FRAMES)
		fail("out of range: %u CPUs, %u packets", cpu_count, packets);
	for (__u32 i = 0; i < HASH_KEYS; i++)
		hash_keys[i] = random_number64();
	seed = strtoull(arguments[4], NULL, 0);
	for (__u32 i = 0; i < starts && !wrong; i++) {
		start();
		explore();
		states += visited.count;
		visited_clear(&visited);
	}
	printf("starts %u states %" PRIu64 " ends %" PRIu64 " twice %" PRIu64 " wrong %" PRIu64
	       "\n",
	       starts, (uint64_t)states, (uint64_t)ends, (uint64_t)twice, (uint64_t)wrong);
	return !!wrong;
}
