// SPDX-License-Identifier: GPL-2.0-only
/*
 * onbeat: a real-time port on any Ethernet device, with its existing driver.
 *
 * Initialization and its reverse. The files are named for a frame's path: rx.c, respond.c,
 * cycle.c, tx.c, confirm.c.
 */
#include <linux/module.h>
#include <linux/netlink.h>
#include <net/rtnetlink.h>

#include "port.h"

static bool selftest;
module_param(selftest, bool, 0444);
MODULE_PARM_DESC(selftest, "Test filters and cycles first; refuse to load if a test fails");

static int ob_device_event(struct notifier_block *block, unsigned long event, void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);
	struct ob_port *port = ob_port_of(dev);

	if (!port)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_UNREGISTER: {
		LIST_HEAD(unregister);

		ob_detach(port, &unregister);
		unregister_netdevice_many(&unregister);
		break;
	}
	case NETDEV_PRE_TYPE_CHANGE:
		/* Attachments require an Ethernet header. */
		return NOTIFY_BAD;
	default:
		ob_switch_sync(port, event);
	}
	return NOTIFY_DONE;
}

static struct notifier_block ob_device_notifier = { .notifier_call = ob_device_event };

/* A closed socket, also by kill -9, detaches everything that it attached. */
static int ob_netlink_event(struct notifier_block *block, unsigned long event, void *info)
{
	const struct netlink_notify *closed = info;

	if (event == NETLINK_URELEASE && closed->protocol == NETLINK_GENERIC)
		ob_detach_owned_by(closed->net, closed->portid);
	return NOTIFY_DONE;
}

static struct notifier_block ob_netlink_notifier = { .notifier_call = ob_netlink_event };

static int __init ob_init(void)
{
	int err;

	if (selftest) {
		err = ob_selftest();
		if (err)
			return err;
	}
	err = ob_confirm_init();
	if (err)
		return err;
	err = rtnl_link_register(&ob_switch_ops);
	if (err)
		goto confirm;
	err = register_netdevice_notifier(&ob_device_notifier);
	if (err)
		goto link;
	err = netlink_register_notifier(&ob_netlink_notifier);
	if (err)
		goto device;
	err = genl_register_family(&ob_family);
	if (err)
		goto netlink;
	return 0;

netlink:
	netlink_unregister_notifier(&ob_netlink_notifier);
device:
	unregister_netdevice_notifier(&ob_device_notifier);
link:
	rtnl_link_unregister(&ob_switch_ops);
confirm:
	ob_confirm_exit();
	return err;
}

static void __exit ob_exit(void)
{
	/* No process can attach any more. */
	genl_unregister_family(&ob_family);
	ob_detach_all();
	netlink_unregister_notifier(&ob_netlink_notifier);
	unregister_netdevice_notifier(&ob_device_notifier);
	rtnl_link_unregister(&ob_switch_ops);
	/* Drivers and queues still hold frames whose destructor is in this module. */
	ob_wait_for_ports();
	ob_confirm_exit();
}

module_init(ob_init);
module_exit(ob_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("The onbeat authors");
MODULE_DESCRIPTION("Real-time port on any Ethernet device");
MODULE_VERSION(OB_VERSION);
MODULE_ALIAS_GENL_FAMILY(ONBEAT_GENL_NAME);
MODULE_ALIAS_RTNL_LINK("onbeat");
