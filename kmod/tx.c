// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sending a slot: each transmission has its own buffer, so that neither an update nor a driver
 * that pads in place affects another transmission of the same slot.
 *
 *   context                        direct          queue             netpoll
 *   command: process               direct          dev_queue_xmit    netpoll
 *   response: softirq              direct          dev_queue_xmit    direct
 *   launch: timer                  direct          dev_queue_xmit    netpoll
 *           in                     softirq         softirq           hard interrupt
 *
 * Responses never use netpoll: within the device's own NAPI poll, where frames are received,
 * netpoll does not call the driver, and leaves the frame to a work item.
 */
#include <linux/etherdevice.h>
#include <linux/pkt_sched.h>
#include <linux/skbuff.h>

#include "compat.h"
#include "port.h"

/* The frame's memory is released: by the driver after transmission, or on drop. */
static void ob_released(struct sk_buff *skb)
{
	struct ob_flight *flight = skb_shinfo(skb)->destructor_arg;

	flight->confirmation.released_ns = ktime_get_real_ns();
	ob_flight_part(flight);
}

static struct sk_buff *ob_buffer(const struct ob_port *port, const struct ob_frame *frame)
{
	struct net_device *dev = port->dev;
	/* Room for headers of a driver, and for padding to the minimum length. */
	unsigned int tail = max_t(int, ETH_ZLEN - frame->len, 0) + dev->needed_tailroom;
	struct sk_buff *skb;

	skb = alloc_skb(LL_RESERVED_SPACE(dev) + frame->len + tail, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, LL_RESERVED_SPACE(dev));
	skb_put_data(skb, frame->octets, frame->len);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = eth_hdr(skb)->h_proto;
	skb->priority = TC_PRIO_CONTROL;
	skb->dev = dev;
	return skb;
}

static int ob_transmit_direct(struct net_device *dev, struct sk_buff *skb)
{
	u16 queue;

	if (dev->netdev_ops->ndo_select_queue)
		queue = netdev_cap_txqueue(dev, dev->netdev_ops->ndo_select_queue(dev, skb, NULL));
	else
		queue = netdev_pick_tx(dev, skb, NULL);
	return dev_direct_xmit(skb, queue) ? -ENOBUFS : 0;
}

static int ob_transmit_queue(struct sk_buff *skb)
{
	int verdict = dev_queue_xmit(skb);

	return verdict > 0 ? net_xmit_errno(verdict) : verdict;
}

/* Consumes the buffer. */
static int ob_transmit(const struct ob_port *port, struct sk_buff *skb, enum onbeat_cause cause)
{
	struct net_device *dev = port->dev;
	int err = 0;

	/* Without these the queueing discipline would drop the frame and report congestion. */
	if (!netif_running(dev))
		err = -ENETDOWN;
	else if (!netif_carrier_ok(dev))
		err = -ENOBUFS;
	if (err) {
		dev_kfree_skb_any(skb);
		return err;
	}
	switch (port->config.mode) {
	case ONBEAT_MODE_QUEUE:
		return ob_transmit_queue(skb);
#ifdef CONFIG_NETPOLL
	case ONBEAT_MODE_NETPOLL:
		if (cause != ONBEAT_CAUSE_RESPONSE)
			return netpoll_send_skb(port->netpoll, skb) ? -ENOBUFS : 0;
		fallthrough;
#endif
	default:
		return ob_transmit_direct(dev, skb);
	}
}

static int ob_send_flight(const struct ob_port *port, const struct ob_frame *frame,
		  struct ob_flight *flight)
{
	struct sk_buff *skb = ob_buffer(port, frame);
	int err;

	if (!skb) {
		atomic_set(&flight->parts, 1);
		return -ENOMEM;
	}
	atomic_set(&flight->parts, 2);
	skb_shinfo(skb)->destructor_arg = flight;
	skb->destructor = ob_released;
	err = ob_transmit(port, skb, flight->confirmation.cause);
	if (!err)
		flight->confirmation.outcome = ONBEAT_OUTCOME_SENT;
	return err;
}

/*
 * Sends the slot's present frame. Process context with port->lock, softirq, or with netpoll the
 * hard interrupt of a timer.
 */
int ob_send(struct ob_slot *slot, enum onbeat_cause cause, const struct ob_due *due)
{
	struct ob_port *port = slot->port;
	const struct ob_frame *frame;
	struct ob_flight *flight;
	int err = -ENOBUFS;

	rcu_read_lock();
	frame = rcu_dereference(slot->frame);
	flight = frame ? ob_flight_begin(port) : NULL;
	if (flight) {
		flight->confirmation = (struct onbeat_confirmation){
			.cookie = frame->cookie,
			.slot = slot->id,
			.cause = cause,
			.outcome = ONBEAT_OUTCOME_DROPPED,
			.number = due ? due->number : 0,
			.due_ns = due ? due->time : 0,
		};
		err = ob_send_flight(port, frame, flight);
		ob_flight_part(flight);
	} else {
		atomic64_inc(&port->lost_confirmations);
	}
	rcu_read_unlock();
	atomic64_inc(err ? &slot->counters.send_failures : &slot->counters.sent);
	atomic64_inc(err ? &port->counters.send_failures : &port->counters.sent);
	if (cause == ONBEAT_CAUSE_RESPONSE && !err) {
		atomic64_inc(&slot->counters.responses);
		atomic64_inc(&port->counters.responses);
	}
	return err;
}

#ifdef CONFIG_NETPOLL
int ob_netpoll_open(struct ob_port *port, struct netlink_ext_ack *extack)
{
	struct netpoll *netpoll;
	int err;

	if (port->config.mode != ONBEAT_MODE_NETPOLL)
		return 0;
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		NL_SET_ERR_MSG(extack, "netpoll sends with interrupts disabled, where the locks of a PREEMPT_RT kernel would sleep; use direct or queue");
		return -EOPNOTSUPP;
	}
	netpoll = kzalloc(sizeof(*netpoll), GFP_KERNEL);
	if (!netpoll)
		return -ENOMEM;
	netpoll->name = "onbeat";
	strscpy(netpoll->dev_name, port->dev->name, IFNAMSIZ);
	err = __netpoll_setup(netpoll, port->dev);
	if (err) {
		kfree(netpoll);
		NL_SET_ERR_MSG(extack, "the interface's driver does not support netpoll; use direct or queue");
		/* The kernel's ENOTSUPP must not reach user space. */
		return err == -ENOTSUPP ? -EOPNOTSUPP : err;
	}
	port->netpoll = netpoll;
	return 0;
}

/* Waits for transmissions; frames that netpoll left to its work item are dropped. */
void ob_netpoll_close(struct ob_port *port)
{
	if (port->netpoll)
		__netpoll_free(port->netpoll);
	port->netpoll = NULL;
}
#else
int ob_netpoll_open(struct ob_port *port, struct netlink_ext_ack *extack)
{
	if (port->config.mode != ONBEAT_MODE_NETPOLL)
		return 0;
	NL_SET_ERR_MSG(extack, "this kernel lacks netpoll (CONFIG_NETPOLL); use direct or queue");
	return -EOPNOTSUPP;
}

void ob_netpoll_close(struct ob_port *port)
{
}
#endif
