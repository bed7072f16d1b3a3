/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a live log goes: a file, a device, or another machine.
 *
 *   HOST:PORT    a TCP connection; [ADDRESS]:PORT for IPv6
 *   device:PATH  a block or character device
 *   FILE         anything else; a name like HOST:PORT is a file as ./HOST:PORT
 *
 * Nothing that is there is written over by mistake: a file must be new, or empty and our own, with
 * no other name (no link of any kind); no other user may read or write it, and it is locked
 * (flock), so that two logs never go to one file. A block device is taken for ourselves (O_EXCL),
 * which the kernel refuses while it is mounted or in use, and it must be named as a device.
 *
 * What is there is looked at before it is opened for writing (O_PATH), since opening has effects: a
 * device may act, and whoever reads a pipe is told of an end when its writer closes it.
 */
#ifndef IP_LOG_PLACE_H
#define IP_LOG_PLACE_H

#include <stdbool.h>

enum ip_log_place_kind {
	IP_LOG_FILE,
	IP_LOG_DEVICE,
	IP_LOG_CONNECTION,
};

/* Checks the form of a place. Returns its kind, or -1 with an error. */
int ip_log_place_kind(const char *text);

/* Opens the place for writing. A connection is waited for, for some seconds. Returns the descriptor
 * (the caller's), or -1 with an error. *ret_blocks: writing to it blocks, and it can be synced: it
 * is a regular file or a block device. */
int ip_log_place_open(const char *text, bool *ret_blocks);

#endif
