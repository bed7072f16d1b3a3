/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the parts of iprobe that iprobe-cc hands to compilers. They lie beside iprobe-cc in a build
 * folder, or in the place where they were installed. Both places are known relative to the program,
 * so an installation may be moved.
 */
#ifndef COLD_INSTALL_PATHS_H
#define COLD_INSTALL_PATHS_H

/* Looks for the file `name` in two folders (relative to the program's folder). It takes the first
 * one for which access() succeeds. Returns the file's real path, malloc'ed; NULL if neither folder
 * has the file. */
char *install_path(const char *in_build, const char *installed, const char *name, int access_mode);

#endif
