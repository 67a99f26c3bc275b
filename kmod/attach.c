// SPDX-License-Identifier: GPL-2.0-only
/* Attaching to a device, and restoring it on detach. */
#include <linux/if_arp.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>
#include <linux/wait.h>

#include "port.h"

/* Written under RTNL, read under RCU. */
LIST_HEAD(ob_ports);

/* Attachments whose memory is still in use, even if only by a frame in a driver's queue. */
static atomic_t ob_ports_alive;
static DECLARE_WAIT_QUEUE_HEAD(ob_ports_gone);

static int ob_check_device(const struct net_device *dev, struct netlink_ext_ack *extack)
{
	if (dev->type != ARPHRD_ETHER || dev->flags & IFF_LOOPBACK) {
		NL_SET_ERR_MSG(extack, "not an Ethernet interface");
		return -EINVAL;
	}
	if (dev->rtnl_link_ops == &ob_switch_ops) {
		NL_SET_ERR_MSG(extack, "this is the virtual interface of another attachment");
		return -EINVAL;
	}
	if (ob_port_of(dev)) {
		NL_SET_ERR_MSG(extack, "onbeat is already attached to this interface");
		return -EBUSY;
	}
	if (netdev_is_rx_handler_busy((struct net_device *)dev)) {
		NL_SET_ERR_MSG(extack, "the interface belongs to a bridge, bond, team, macvlan or the like; remove it from there first");
		return -EBUSY;
	}
	return 0;
}

static struct ob_port *ob_port_alloc(struct net_device *dev, const struct ob_config *config)
{
	struct ob_port *port = kzalloc(sizeof(*port), GFP_KERNEL);

	if (!port)
		return NULL;
	port->config = *config;
	port->dev = dev;
	port->ifindex = dev->ifindex;
	write_pnet(&port->net, dev_net(dev));
	mutex_init(&port->lock);
	xa_init(&port->slots);
	INIT_LIST_HEAD(&port->responses);
	INIT_WORK(&port->report_work, ob_report_confirmations);
	refcount_set(&port->users, 1);
	if (ob_flights_init(port)) {
		kfree(port);
		return NULL;
	}
	atomic_inc(&ob_ports_alive);
	return port;
}

static void ob_port_free(struct rcu_head *rcu)
{
	struct ob_port *port = container_of(rcu, struct ob_port, rcu);

	kvfree(port->flights);
	kfree(port);
	if (atomic_dec_and_test(&ob_ports_alive))
		wake_up(&ob_ports_gone);
}

/* Any context. */
void ob_port_put(struct ob_port *port)
{
	if (refcount_dec_and_test(&port->users))
		call_rcu(&port->rcu, ob_port_free);
}

int ob_attach(struct net_device *dev, const struct ob_config *config,
	      struct netlink_ext_ack *extack)
{
	struct ob_port *port;
	int err;

	ASSERT_RTNL();
	err = ob_check_device(dev, extack);
	if (err)
		return err;
	port = ob_port_alloc(dev, config);
	if (!port)
		return -ENOMEM;
	err = ob_netpoll_open(port, extack);
	if (err)
		goto put;
	err = ob_switch_create(port, extack);
	if (err)
		goto netpoll;
	err = netdev_rx_handler_register(dev, ob_receive, port);
	if (err) {
		NL_SET_ERR_MSG(extack, "the interface does not support receive handlers");
		goto destroy;
	}
	netdev_hold(dev, &port->dev_tracker, GFP_KERNEL);
	list_add_tail_rcu(&port->list, &ob_ports);
	return 0;

destroy:
	ob_switch_destroy(port, NULL);
netpoll:
	ob_netpoll_close(port);
put:
	ob_port_put(port);
	return err;
}

/* The caller unregisters the queued devices; NULL: at once. */
void ob_detach(struct ob_port *port, struct list_head *unregister)
{
	ASSERT_RTNL();
	/* No command finds the port any more, and running commands have finished. */
	list_del_rcu(&port->list);
	mutex_lock(&port->lock);
	port->dead = true;
	mutex_unlock(&port->lock);
	/* Waits for frames being received. */
	netdev_rx_handler_unregister(port->dev);
	ob_responses_free_all(port);
	ob_slots_free_all(port);
	/* Nothing sends any more. */
	ob_switch_destroy(port, unregister);
	ob_netpoll_close(port);
	netdev_put(port->dev, &port->dev_tracker);
	ob_port_put(port);
}

/* Returns the attachment of the device. */
struct ob_port *ob_port_of(const struct net_device *dev)
{
	ASSERT_RTNL();
	if (rtnl_dereference(dev->rx_handler) != ob_receive)
		return NULL;
	return rtnl_dereference(dev->rx_handler_data);
}

/* The caller must take port->lock, and check dead. */
struct ob_port *ob_port_get(const struct net *net, int ifindex)
{
	struct ob_port *port;

	rcu_read_lock();
	list_for_each_entry_rcu(port, &ob_ports, list) {
		if (port->ifindex == ifindex && net_eq(read_pnet(&port->net), net) &&
		    refcount_inc_not_zero(&port->users)) {
			rcu_read_unlock();
			return port;
		}
	}
	rcu_read_unlock();
	return NULL;
}

static void ob_detach_where(const struct net *net, u32 owner)
{
	struct ob_port *port, *next;
	LIST_HEAD(unregister);

	rtnl_lock();
	list_for_each_entry_safe(port, next, &ob_ports, list) {
		if (!net || (net_eq(read_pnet(&port->net), net) && port->config.owner == owner))
			ob_detach(port, &unregister);
	}
	unregister_netdevice_many(&unregister);
	rtnl_unlock();
}

void ob_detach_owned_by(const struct net *net, u32 owner)
{
	struct ob_port *port;
	bool owns = false;

	/* Most closed sockets own nothing: they must not wait for RTNL. */
	rcu_read_lock();
	list_for_each_entry_rcu(port, &ob_ports, list)
		owns |= net_eq(read_pnet(&port->net), net) && port->config.owner == owner;
	rcu_read_unlock();
	if (owns)
		ob_detach_where(net, owner);
}

void ob_detach_all(void)
{
	ob_detach_where(NULL, 0);
}

void ob_wait_for_ports(void)
{
	wait_event(ob_ports_gone, !atomic_read(&ob_ports_alive));
	rcu_barrier();
	/* A destructor that was preempted on its last instructions. */
	synchronize_rcu_tasks();
}
