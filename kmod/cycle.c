// SPDX-License-Identifier: GPL-2.0-only
/* Launches: once at an instant, or cyclic, by a high-resolution timer per slot. */
#include "compat.h"
#include "port.h"

static void ob_note_delay(struct ob_port *port, u64 delay_ns)
{
	s64 longest = atomic64_read(&port->max_launch_delay_ns);

	while ((s64)delay_ns > longest &&
	       !atomic64_try_cmpxchg(&port->max_launch_delay_ns, &longest, delay_ns))
		;
}

static enum hrtimer_restart ob_timer(struct hrtimer *timer)
{
	struct ob_slot *slot = container_of(timer, struct ob_slot, timer);
	u64 now = ktime_to_ns(hrtimer_cb_get_time(timer));
	enum onbeat_cause cause = slot->plan.period ? ONBEAT_CAUSE_CYCLE : ONBEAT_CAUSE_AT;
	struct ob_due due;
	bool again = ob_plan_due(&slot->plan, now, &due);

	if (now > due.time)
		ob_note_delay(slot->port, now - due.time);
	atomic64_add(due.missed, &slot->counters.missed_cycles);
	atomic64_add(due.missed, &slot->port->counters.missed_cycles);
	ob_send(slot, cause, &due);
	if (!again)
		return HRTIMER_NORESTART;
	hrtimer_set_expires(timer, ns_to_ktime(slot->plan.next));
	return HRTIMER_RESTART;
}

/*
 * The queueing discipline and the drivers' transmit lock must not be used in hard interrupts; only
 * netpoll may. The other modes launch in softirq.
 */
static enum hrtimer_mode ob_timer_mode(const struct ob_port *port)
{
	return port->config.mode == ONBEAT_MODE_NETPOLL ? HRTIMER_MODE_ABS_HARD :
							  HRTIMER_MODE_ABS_SOFT;
}

void ob_timer_init(struct ob_slot *slot)
{
	hrtimer_setup(&slot->timer, ob_timer, slot->port->config.clock, ob_timer_mode(slot->port));
}

/* Replaces the slot's planned launch. */
int ob_launch(struct ob_slot *slot, u64 first, u64 period, struct netlink_ext_ack *extack)
{
	lockdep_assert_held(&slot->port->lock);
	if (first > OB_TIME_MAX || period > OB_TIME_MAX) {
		NL_SET_ERR_MSG(extack, "beyond the range of the kernel's clocks");
		return -ERANGE;
	}
	if (period && period < ONBEAT_MIN_PERIOD_NS) {
		NL_SET_ERR_MSG(extack, "the period is below 10000 ns");
		return -ERANGE;
	}
	hrtimer_cancel(&slot->timer);
	ob_plan_init(&slot->plan, first, period);
	hrtimer_start(&slot->timer, ns_to_ktime(first), ob_timer_mode(slot->port));
	return 0;
}
