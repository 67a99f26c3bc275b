/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sequential orders that agree with an interleaving: each operation takes place at once, some
 * time between its start and its end. They are part of the state, as a set that is extended at the
 * end of each operation; what has led to a set is not, so that interleavings with the same set and
 * the same world continue as one.
 */
#ifndef ONBEAT_EXPLORE_ORDERS_H
#define ONBEAT_EXPLORE_ORDERS_H

/* An order, by what it has led to. */
struct order {
	struct reference state;
	__u8 passes[MAX_CPUS * MAX_PACKETS]; /* of each number, at the index of it */
	__u8 times[MAX_CPUS];		     /* of present operations that are in the order */
	__u8 marks;			     /* of the loader */
	__u8 recorded; /* CPUs whose present packet has a claim before a reset, which it follows */
	__u8 claimed;  /* the same, after the reset too */
	bool is_exception; /* there was such a packet */
	bool has_expired;  /* alone: once at most */
};

/* A set: orders[first] and those after it. */
struct order_set {
	size_t first;
	__u32 count;
	__u64 hash;
};

static struct order *orders;
static struct order_set *sets;
static size_t order_count, order_room, set_count, set_room;

/* Sets by hash: 1 + the index, or 0. */
static __u32 *set_index;
static size_t set_index_size;

/* Sets that were extended before: the last ones, by hash. */
#define EXTENSIONS (1 << 16)

static struct extension {
	__u64 hash;
	__u64 set;
} extensions[EXTENSIONS];

static __u64 hash_of_order(const struct order *order)
{
	const __u64 *words = (const __u64 *)order;
	__u64 hash = 1;

	_Static_assert(!(sizeof(*order) % sizeof(*words)), "whole words");
	for (size_t i = 0; i < sizeof(*order) / sizeof(*words); i++)
		hash = mix(hash, words[i]);
	return hash;
}

static void add_order(const struct order *order)
{
	const struct order_set *set = &sets[set_count];

	for (size_t i = set->first; i < order_count; i++)
		if (!memcmp(&orders[i], order, sizeof(*order)))
			return;
	if (order_count == order_room) {
		order_room = order_room ? 2 * order_room : 1024;
		orders = realloc(orders, order_room * sizeof(*orders));
		if (!orders)
			fail("no memory for %zu orders", order_room);
	}
	orders[order_count++] = *order;
}

/* A set starts; add_order adds to it. */
static void start_set(void)
{
	if (set_count + 1 >= set_room) {
		set_room = set_room ? 2 * set_room : 1024;
		sets = realloc(sets, set_room * sizeof(*sets));
		if (!sets)
			fail("no memory for %zu sets", set_room);
	}
	sets[set_count] = (struct order_set){.first = order_count};
}

static void grow_set_index(void)
{
	free(set_index);
	set_index_size = set_index_size ? 4 * set_index_size : 1024;
	set_index = calloc(set_index_size, sizeof(*set_index));
	if (!set_index)
		fail("no memory for %zu sets", set_index_size);
	for (size_t i = 0; i < set_count; i++) {
		size_t at = sets[i].hash & (set_index_size - 1);

		while (set_index[at])
			at = (at + 1) & (set_index_size - 1);
		set_index[at] = i + 1;
	}
}

/* The set has all its orders. Returns its index, or that of an equal one. */
static __u32 end_set(void)
{
	struct order_set *set = &sets[set_count];
	size_t at;

	set->count = order_count - set->first;
	set->hash = set->count;
	for (__u32 i = 0; i < set->count; i++)
		set->hash += hash_of_order(&orders[set->first + i]);
	if (2 * set_count >= set_index_size)
		grow_set_index();
	for (at = set->hash & (set_index_size - 1); set_index[at];
	     at = (at + 1) & (set_index_size - 1)) {
		if (sets[set_index[at] - 1].hash == set->hash) {
			order_count = set->first;
			return set_index[at] - 1;
		}
	}
	set_index[at] = set_count + 1;
	return set_count++;
}

static __u32 begin_orders(const struct reference *state)
{
	struct order order;

	memset(&order, 0, sizeof(order));
	order.state = *state;
	order.state.was_reset = false;
	order_count = set_count = 0;
	memset(extensions, 0, sizeof(extensions));
	memset(set_index, 0, set_index_size * sizeof(*set_index));
	start_set();
	add_order(&order);
	return end_set();
}

/* The index of a number in `passes`. */
static __u32 index_of(__u16 number)
{
	for (__u32 i = 0;; i++)
		if (operations[i / packets][i % packets].number == number)
			return i;
}

/* The operation that ends, and the latest time that a CPU had read by now. */
static __u32 ending;
static __u8 until;

static void place(const struct order *order, __u32 c);
static void record(const struct order *order, __u32 c);
static void expire_alone(const struct order *order);

/* Add all orders in which present operations are appended, the last one of them that which ends. */
static void extend(const struct order *order)
{
	if (order->times[ending]) {
		struct order ended = *order;
		bool is_packet = ending < cpu_count;

		if (is_packet) {
			const struct cpu *cpu = &world.cpus[ending];
			__u8 now = operations[ending][cpu->operation].now;

			if (order->times[ending] != now && order->times[ending] != until)
				return;
		}
		ended.times[ending] = 0;
		add_order(&ended);
		return;
	}
	for (__u32 c = 0; c < cpu_count; c++)
		if (world.cpus[c].accesses && !order->times[c] && !(order->recorded >> c & 1)) {
			place(order, c);
			if (tolerant)
				record(order, c);
		}
	if (tolerant && with_timeout)
		expire_alone(order);
	if (step_count && is_mark() && world.cpus[cpu_count].accesses && !order->times[cpu_count])
		place(order, cpu_count);
}

/* After a reset, packets of before it are judged again. */
static void note_reset(struct order *order)
{
	if (order->state.was_reset)
		order->recorded = 0;
	order->state.was_reset = false;
}

/*
 * The present packet of a CPU claims its number, which others see. A reset supersedes the claim
 * before its commit: the packet is judged again after the reset.
 */
static void record(const struct order *order, __u32 c)
{
	const struct operation *o = &operations[c][world.cpus[c].operation];
	struct order next = *order;

	if (o->kind == RESET || !(with_reset || with_timeout))
		return;
	if (!reference_packet(&next.state, o->number, o->now) || next.state.was_reset)
		return;
	/* The claim precedes the restart of the timer. */
	next.state.restarted = order->state.restarted;
	next.recorded |= 1 << c;
	next.claimed |= 1 << c;
	next.is_exception = true;
	extend(&next);
}

/* The timer expires, and no packet is the first one of the reset. */
static void expire_alone(const struct order *order)
{
	struct order next = *order;

	if (!next.state.running || next.has_expired ||
	    (__s64)(latest_started() - next.state.restarted) < (__s64)next.state.timeout)
		return;
	reference_reset(&next.state);
	note_reset(&next);
	next.is_exception = next.has_expired = true;
	extend(&next);
}

static void place_packet(const struct order *order, __u32 c, __u64 now, __u32 judged_by)
{
	const struct operation *o = &operations[c][world.cpus[c].operation];
	struct order next = *order;
	__u32 present = next.state.length;
	bool pass;

	next.times[c] = now;
	if (o->kind == RESET) {
		reference_reset(&next.state);
	} else {
		next.state.length = judged_by;
		pass = reference_packet(&next.state, o->number, now);
		/* If it is rogue after the reset, its claim stands. */
		pass |= order->claimed >> c & 1 && next.state.rogue != order->state.rogue;
		next.passes[index_of(o->number)] += pass;
		next.state.length = present;
	}
	next.claimed &= ~(1 << c);
	note_reset(&next);
	if (!step_count)
		next.state.moved = 0;
	extend(&next);
	if (!tolerant || !individual || next.state.restarted == order->state.restarted ||
	    memcmp(next.passes, order->passes, sizeof(next.passes)))
		return;
	/* It is discarded, and restarts the timer when that has expired by the time of another. */
	next.state.restarted = order->state.restarted;
	next.is_exception = true;
	extend(&next);
}

/* Append the present operation of a CPU. */
static void place(const struct order *order, __u32 c)
{
	const struct operation *o = &operations[c][world.cpus[c].operation];
	__u64 now = o->now;

	if (c == cpu_count) {
		struct order next = *order;

		next.times[c] = 1;
		if (marks_of())
			reference_set_length(&next.state, length_after);
		else
			next.state.moved = next.state.take_any ? 2 * FRER_MAX_HISTORY : 0;
		next.marks = marks_of() + 1;
		extend(&next);
		return;
	}
	place_packet(order, c, now, order->state.length);
	if (o->kind == RESET)
		return;
	/* It is judged by the length that it has read. */
	if (shorter && order->marks == MARKS && world.cpus[c].marks < MARKS)
		place_packet(order, c, now, length_before);
	/*
	 * Its CPU read the clock and was late: it is a packet of a later time as well, the latest
	 * one that a CPU has read by its end.
	 */
	while (with_timeout && now < latest)
		if (is_time(++now))
			place_packet(order, c, now, order->state.length);
}

/* The operations by which a set is extended, as a hash. */
static __u64 hash_of_operations(__u32 set)
{
	__u64 hash = mix(mix(1, set), (__u64)ending << 8 | until);

	for (__u32 c = 0; c < cpu_count + !!step_count; c++) {
		const struct cpu *cpu = &world.cpus[c];

		hash = mix(hash, cpu->operation << 3 | cpu->marks << 1 | !!cpu->accesses);
	}
	return hash;
}

/* The present operation of a CPU ends. */
static __u32 extended(__u32 set, __u32 c)
{
	struct extension *known;
	__u64 hash;

	ending = c;
	until = c < cpu_count ? latest_started() : 0;
	hash = hash_of_operations(set);
	known = &extensions[hash & (EXTENSIONS - 1)];
	if (known->hash == hash)
		return known->set;
	start_set();
	for (__u32 i = 0; i < sets[set].count; i++) {
		struct order order = orders[sets[set].first + i];

		extend(&order);
	}
	*known = (struct extension){hash, end_set()};
	return known->set;
}

/* Without the orders in which the loader's present step is. */
static __u32 without_step(__u32 set)
{
	start_set();
	for (__u32 i = 0; i < sets[set].count; i++) {
		struct order order = orders[sets[set].first + i];

		if (!order.times[cpu_count])
			add_order(&order);
	}
	return end_set();
}

#endif
