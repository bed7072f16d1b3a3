/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the policy file and decides what it allows. See policy.h.
 */
#include "access/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "config/yaml_tree.h"

static const char *const file_keys[] = {"members", "kernel", NULL};
static const char *const kernel_keys[] = {"users", "groups", NULL};
static const char *const entry_keys[] = {"users", "programs", NULL};

static void clear_entry(struct ip_policy_entry *entry)
{
	for (size_t i = 0; i < entry->nprograms; i++)
		free(entry->programs[i]);
	free(entry->programs);
	free(entry->users);
}

void ip_policy_clear(struct ip_policy *policy)
{
	for (size_t i = 0; i < policy->n; i++)
		clear_entry(&policy->entries[i]);
	free(policy->entries);
	free(policy->kernel.users);
	free(policy->kernel.groups);
	*policy = (struct ip_policy){0};
}

/* Whether a text is a number of a user or group. */
static bool is_number(const char *text, uint32_t *ret)
{
	unsigned long number;
	char *end;

	errno = 0;
	number = strtoul(text, &end, 10);
	*ret = number;
	return *text >= '0' && *text <= '9' && !*end && !errno && number < UINT32_MAX;
}

/* Reads a user: a name or a number. */
static int read_user(const struct ip_yaml_document *document, const struct ip_yaml *node,
		     uid_t *ret)
{
	const char *text = ip_yaml_text(document, node, "a user");
	const struct passwd *known;

	if (!text)
		return -1;
	if (!is_number(text, ret)) {
		known = getpwnam(text);
		if (!known)
			return ip_yaml_error(document, node, "no user '%.64s'", text);
		*ret = known->pw_uid;
	}
	return *ret ? 0 : ip_yaml_error(document, node, "root's processes are for root alone");
}

static int read_group(const struct ip_yaml_document *document, const struct ip_yaml *node,
		      gid_t *ret)
{
	const char *text = ip_yaml_text(document, node, "a group");
	const struct group *known;

	if (!text)
		return -1;
	if (is_number(text, ret))
		return 0;
	known = getgrnam(text);
	if (!known)
		return ip_yaml_error(document, node, "no group '%.64s'", text);
	*ret = known->gr_gid;
	return 0;
}

static int read_program(const struct ip_yaml_document *document, const struct ip_yaml *node,
			char **ret)
{
	const char *text = ip_yaml_text(document, node, "a program");

	if (!text)
		return -1;
	if (*text != '/')
		return ip_yaml_error(document, node,
				     "a program is a glob of whole paths, which begins with '/'");
	*ret = strdup(text);
	return *ret ? 0 : ip_error("out of memory");
}

static int check_list(const struct ip_yaml_document *document, const struct ip_yaml *node,
		      const char *what)
{
	return node->kind == IP_YAML_LIST && node->n
		       ? 0
		       : ip_yaml_error(document, node, "%s are a list: [A, B]", what);
}

static int read_entry(const struct ip_yaml_document *document, const struct ip_yaml *node,
		      struct ip_policy_entry *ret)
{
	const struct ip_yaml *users, *programs;

	if (ip_yaml_check_map(document, node, "an entry for members", entry_keys) < 0)
		return -1;
	users = ip_yaml_get(node, "users");
	programs = ip_yaml_get(node, "programs");
	if (!users)
		return ip_yaml_error(document, node, "an entry for members needs users");
	if (check_list(document, users, "users") < 0 ||
	    (programs && check_list(document, programs, "programs") < 0))
		return -1;
	for (size_t i = 0; i < users->n; i++) {
		if (ip_array_grow(&ret->users, ret->nusers, sizeof(*ret->users)) < 0 ||
		    read_user(document, users->items[i], &ret->users[ret->nusers]) < 0)
			return -1;
		ret->nusers++;
	}
	for (size_t i = 0; programs && i < programs->n; i++) {
		if (ip_array_grow(&ret->programs, ret->nprograms, sizeof(*ret->programs)) < 0 ||
		    read_program(document, programs->items[i], &ret->programs[ret->nprograms]) < 0)
			return -1;
		ret->nprograms++;
	}
	return 0;
}

/* Reads `all`, or a map of users and groups. */
static int read_kernel(const struct ip_yaml_document *document, const struct ip_yaml *node,
		       struct ip_policy_kernel *ret)
{
	const struct ip_yaml *users, *groups;

	ret->all = node->kind == IP_YAML_SCALAR && !strcmp(node->text, "all");
	if (ret->all)
		return 0;
	if (node->kind != IP_YAML_MAP)
		return ip_yaml_error(document, node,
				     "who may have events of the kernel: all, or a map of users "
				     "and groups");
	if (ip_yaml_check_map(document, node, "kernel", kernel_keys) < 0)
		return -1;
	users = ip_yaml_get(node, "users");
	groups = ip_yaml_get(node, "groups");
	if (!users && !groups)
		return ip_yaml_error(document, node, "kernel needs users or groups");
	if ((users && check_list(document, users, "users") < 0) ||
	    (groups && check_list(document, groups, "groups") < 0))
		return -1;
	for (size_t i = 0; users && i < users->n; i++, ret->nusers++)
		if (ip_array_grow(&ret->users, ret->nusers, sizeof(*ret->users)) < 0 ||
		    read_user(document, users->items[i], &ret->users[ret->nusers]) < 0)
			return -1;
	for (size_t i = 0; groups && i < groups->n; i++, ret->ngroups++)
		if (ip_array_grow(&ret->groups, ret->ngroups, sizeof(*ret->groups)) < 0 ||
		    read_group(document, groups->items[i], &ret->groups[ret->ngroups]) < 0)
			return -1;
	return 0;
}

static int read_document(const struct ip_yaml_document *document, struct ip_policy *ret)
{
	const struct ip_yaml *members, *kernel;

	if (!document->root || (document->root->kind == IP_YAML_SCALAR && !*document->root->text))
		return 0;
	if (ip_yaml_check_map(document, document->root, "a policy", file_keys) < 0)
		return -1;
	kernel = ip_yaml_get(document->root, "kernel");
	if (kernel && read_kernel(document, kernel, &ret->kernel) < 0)
		return -1;
	members = ip_yaml_get(document->root, "members");
	if (!members)
		return 0;
	if (check_list(document, members, "entries for members") < 0)
		return -1;
	for (size_t i = 0; i < members->n; i++) {
		struct ip_policy_entry entry = {0};

		if (read_entry(document, members->items[i], &entry) < 0 ||
		    ip_array_grow(&ret->entries, ret->n, sizeof(entry)) < 0) {
			clear_entry(&entry);
			return -1;
		}
		ret->entries[ret->n++] = entry;
	}
	return 0;
}

int ip_policy_parse(const char *text, size_t size, const char *path, struct ip_policy *ret)
{
	struct ip_yaml_document document;
	int done;

	*ret = (struct ip_policy){0};
	if (ip_yaml_parse(text, size, path, &document) < 0)
		return -1;
	done = read_document(&document, ret);
	ip_yaml_clear(&document);
	if (done < 0)
		ip_policy_clear(ret);
	return done;
}

int ip_policy_load(const char *path, struct ip_policy *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	ssize_t n;

	*ret = (struct ip_policy){0};
	if (fd < 0)
		return errno == ENOENT ? 0 : ip_error_errno("cannot open %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return ip_error("%s is no file", path);
	if ((st.st_uid && st.st_uid != geteuid()) || (st.st_mode & 022))
		return ip_error("%s can be written by others than root: chown root, chmod go-w",
				path);
	if (st.st_size > IP_YAML_SIZE_MAX)
		return ip_error("%s is larger than %u bytes", path, IP_YAML_SIZE_MAX);
	text = malloc(st.st_size + 1);
	n = text ? read(fd, text, st.st_size) : -1;
	if (n < 0)
		return ip_error_errno("cannot read %s", path);
	return ip_policy_parse(text, n, path, ret);
}

bool ip_policy_entry_allows(const struct ip_policy_entry *entry, uid_t user, const char *program)
{
	bool listed = false, matches = !entry->nprograms;

	for (size_t i = 0; i < entry->nusers; i++)
		listed |= entry->users[i] == user;
	for (size_t i = 0; i < entry->nprograms; i++)
		matches |= fnmatch(entry->programs[i], program, 0) == 0;
	return listed && matches;
}

const struct ip_policy_entry *ip_policy_find(const struct ip_policy *policy,
					     const struct ip_target_credentials *target,
					     const char *program)
{
	const char *why = ip_ptrace_access_not_plain(target);

	if (why) {
		ip_error("it %s: such processes are for root alone, whatever the policy says", why);
		return NULL;
	}
	for (size_t i = 0; i < policy->n; i++)
		if (ip_policy_entry_allows(&policy->entries[i], target->ids.ruid, program))
			return &policy->entries[i];
	ip_error("the policy does not list %s of uid %u for members of the group", program,
		 target->ids.ruid);
	return NULL;
}

bool ip_policy_gives_kernel(const struct ip_policy *policy, uid_t user, gid_t group,
			    const gid_t *groups, size_t ngroups)
{
	const struct ip_policy_kernel *k = &policy->kernel;

	if (!user || k->all)
		return true;
	for (size_t i = 0; i < k->nusers; i++)
		if (k->users[i] == user)
			return true;
	for (size_t i = 0; i < k->ngroups; i++) {
		if (k->groups[i] == group)
			return true;
		for (size_t j = 0; j < ngroups; j++)
			if (k->groups[i] == groups[j])
				return true;
	}
	return false;
}

char *ip_policy_program(pid_t pid)
{
	char name[64], path[PATH_MAX];
	ssize_t n;
	char *program;

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	n = readlink(name, path, sizeof(path) - 1);
	if (n <= 0) {
		ip_error_errno("pid %d: cannot see its executable", pid);
		return NULL;
	}
	path[n] = '\0';
	program = strdup(path);
	if (!program)
		ip_error("out of memory");
	return program;
}
