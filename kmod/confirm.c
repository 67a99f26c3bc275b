// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flights: transmissions from their start until the owner has been notified of their outcome. They
 * end in any context; a work item reports all that have ended, in batches.
 */
#include <linux/workqueue.h>

#include "port.h"

/* Maximum number of confirmations in a message: it fits a page. */
#define OB_BATCH	64

static struct workqueue_struct *ob_queue;

int ob_confirm_init(void)
{
	/* Unbound: a spinning process with real-time priority delays only its own CPU. */
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

/* Starts a flight, with the sender's reference. NULL: all flights are in use. */
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

/* Makes the flight available again. Any context. */
static void ob_flight_idle(struct ob_flight *flight)
{
	struct ob_port *port = flight->port;

	llist_add(&flight->node, &port->idle);
	ob_port_put(port);
}

static void ob_flight_end(struct ob_flight *flight)
{
	struct ob_port *port = flight->port;
	const struct onbeat_confirmation *confirmation = &flight->confirmation;
	bool dropped = confirmation->outcome == ONBEAT_OUTCOME_DROPPED;

	/* A sender by command receives failures at once; all others are reported here. */
	if (dropped ? confirmation->cause == ONBEAT_CAUSE_NOW :
		      !(port->config.flags & ONBEAT_FLAG_CONFIRM)) {
		ob_flight_idle(flight);
		return;
	}
	if (llist_add(&flight->node, &port->ended))
		queue_work(ob_queue, &port->report_work);
}

/* The last of sender and destructor knows the outcome of the frame. Any context. */
void ob_flight_part(struct ob_flight *flight)
{
	if (atomic_dec_and_test(&flight->parts))
		ob_flight_end(flight);
}

/* Reports the first flights of the list, and returns the others. */
static struct llist_node *ob_report_batch(struct ob_port *port, struct llist_node *ended)
{
	struct onbeat_confirmation *confirmation;
	unsigned int count = 0, i;
	struct llist_node *node;
	struct sk_buff *message;
	struct nlattr *attr;
	void *header;

	for (node = ended; node && count < OB_BATCH; node = node->next)
		count++;
	message = genlmsg_new(nla_total_size(count * sizeof(*confirmation)), GFP_KERNEL);
	if (!message)
		goto lost;
	header = genlmsg_put(message, 0, 0, &ob_family, 0, ONBEAT_CMD_CONFIRMATIONS);
	attr = header ? nla_reserve(message, ONBEAT_A_CONFIRMATIONS, count * sizeof(*confirmation)) : NULL;
	if (!attr) {
		nlmsg_free(message);
		goto lost;
	}
	confirmation = nla_data(attr);
	for (i = 0, node = ended; i < count; i++, node = node->next)
		memcpy(&confirmation[i], &llist_entry(node, struct ob_flight, node)->confirmation, sizeof(*confirmation));
	genlmsg_end(message, header);
	/* Does not wait: if the owner does not read, its socket is full. */
	if (genlmsg_unicast(read_pnet(&port->net), message, port->config.owner))
		goto lost;
	return node;

lost:
	atomic64_add(count, &port->lost_confirmations);
	for (i = 0, node = ended; i < count; i++)
		node = node->next;
	return node;
}

void ob_report_confirmations(struct work_struct *work)
{
	struct ob_port *port = container_of(work, struct ob_port, report_work);
	struct llist_node *ended = llist_reverse_order(llist_del_all(&port->ended));
	struct llist_node *node, *next;

	/* The namespace exists until detach has taken the lock. */
	mutex_lock(&port->lock);
	for (node = ended; node && !port->dead;)
		node = ob_report_batch(port, node);
	mutex_unlock(&port->lock);
	/* The last one may free the port, and this work item with it. */
	llist_for_each_safe(node, next, ended)
		ob_flight_idle(llist_entry(node, struct ob_flight, node));
}
