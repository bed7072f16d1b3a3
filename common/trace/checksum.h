/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C, the checksum of iSCSI, ext4 and btrfs: it tells whether a part of a file is whole.
 */
#ifndef IP_CHECKSUM_H
#define IP_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Goes on with a checksum: sum is that of the bytes before, 0 where there are none. */
uint32_t ip_checksum(uint32_t sum, const void *data, size_t size);

#endif
