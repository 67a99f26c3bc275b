// SPDX-License-Identifier: GPL-2.0-only
/*
 * The virtual interface "ob0": a switch of two ports. Frames that are not claimed pass between the
 * device and the stack as before, through an interface that resembles the device.
 */
#include <linux/etherdevice.h>
#include <net/rtnetlink.h>

#include "compat.h"
#include "port.h"

struct ob_switch {
	struct ob_port *port;
	struct net_device *lower;
	netdevice_tracker lower_tracker;
};

static netdev_tx_t ob_switch_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct ob_switch *own = netdev_priv(dev);
	unsigned int len = skb->len;
	int verdict;

	skb->dev = own->lower;
	verdict = dev_queue_xmit(skb);
	if (net_xmit_eval(verdict))
		DEV_STATS_INC(dev, tx_dropped);
	else
		dev_sw_netstats_tx_add(dev, 1, len);
	return NETDEV_TX_OK;
}

static int ob_switch_init(struct net_device *dev)
{
	struct ob_switch *own = netdev_priv(dev);

	dev->tstats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	if (!dev->tstats)
		return -ENOMEM;
	netdev_lockdep_set_classes(dev);
	netdev_hold(own->lower, &own->lower_tracker, GFP_KERNEL);
	return 0;
}

/* No frame is in transit through the interface any more. */
static void ob_switch_uninit(struct net_device *dev)
{
	struct ob_switch *own = netdev_priv(dev);

	free_percpu(dev->tstats);
	netdev_put(own->lower, &own->lower_tracker);
}

static int ob_switch_open(struct net_device *dev)
{
	struct ob_switch *own = netdev_priv(dev);

	if (dev->flags & IFF_ALLMULTI)
		dev_set_allmulti(own->lower, 1);
	if (dev->flags & IFF_PROMISC)
		dev_set_promiscuity(own->lower, 1);
	return 0;
}

static int ob_switch_stop(struct net_device *dev)
{
	struct ob_switch *own = netdev_priv(dev);

	dev_uc_unsync(own->lower, dev);
	dev_mc_unsync(own->lower, dev);
	if (dev->flags & IFF_ALLMULTI)
		dev_set_allmulti(own->lower, -1);
	if (dev->flags & IFF_PROMISC)
		dev_set_promiscuity(own->lower, -1);
	return 0;
}

static void ob_switch_change_rx_flags(struct net_device *dev, int change)
{
	struct ob_switch *own = netdev_priv(dev);

	if (!(dev->flags & IFF_UP))
		return;
	if (change & IFF_ALLMULTI)
		dev_set_allmulti(own->lower, dev->flags & IFF_ALLMULTI ? 1 : -1);
	if (change & IFF_PROMISC)
		dev_set_promiscuity(own->lower, dev->flags & IFF_PROMISC ? 1 : -1);
}

static void ob_switch_set_rx_mode(struct net_device *dev)
{
	struct ob_switch *own = netdev_priv(dev);

	dev_uc_sync(own->lower, dev);
	dev_mc_sync(own->lower, dev);
}

static int ob_switch_change_mtu(struct net_device *dev, int mtu)
{
	struct ob_switch *own = netdev_priv(dev);

	if (mtu > own->lower->mtu)
		return -ERANGE;
	WRITE_ONCE(dev->mtu, mtu);
	return 0;
}

static int ob_switch_get_iflink(const struct net_device *dev)
{
	const struct ob_switch *own = netdev_priv(dev);

	return READ_ONCE(own->lower->ifindex);
}

static const struct net_device_ops ob_switch_netdev_ops = {
	.ndo_init = ob_switch_init,
	.ndo_uninit = ob_switch_uninit,
	.ndo_open = ob_switch_open,
	.ndo_stop = ob_switch_stop,
	.ndo_start_xmit = ob_switch_xmit,
	.ndo_change_rx_flags = ob_switch_change_rx_flags,
	.ndo_set_rx_mode = ob_switch_set_rx_mode,
	.ndo_change_mtu = ob_switch_change_mtu,
	.ndo_get_iflink = ob_switch_get_iflink,
	.ndo_get_stats64 = dev_get_tstats64,
	.ndo_validate_addr = eth_validate_addr,
};

static void ob_switch_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &ob_switch_netdev_ops;
	dev->rtnl_link_ops = &ob_switch_ops;
	dev->needs_free_netdev = true;
	dev->priv_flags |= IFF_NO_QUEUE;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	/* The stack emulates features that the device lacks when it receives the frame. */
	dev->features |= NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HIGHDMA | NETIF_F_HW_CSUM |
			 NETIF_F_GSO_SOFTWARE;
	dev->hw_features |= dev->features;
	ob_mark_stacked(dev);
}

/* `ip link del ob0`, and the end of the namespace: detaches entirely. */
static void ob_switch_dellink(struct net_device *dev, struct list_head *unregister)
{
	struct ob_switch *own = netdev_priv(dev);

	ob_detach(own->port, unregister);
}

/* Without a setup function: `ip link add` cannot create it. */
struct rtnl_link_ops ob_switch_ops = {
	.kind = "onbeat",
	.dellink = ob_switch_dellink,
};

int ob_switch_create(struct ob_port *port, struct netlink_ext_ack *extack)
{
	struct net_device *lower = port->dev, *dev;
	struct ob_switch *own;
	int err;

	if (!(port->config.flags & ONBEAT_FLAG_SWITCH))
		return 0;
	dev = alloc_netdev(sizeof(*own), "ob%d", NET_NAME_ENUM, ob_switch_setup);
	if (!dev)
		return -ENOMEM;
	own = netdev_priv(dev);
	own->port = port;
	own->lower = lower;
	dev_net_set(dev, dev_net(lower));
	eth_hw_addr_inherit(dev, lower);
	dev->mtu = lower->mtu;
	dev->min_mtu = lower->min_mtu;
	dev->max_mtu = lower->max_mtu;
	netif_carrier_off(dev);
	err = register_netdevice(dev);
	if (err) {
		NL_SET_ERR_MSG(extack, "cannot create the virtual interface");
		free_netdev(dev);
		return err;
	}
	port->switch_dev = dev;
	err = netdev_upper_dev_link(lower, dev, extack);
	if (err) {
		port->switch_dev = NULL;
		unregister_netdevice(dev);
		return err;
	}
	ob_switch_sync(port, NETDEV_CHANGE);
	return 0;
}

void ob_switch_destroy(struct ob_port *port, struct list_head *unregister)
{
	struct net_device *dev = port->switch_dev;

	if (!dev)
		return;
	WRITE_ONCE(port->switch_dev, NULL);
	netdev_upper_dev_unlink(port->dev, dev);
	unregister_netdevice_queue(dev, unregister);
}

/* The state of the device changed: under RTNL. */
void ob_switch_sync(struct ob_port *port, unsigned long event)
{
	struct net_device *lower = port->dev, *dev = port->switch_dev;

	if (!dev)
		return;
	switch (event) {
	case NETDEV_CHANGEMTU:
		dev_set_mtu(dev, lower->mtu);
		break;
	case NETDEV_CHANGEADDR:
		eth_hw_addr_inherit(dev, lower);
		call_netdevice_notifiers(NETDEV_CHANGEADDR, dev);
		break;
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		netif_stacked_transfer_operstate(lower, dev);
		if (!netif_running(lower))
			netif_carrier_off(dev);
		break;
	}
}
