/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table by the numbers of linux/capability.h. See capability.h.
 */
#include "access/capability.h"

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"

#define NAME(capability) [capability] = #capability

static const char *const names[] = {
	NAME(CAP_CHOWN),
	NAME(CAP_DAC_OVERRIDE),
	NAME(CAP_DAC_READ_SEARCH),
	NAME(CAP_FOWNER),
	NAME(CAP_FSETID),
	NAME(CAP_KILL),
	NAME(CAP_SETGID),
	NAME(CAP_SETUID),
	NAME(CAP_SETPCAP),
	NAME(CAP_LINUX_IMMUTABLE),
	NAME(CAP_NET_BIND_SERVICE),
	NAME(CAP_NET_BROADCAST),
	NAME(CAP_NET_ADMIN),
	NAME(CAP_NET_RAW),
	NAME(CAP_IPC_LOCK),
	NAME(CAP_IPC_OWNER),
	NAME(CAP_SYS_MODULE),
	NAME(CAP_SYS_RAWIO),
	NAME(CAP_SYS_CHROOT),
	NAME(CAP_SYS_PTRACE),
	NAME(CAP_SYS_PACCT),
	NAME(CAP_SYS_ADMIN),
	NAME(CAP_SYS_BOOT),
	NAME(CAP_SYS_NICE),
	NAME(CAP_SYS_RESOURCE),
	NAME(CAP_SYS_TIME),
	NAME(CAP_SYS_TTY_CONFIG),
	NAME(CAP_MKNOD),
	NAME(CAP_LEASE),
	NAME(CAP_AUDIT_WRITE),
	NAME(CAP_AUDIT_CONTROL),
	NAME(CAP_SETFCAP),
	NAME(CAP_MAC_OVERRIDE),
	NAME(CAP_MAC_ADMIN),
	NAME(CAP_SYSLOG),
	NAME(CAP_WAKE_ALARM),
	NAME(CAP_BLOCK_SUSPEND),
	NAME(CAP_AUDIT_READ),
	NAME(CAP_PERFMON),
	NAME(CAP_BPF),
	NAME(CAP_CHECKPOINT_RESTORE),
};

char *ip_capability_names(uint64_t set)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (unsigned i = 0; out && i < 64; i++) {
		if (!(set >> i & 1))
			continue;
		if (ftell(out))
			fputs(", ", out);
		if (i < sizeof(names) / sizeof(*names))
			fputs(names[i], out);
		else
			fprintf(out, "capability %u", i);
	}
	return out && fclose(out) == 0 ? ip_steal_ptr(text) : NULL;
}
