/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the area a target has mapped. A runtime that iprobe has put into a process maps a
 * small part of it at first, since address space may be limited (RLIMIT_AS), and counts as memory
 * for who looks at VmSize. A thread that is borrowed maps more (runtime/area_window.c):
 *
 *   1. The tracer holds the session lock of the area and, for the moment, the lock of the process
 *      (ip_borrow_lock()). It knows from the maps what is mapped.
 *   2. A borrowed thread maps the rest, beyond the end of the file for now. It raises no bounds of
 *      the hooks (bounds.h), and unmaps nothing, so hooks in flight notice nothing: no hook goes
 *      beyond its bounds, whatever is mapped there.
 *   3. The tracer reads the maps again. What it finds there counts, not what the thread says.
 *   4. The session begins (ip_area_begin()): the file becomes as long as the session needs, and
 *      sub-buffers of the new part are allocated.
 *   5. The tracer raises the bounds, up to the end of the file or of what is mapped, whichever
 * comes first (ip_bounds_write()). The gate is still closed. So a hook never reaches an address
 *      beyond the end of the file, where an access is a SIGBUS. Then the gate opens.
 *
 * If the tracer is killed after 2, the target has more mapped than it needs: the next session finds
 * and uses it. All that a session needs is mapped before its gate opens: a burst fills the rings
 * faster than a thread is borrowed. A session that logs needs the rings that it was promised, one
 * that counts, measures, filters or records values needs the tables, too.
 *
 * At the end of the session the target gets the address space back:
 *
 *   6. The gate is closed, no site is live, and the tracer has the session lock and the lock of the
 *      process. A process that may be under seccomp keeps all, since it cannot be asked again.
 *   7. No thread is in a hook (late_hooks.h). If that is not known, all stays as it is, until the
 *      next session ends or iprobe detach finds it out.
 *   8. A borrowed thread lowers the bounds of the hooks, and unmaps the tables and what lies behind
 *      the first part. iprobe detach --remove has it unmap the area, but for the first covers, and
 *      all pools. The process is then like a forked child that has no area (area_renew.h). The code
 *      and data of the runtime stay: a thread may sleep in a system call that iprobe has renewed.
 *
 * If the tracer is killed in 8, the thread goes on alone; what is mapped then tells how far it
 * came.
 *
 * A process that is under seccomp cannot be asked for more later, nor can a 32-bit one. So such a
 * process has all of the area mapped from the start.
 */
#ifndef IP_AREA_WINDOW_H
#define IP_AREA_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/inject/inject.h"
#include "hotpatcher/process/modules.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"

/* How much a runtime maps that is put into the target now, with these modules. memory: what a
 * session has that logs, so that it need not ask for more; 0: no session is known yet. */
struct ip_inject_room ip_area_window_first(const struct ip_target *target,
					   const struct ip_modules *modules, uint64_t memory);

/* Has the target map the area up to `size` bytes from its start, and the tables if tables is set,
 * as far as it has not. The caller holds the session lock. 0, or -1 with the reason. The hold
 * counts as a look of the target. */
int ip_area_window_fit(struct ip_target *target, struct ip_area *area, uint64_t size, bool tables);

/* At the end of a session: steps 6 to 8. The caller holds the session lock. may_stop: running
 * threads may be stopped, one by one. 0; -1 with the reason: all is mapped as it was. */
int ip_area_window_give(struct ip_target *target, struct ip_area *area, bool may_stop);

/* Has the target unmap all that iprobe has mapped but the runtime itself. Returns as
 * ip_area_window_give(); the area is of no use afterwards. */
int ip_area_window_remove(struct ip_target *target, const struct ip_area *area, bool may_stop);

#endif
