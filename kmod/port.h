/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interfaces between the parts of the module.
 *
 * Locks, outermost first: RTNL (attach, detach, the switch device); port->lock (everything that a
 * command changes, and sending by command). Receive and timers take neither: they read slots,
 * responses and groups under RCU.
 */
#ifndef ONBEAT_PORT_H
#define ONBEAT_PORT_H

#include <linux/hrtimer.h>
#include <linux/if_ether.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/netpoll.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/genetlink.h>

#include "pure.h"

/* Maximum number of pending frames and unreported confirmations, together, per attachment. */
#define OB_FLIGHTS	512

struct ob_port;

/* A transmission from its start until its outcome is reported. */
struct ob_flight {
	struct llist_node node;
	struct ob_port *port;
	/* The sender and the frame's destructor; the last of them ends the flight. */
	atomic_t parts;
	struct onbeat_confirmation confirmation;
};

/* A slot's frame; an update replaces it. */
struct ob_frame {
	struct rcu_head rcu;
	u64 cookie;
	u16 len;
	u8 octets[];
};

struct ob_counters {
	atomic64_t sent;
	atomic64_t send_failures;
	atomic64_t responses;
	atomic64_t missed_cycles;
};

struct ob_slot {
	struct ob_port *port;
	struct ob_frame __rcu *frame;
	struct ob_counters counters;
	/* Owned by the timer, changed only while it does not run. */
	struct ob_plan plan;
	struct hrtimer timer;
	u32 id;
	/* Responses that refer to this slot. */
	u32 responses;
	struct rcu_head rcu;
};

/* Multicast addresses whose frames may be answered. */
struct ob_groups {
	struct rcu_head rcu;
	u16 count;
	u8 addresses[][ETH_ALEN];
};

struct ob_config {
	enum onbeat_mode mode;
	clockid_t clock;
	u32 flags;
	u32 owner;
	u16 ether_type_count;
	__be16 ether_types[ONBEAT_MAX_ETHER_TYPES];
};

/* An attachment. */
struct ob_port {
	struct list_head list;
	struct ob_config config;
	/* All three are valid until dead is set. */
	possible_net_t net;
	struct net_device *dev;
	struct net_device *switch_dev;
	netdevice_tracker dev_tracker;
	struct netpoll *netpoll;
	int ifindex;

	struct mutex lock;
	bool dead;
	struct xarray slots;
	struct list_head responses;
	u32 response_count;
	struct ob_groups __rcu *groups;

	struct ob_counters counters;
	atomic64_t claimed;
	atomic64_t passed;
	atomic64_t lost_confirmations;
	atomic64_t max_launch_delay_ns;

	/* Serializes allocation; release needs no lock. */
	raw_spinlock_t idle_lock;
	struct llist_head idle;
	struct llist_head ended;
	struct work_struct report_work;
	struct ob_flight *flights;

	/* The attachment, each flight, each running command. */
	refcount_t users;
	struct rcu_head rcu;
};

/* attach.c */
int ob_attach(struct net_device *dev, const struct ob_config *config,
	      struct netlink_ext_ack *extack);
void ob_detach(struct ob_port *port, struct list_head *unregister);
struct ob_port *ob_port_of(const struct net_device *dev);
struct ob_port *ob_port_get(const struct net *net, int ifindex);
void ob_port_put(struct ob_port *port);
void ob_detach_owned_by(const struct net *net, u32 owner);
void ob_detach_all(void);
void ob_wait_for_ports(void);

extern struct list_head ob_ports;

/* rx.c */
rx_handler_result_t ob_receive(struct sk_buff **pskb);

/* tx.c */
int ob_netpoll_open(struct ob_port *port, struct netlink_ext_ack *extack);
void ob_netpoll_close(struct ob_port *port);
int ob_send(struct ob_slot *slot, enum onbeat_cause cause, const struct ob_due *due);

/* confirm.c */
int ob_confirm_init(void);
void ob_confirm_exit(void);
int ob_flights_init(struct ob_port *port);
struct ob_flight *ob_flight_begin(struct ob_port *port);
void ob_flight_part(struct ob_flight *flight);
void ob_report_confirmations(struct work_struct *work);

/* slot.c */
struct ob_slot *ob_slot_find(struct ob_port *port, u32 id, struct netlink_ext_ack *extack);
int ob_slot_set(struct ob_port *port, u32 id, u64 cookie, const struct nlattr *frame,
		struct netlink_ext_ack *extack);
int ob_slot_free(struct ob_port *port, u32 id, struct netlink_ext_ack *extack);
void ob_slots_free_all(struct ob_port *port);

/* cycle.c */
void ob_timer_init(struct ob_slot *slot);
int ob_launch(struct ob_slot *slot, u64 first, u64 period, struct netlink_ext_ack *extack);

/* respond.c */
bool ob_respond(struct ob_port *port, const struct sk_buff *skb);
int ob_response_add(struct ob_port *port, struct ob_slot *slot, u64 id,
		    const struct ob_filter *filter, struct netlink_ext_ack *extack);
int ob_response_stop(struct ob_port *port, u64 id, struct netlink_ext_ack *extack);
int ob_groups_set(struct ob_port *port, const struct nlattr *addresses,
		  struct netlink_ext_ack *extack);
void ob_responses_free_all(struct ob_port *port);

/* switch.c */
extern struct rtnl_link_ops ob_switch_ops;
int ob_switch_create(struct ob_port *port, struct netlink_ext_ack *extack);
void ob_switch_destroy(struct ob_port *port, struct list_head *unregister);
void ob_switch_sync(struct ob_port *port, unsigned long event);

/* genl.c, report.c */
extern struct genl_family ob_family;
int ob_report_port(struct sk_buff *request, struct genl_info *info);
int ob_dump_ports(struct sk_buff *message, struct netlink_callback *cb);
int ob_dump_slots(struct sk_buff *message, struct netlink_callback *cb);

/* selftest.c */
int ob_selftest(void);

#endif /* ONBEAT_PORT_H */
