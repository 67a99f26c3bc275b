// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flights: transmissions from their begin until the owner was told what became of them. They end
 * in any context, so a work item tells, as many at a time as have ended.
 */
#include <linux/workqueue.h>

#include "port.h"

/* Confirmations in a message at most: it fits a page. */
#define OB_BATCH	64

static struct workqueue_struct *ob_queue;

int ob_confirm_init(void)
{
	/* Unbound: a process that spins with real-time priority holds up only its own CPU. */
	ob_queue = alloc_workqueue("onbeat", WQ_UNBOUND | WQ_HIGHPRI, 0);
	return ob_queue ? 0 : -ENOMEM;
}

void ob_confirm_exit(void)
{
	destroy_workqueue(ob_queue);
}

int ob_flights_init(struct ob_port *port)
{
	unsigned int i;

	raw_spin_lock_init(&port->idle_lock);
	init_llist_head(&port->idle);
	init_llist_head(&port->ended);
	port->flights = kvcalloc(OB_FLIGHTS, sizeof(*port->flights), GFP_KERNEL);
	if (!port->flights)
		return -ENOMEM;
	for (i = 0; i < OB_FLIGHTS; i++) {
		port->flights[i].port = port;
		llist_add(&port->flights[i].node, &port->idle);
	}
	return 0;
}

/* A flight, in which the sender has its part. NULL: as many as there may be are under way. */
struct ob_flight *ob_flight_begin(struct ob_port *port)
{
	struct llist_node *node;
	unsigned long flags;

	raw_spin_lock_irqsave(&port->idle_lock, flags);
	node = llist_del_first(&port->idle);
	raw_spin_unlock_irqrestore(&port->idle_lock, flags);
	if (!node)
		return NULL;
	refcount_inc(&port->users);
	return llist_entry(node, struct ob_flight, node);
}

/* The flight may begin anew. Any context. */
static void ob_flight_idle(struct ob_flight *flight)
{
	struct ob_port *port = flight->port;

	llist_add(&flight->node, &port->idle);
	ob_port_put(port);
}

static void ob_flight_end(struct ob_flight *flight)
{
	struct ob_port *port = flight->port;
	const struct onbeat_confirmation *told = &flight->told;
	bool dropped = told->outcome == ONBEAT_OUTCOME_DROPPED;

	/* Who sends by command learns of a failure at once, the rest from here in any case. */
	if (dropped ? told->cause == ONBEAT_CAUSE_NOW :
		      !(port->config.flags & ONBEAT_FLAG_CONFIRM)) {
		ob_flight_idle(flight);
		return;
	}
	if (llist_add(&flight->node, &port->ended))
		queue_work(ob_queue, &port->tell);
}

/* Whichever of sender and destructor comes last knows what became of the frame. Any context. */
void ob_flight_part(struct ob_flight *flight)
{
	if (atomic_dec_and_test(&flight->parts))
		ob_flight_end(flight);
}

/* Tells of the first flights of the list, and returns the others. */
static struct llist_node *ob_tell_some(struct ob_port *port, struct llist_node *ended)
{
	struct onbeat_confirmation *told;
	unsigned int count = 0, i;
	struct llist_node *node;
	struct sk_buff *message;
	struct nlattr *attr;
	void *header;

	for (node = ended; node && count < OB_BATCH; node = node->next)
		count++;
	message = genlmsg_new(nla_total_size(count * sizeof(*told)), GFP_KERNEL);
	if (!message)
		goto lost;
	header = genlmsg_put(message, 0, 0, &ob_family, 0, ONBEAT_CMD_CONFIRMATIONS);
	attr = header ? nla_reserve(message, ONBEAT_A_CONFIRMATIONS, count * sizeof(*told)) : NULL;
	if (!attr) {
		nlmsg_free(message);
		goto lost;
	}
	told = nla_data(attr);
	for (i = 0, node = ended; i < count; i++, node = node->next)
		memcpy(&told[i], &llist_entry(node, struct ob_flight, node)->told, sizeof(*told));
	genlmsg_end(message, header);
	/* Not waiting: where the owner does not read, its socket is full. */
	if (genlmsg_unicast(read_pnet(&port->net), message, port->config.owner))
		goto lost;
	return node;

lost:
	atomic64_add(count, &port->lost_confirmations);
	for (i = 0, node = ended; i < count; i++)
		node = node->next;
	return node;
}

void ob_tell(struct work_struct *work)
{
	struct ob_port *port = container_of(work, struct ob_port, tell);
	struct llist_node *ended = llist_reverse_order(llist_del_all(&port->ended));
	struct llist_node *node, *next;

	/* The namespace is there until detach has had the lock. */
	mutex_lock(&port->lock);
	for (node = ended; node && !port->dead;)
		node = ob_tell_some(port, node);
	mutex_unlock(&port->lock);
	/* The last may free the port, and this work item with it. */
	llist_for_each_safe(node, next, ended)
		ob_flight_idle(llist_entry(node, struct ob_flight, node));
}
