/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parts of iprobe are that iprobe-cc hands to compilers: beside it in a build folder, or
 * where they were installed. Both are known relative to the program, so that an installation may be
 * moved.
 */
#ifndef COLD_INSTALL_PATHS_H
#define COLD_INSTALL_PATHS_H

/* The file `name` in the first of two folders (relative to ours) that has one which access()
 * grants; its real path, malloc'ed. NULL: in neither. */
char *install_path(const char *in_build, const char *installed, const char *name, int access_mode);

#endif
