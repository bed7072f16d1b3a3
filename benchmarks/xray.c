/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked to what benchmarks/peers builds for XRay (with -Wl,--wrap=main): its flight data recorder
 * neither starts nor writes its file by itself, and is not there yet when constructors run. Its
 * options: the environment's XRAY_FDR_OPTIONS.
 */
#include <stdlib.h>

/* clang's xray/xray_interface.h and xray_log_interface.h; they return enums */
int __xray_log_select_mode(const char *mode);
int __xray_log_init_mode(const char *mode, const char *config);
int __xray_patch(void);
int __xray_unpatch(void);
int __xray_log_finalize(void);
int __xray_log_flushLog(void);

int __real_main(int argc, char **argv);

__attribute__((xray_never_instrument)) static void end(void)
{
	__xray_unpatch();
	__xray_log_finalize();
	__xray_log_flushLog();
}

__attribute__((xray_never_instrument)) int __wrap_main(int argc, char **argv)
{
	__xray_log_select_mode("xray-fdr");
	__xray_log_init_mode("xray-fdr", getenv("XRAY_FDR_OPTIONS"));
	__xray_patch();
	atexit(end);
	return __real_main(argc, argv);
}
