/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files as a whole, or not at all.
 */
#include "cli/export/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"

int cli_output_open(const char *path, struct cli_output *o)
{
	struct stat st;
	bool made;
	int fd;

	*o = (struct cli_output){.place.parent = -1};
	if (ip_dir_locate(path, &o->place) < 0)
		return -1;
	if (fstatat(o->place.parent, o->place.name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISREG(st.st_mode)) {
		ip_dir_place_close(&o->place);
		fd = ip_file_open_output(path, &made);
		if (fd < 0)
			return -1;
		/* a link may lead to a plain file */
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0) {
			close(fd);
			return ip_error_errno("cannot write %s", path);
		}
	} else {
		fd = ip_file_make_beside(&o->place, o->temporary, O_WRONLY);
	}
	o->file = fd < 0 ? NULL : fdopen(fd, "w");
	if (o->file)
		return 0;
	ip_error_errno("cannot write %s", path);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 && *o->temporary)
		unlinkat(o->place.parent, o->temporary, 0);
	ip_dir_place_close(&o->place);
	return -1;
}

int cli_output_close(struct cli_output *o, const char *path, int ret)
{
	bool failed = ferror(o->file);

	failed |= fclose(o->file) != 0;
	if (ret == 0 && failed)
		ret = ip_error_errno("cannot write %s", path);
	if (ret == 0 && *o->temporary &&
	    renameat(o->place.parent, o->temporary, o->place.parent, o->place.name) < 0)
		ret = ip_error_errno("cannot write %s", path);
	if (ret < 0 && *o->temporary)
		unlinkat(o->place.parent, o->temporary, 0);
	ip_dir_place_close(&o->place);
	return ret;
}
