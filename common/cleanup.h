/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releases resources at the end of a scope, so that an early return needs no chain of gotos.
 *
 *   _cleanup_free_ char *name = NULL;      freed on every way out of the scope
 *   _cleanup_close_ int fd = -1;           closed if it is >= 0
 *   return ip_steal_ptr(name);             passes the pointer on; nothing is freed
 */
#ifndef IP_CLEANUP_H
#define IP_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

static inline void ip_cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void ip_cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void ip_cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline void ip_cleanup_closedir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

#define _cleanup_free_	   _cleanup_(ip_cleanup_free)
#define _cleanup_close_	   _cleanup_(ip_cleanup_close)
#define _cleanup_fclose_   _cleanup_(ip_cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(ip_cleanup_closedir)

#define ip_steal_ptr(p)                                                                            \
	__extension__({                                                                            \
		__typeof__(p) stolen_ = (p);                                                       \
		(p) = NULL;                                                                        \
		stolen_;                                                                           \
	})

static inline int ip_steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

#endif
