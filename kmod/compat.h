/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the supported kernels, 6.1 and later; only here. */
#ifndef ONBEAT_COMPAT_H
#define ONBEAT_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/netdevice.h>
#include <linux/version.h>
#include <net/genetlink.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
#include <net/netdev_lock.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

/* The device sends without the transmit lock, and stays in its namespace. */
static inline void ob_mark_stacked(struct net_device *dev)
{
#ifdef OB_NETNS_IMMUTABLE
	dev->lltx = true;
	dev->netns_immutable = true;
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
	dev->lltx = true;
	dev->netns_local = true;
#else
	dev->features |= NETIF_F_LLTX | NETIF_F_NETNS_LOCAL;
#endif
}

static inline struct nlattr **ob_dump_attrs(struct netlink_callback *cb)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
	return genl_dumpit_info(cb)->info.attrs;
#else
	return genl_dumpit_info(cb)->attrs;
#endif
}

#endif /* ONBEAT_COMPAT_H */
