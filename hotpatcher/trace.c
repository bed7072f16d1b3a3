/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace directory: streams, metadata, session file.
 */
#include "hotpatcher/trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/ctf_metadata.h"
#include "common/elf_file.h"
#include "common/error.h"
#include "common/selection.h"

#define LIBRARIES_MAX  10000u
#define MODULES_MAX    4096u /* readers take some more */
#define SIGNATURES_MAX 65536u /* readers take no more */

struct stream {
	int fd;
	uint64_t packets;
};

struct ip_trace {
	char *dir;
	int dirfd;
	uint8_t uuid[16];
	pid_t pid;
	char *command;
	struct ip_clock_reading start;
	uint64_t hz;
	uint64_t tsc_end;
	struct stream *streams;
	size_t nstreams;
	uint64_t bytes;
	/* the body of the session file, grown as things become known */
	char *text;
	size_t text_size;
	FILE *text_out;
	struct ip_ctf_label *labels; /* labels are owned */
	size_t nlabels;
	char **modules; /* "build-id bias" of those written */
	size_t nmodules;
	uint8_t *known; /* bitmap of numbers written */
	size_t nfunctions;
	uint32_t nsignatures;
	uint32_t nlibraries; /* that came or went */
	char *ending;
	bool moved_old; /* what was there is DIR.old now */
};

/* Whether path is a directory that we may move away: a trace of ours, or empty. */
static bool is_trace_or_empty(const char *path)
{
	_cleanup_closedir_ DIR *dir = NULL;
	_cleanup_free_ char *session = NULL;
	struct dirent *entry;

	if (asprintf(&session, "%s/%s", path, IP_TRACE_SESSION) >= 0 && access(session, F_OK) == 0)
		return true;
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			return false;
	return dir;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int make_room(const char *dir, bool *ret_moved)
{
	_cleanup_free_ char *old = NULL;
	struct stat st;

	*ret_moved = false;
	if (lstat(dir, &st) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode) || !is_trace_or_empty(dir))
		return ip_error("%s exists and is not a trace of iprobe: name another directory with -o",
				dir);
	if (asprintf(&old, "%s.old", dir) < 0)
		return ip_error("out of memory");
	if (lstat(old, &st) == 0) {
		if (!S_ISDIR(st.st_mode) || !is_trace_or_empty(old))
			return ip_error(
				"%s exists and is not a trace of iprobe: move it away, or name another "
				"directory with -o",
				old);
		if (nftw(old, remove_entry, 16, FTW_DEPTH | FTW_PHYS) < 0)
			return ip_error_errno("cannot remove %s", old);
	}
	if (rename(dir, old) < 0)
		return ip_error_errno("cannot keep %s as %s", dir, old);
	*ret_moved = true;
	return 0;
}

char *ip_proc_command(pid_t pid)
{
	char path[64], *text = NULL;
	size_t used = 0;
	_cleanup_fclose_ FILE *file = NULL;
	int c;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	file = fopen(path, "re");
	text = calloc(1, 4097);
	if (!text)
		abort();
	while (file && used < 4096 && (c = getc(file)) != EOF)
		text[used++] = c ? c : ' ';
	while (used && text[used - 1] == ' ')
		text[--used] = '\0';
	return text;
}

/* A value of the session file: control characters and backslash as \xHH. */
static void put_value(FILE *out, const char *value)
{
	for (; *value; value++) {
		unsigned char c = *value;

		if (c < 0x20 || c == 0x7f || c == '\\')
			fprintf(out, "\\x%02x", c);
		else
			putc(c, out);
	}
}

static void put_line(FILE *out, const char *key, const char *value)
{
	fprintf(out, "%s\t", key);
	put_value(out, value);
	putc('\n', out);
}

/* One descriptor a stream: as many as the hard limit gives. */
static void raise_descriptor_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

int ip_trace_create(const char *dir, pid_t pid, const char *command, const struct ip_clock_reading *start,
		    struct ip_trace **ret)
{
	struct ip_trace *trace;
	bool moved;

	if (make_room(dir, &moved) < 0)
		return -1;
	trace = calloc(1, sizeof(*trace));
	if (!trace)
		return ip_error("out of memory");
	trace->dirfd = -1;
	trace->moved_old = moved;
	trace->dir = strdup(dir);
	trace->command = strdup(command);
	trace->pid = pid;
	trace->start = *start;
	trace->known = calloc(1, (IP_NUMBER_MAX + 8) / 8);
	trace->text_out = open_memstream(&trace->text, &trace->text_size);
	if (!trace->dir || !trace->command || !trace->known || !trace->text_out) {
		ip_trace_close(trace);
		return ip_error("out of memory");
	}
	raise_descriptor_limit();
	if (mkdir(dir, 0777) == 0)
		trace->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (trace->dirfd < 0 || mkdirat(trace->dirfd, IP_TRACE_SUBDIR, 0777) < 0) {
		ip_error_errno("cannot make the trace directory %s", dir);
		ip_trace_discard(trace);
		return -1;
	}
	if (getrandom(trace->uuid, sizeof(trace->uuid), 0) != sizeof(trace->uuid))
		memcpy(trace->uuid, start, sizeof(trace->uuid));
	*ret = trace;
	return 0;
}

static int copy_list(struct ip_trace *trace, const struct ip_module *module, const char *id)
{
	const struct ip_pl_header *h = module->list->header;
	_cleanup_free_ char *name = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t size = h->strings_offset + h->strings_size;
	uint64_t probes_end = h->probes_offset + h->nprobes * sizeof(struct ip_pl_probe);
	uint64_t functions_end = h->functions_offset + h->nfunctions * sizeof(struct ip_pl_function);

	size = probes_end > size ? probes_end : size;
	size = functions_end > size ? functions_end : size;
	if (asprintf(&name, "%s/%s.probes", IP_TRACE_SUBDIR, id) < 0)
		return ip_error("out of memory");
	fd = openat(trace->dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return ip_error_errno("cannot make %s/%s", trace->dir, name);
	for (uint64_t done = 0; done < size;) {
		ssize_t n = write(fd, (const char *)h + done, size - done);

		if (n <= 0)
			return ip_error_errno("cannot write %s/%s", trace->dir, name);
		done += n;
	}
	return 0;
}

/* Adds the module's line where it is new. */
static int add_module(struct ip_trace *trace, const struct ip_module *module, uint32_t first_number)
{
	char id[2 * IP_BUILD_ID_MAX + 1];
	char *key = NULL;
	void *grown;

	ip_build_id_format(module->elf->build_id, module->elf->build_id_size, id);
	if (asprintf(&key, "%s %lx", id, module->load_bias) < 0)
		return ip_error("out of memory");
	for (size_t i = 0; i < trace->nmodules; i++)
		if (!strcmp(trace->modules[i], key)) {
			free(key);
			return i;
		}
	/* one that is loaded all over the place is shown at one */
	for (size_t i = 0; trace->nmodules >= MODULES_MAX && i < trace->nmodules; i++)
		if (!strncmp(trace->modules[i], id, strlen(id))) {
			free(key);
			return i;
		}
	grown = realloc(trace->modules, (trace->nmodules + 1) * sizeof(*trace->modules));
	if (!grown) {
		free(key);
		return ip_error("out of memory");
	}
	trace->modules = grown;
	trace->modules[trace->nmodules] = key;
	if (copy_list(trace, module, id) < 0)
		return -1;
	fprintf(trace->text_out, "module\t%zu\t", trace->nmodules);
	put_value(trace->text_out, module->path);
	fprintf(trace->text_out, "\t%s\t%lu\t%u\t%s\n", id, module->load_bias, first_number,
		ip_placement_name(module->list->header->placement));
	return trace->nmodules++;
}

bool ip_trace_knows(const struct ip_trace *trace, uint32_t number)
{
	return number <= IP_NUMBER_MAX && trace->known[number / 8] & 1 << number % 8;
}

size_t ip_trace_functions(const struct ip_trace *trace)
{
	return trace->nfunctions;
}

static int add_function(struct ip_trace *trace, const struct ip_plan_function *f, int module)
{
	const struct ip_probe_list *list = f->module->list;
	const struct ip_pl_function *function = &list->functions[f->function];
	const char *name = ip_probe_list_string(list, function->name);
	const char *base = strrchr(f->module->path, '/');
	_cleanup_free_ char *readable = ip_demangle(name, true);
	char *label = NULL;

	if (f->number > IP_NUMBER_MAX || ip_trace_knows(trace, f->number))
		return 0;
	if ((trace->nlabels & (trace->nlabels - 1)) == 0) {
		size_t capacity = trace->nlabels ? 2 * trace->nlabels : 1;
		void *grown = realloc(trace->labels, capacity * sizeof(*trace->labels));

		if (!grown)
			return ip_error("out of memory");
		trace->labels = grown;
	}
	if (!readable || asprintf(&label, "%s:%s", base ? base + 1 : f->module->path, readable) < 0)
		return ip_error("out of memory");
	trace->labels[trace->nlabels++] = (struct ip_ctf_label){f->number, label};
	/* the number of the other instance is next to it (ip_plan_bind) */
	trace->nfunctions += !ip_trace_knows(trace, f->inlined ? f->number - 1 : f->number + 1);
	trace->known[f->number / 8] |= 1 << f->number % 8;
	fprintf(trace->text_out, "function\t%u\t%d\t", f->number, module);
	put_value(trace->text_out, name);
	putc('\t', trace->text_out);
	put_value(trace->text_out, function->file ? ip_probe_list_string(list, function->file) : "");
	fprintf(trace->text_out, "\t%u\t%s%s\t%u\n", function->line, f->inlined ? "i" : f->entry_only ? "" : "-",
		f->entry_only ? "e" : "",
		f->frame == UINT32_MAX ? 0 : f->frame);
	return 0;
}

int ip_trace_add_plan(struct ip_trace *trace, const struct ip_plan *plan, const struct ip_modules *modules,
		      const struct ip_area *area)
{
	_cleanup_free_ int *index = calloc(modules->n ? modules->n : 1, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++) {
		const struct ip_plan_function *f = &plan->functions[i];

		if (!index[f->module_index]) {
			int at = add_module(trace, f->module, ip_plan_first_number(area, f->module));

			if (at < 0)
				return -1;
			index[f->module_index] = at + 1;
		}
		if (add_function(trace, f, index[f->module_index] - 1) < 0)
			return -1;
	}
	return 0;
}

int64_t ip_trace_add_signature(struct ip_trace *trace, const char *text)
{
	if (trace->nsignatures == SIGNATURES_MAX)
		return 0;
	fprintf(trace->text_out, "signature\t%u\t", ++trace->nsignatures);
	put_value(trace->text_out, text);
	putc('\n', trace->text_out);
	return trace->nsignatures;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

int ip_trace_add_change(struct ip_trace *trace, const char *what, uint64_t tsc, const struct ip_plan *plan)
{
	_cleanup_free_ uint32_t *numbers = NULL;

	if (!plan->nfunctions)
		return 0;
	numbers = calloc(plan->nfunctions, sizeof(*numbers));
	if (!numbers)
		return ip_error("out of memory");
	for (size_t i = 0; i < plan->nfunctions; i++)
		numbers[i] = plan->functions[i].number;
	qsort(numbers, plan->nfunctions, sizeof(*numbers), by_number);
	fprintf(trace->text_out, "%s\t%lu\t", what, tsc);
	for (size_t i = 0, last; i < plan->nfunctions; i = last + 1) {
		for (last = i; last + 1 < plan->nfunctions && numbers[last + 1] == numbers[last] + 1;)
			last++;
		fprintf(trace->text_out, "%s%u", i ? "," : "", numbers[i]);
		if (last > i)
			fprintf(trace->text_out, "-%u", numbers[last]);
	}
	putc('\n', trace->text_out);
	return 0;
}

int ip_trace_add_stop(struct ip_trace *trace, const char *kind, const struct ip_stop_record *stop)
{
	fprintf(trace->text_out, "stop\t%s\t%lu\t%lu\t%zu\t%zu\t%zu\n", kind, stop->tsc, stop->ns,
		stop->threads, stop->pages, stop->sites);
	return 0;
}

void ip_trace_add_library(struct ip_trace *trace, const char *what, const struct ip_module *module)
{
	char id[2 * IP_BUILD_ID_MAX + 1];
	struct ip_clock_reading now;

	/* a program that loads and unloads all day */
	if (!trace || ++trace->nlibraries > LIBRARIES_MAX)
		return;
	ip_clock_read(&now);
	ip_build_id_format(module->elf->build_id, module->elf->build_id_size, id);
	fprintf(trace->text_out, "%s\t%lu\t%lu\t%s\t", what, now.tsc, module->load_bias, id);
	put_value(trace->text_out, module->path);
	putc('\n', trace->text_out);
}

void ip_trace_add_exec(struct ip_trace *trace, pid_t pid)
{
	struct ip_clock_reading now;

	ip_clock_read(&now);
	fprintf(trace->text_out, "exec\t%d\t%lu\n", pid, now.tsc);
}

void ip_trace_add_missing(struct ip_trace *trace, uint32_t number, uint64_t from_tsc, uint64_t to_tsc)
{
	fprintf(trace->text_out, "missing\t%u\t%lu\t%lu\n", number, from_tsc, to_tsc);
}

int ip_trace_add_thread(struct ip_trace *trace, pid_t tid, const char *name)
{
	fprintf(trace->text_out, "thread\t%d\t", tid);
	put_value(trace->text_out, name);
	putc('\n', trace->text_out);
	return 0;
}

static FILE *open_new(struct ip_trace *trace, const char *name, char **ret_temporary)
{
	int fd;
	FILE *out;

	if (asprintf(ret_temporary, "%s.new", name) < 0) {
		*ret_temporary = NULL;
		return NULL;
	}
	fd = openat(trace->dirfd, *ret_temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out && fd >= 0)
		close(fd);
	return out;
}

/* Flushes, checks and renames over name. */
static int commit(struct ip_trace *trace, FILE *out, const char *temporary, const char *name)
{
	bool bad = ferror(out) | (fflush(out) != 0);
	int error = errno;

	fclose(out);
	if (!bad && renameat(trace->dirfd, temporary, trace->dirfd, name) == 0)
		return 0;
	error = bad ? error : errno;
	unlinkat(trace->dirfd, temporary, 0);
	errno = error;
	return ip_error_errno("cannot write %s/%s", trace->dir, name);
}

static int write_session(struct ip_trace *trace)
{
	_cleanup_free_ char *temporary = NULL;
	FILE *out = open_new(trace, IP_TRACE_SESSION, &temporary);
	struct utsname u = {0};
	char kernel[sizeof(u.sysname) + sizeof(u.release) + sizeof(u.version) + sizeof(u.machine) + 8];

	if (!out)
		return ip_error_errno("cannot write %s/%s", trace->dir, IP_TRACE_SESSION);
	uname(&u);
	snprintf(kernel, sizeof(kernel), "%s %s %s %s", u.sysname, u.release, u.version, u.machine);
	fprintf(out, "iprobe-session\t1\n");
	put_line(out, "host", u.nodename);
	put_line(out, "kernel", kernel);
	put_line(out, "command", trace->command);
	fprintf(out, "pid\t%d\nstart_realtime\t%lu\ntsc_start\t%lu\n", trace->pid, trace->start.realtime_ns,
		trace->start.tsc);
	if (trace->tsc_end)
		fprintf(out, "tsc_end\t%lu\n", trace->tsc_end);
	fprintf(out, "tsc_hz\t%lu\n", trace->hz);
	fflush(trace->text_out);
	if (trace->text_size)
		fwrite(trace->text, 1, trace->text_size, out);
	if (trace->ending)
		fputs(trace->ending, out);
	return commit(trace, out, temporary, IP_TRACE_SESSION);
}

static int write_metadata(struct ip_trace *trace)
{
	_cleanup_free_ char *temporary = NULL;
	FILE *out;
	struct utsname u = {0};
	struct ip_ctf_metadata m = {.tsc_hz = trace->hz,
				    .tsc_start = trace->start.tsc,
				    .start_realtime_ns = trace->start.realtime_ns,
				    .host = u.nodename,
				    .command = trace->command,
				    .labels = trace->labels,
				    .nlabels = trace->nlabels};

	/* the temporary lies in the sub-directory: a CTF reader stumbles over strange files beside the
	 * streams */
	out = open_new(trace, IP_TRACE_SUBDIR "/metadata", &temporary);
	if (!out)
		return ip_error_errno("cannot write %s/metadata", trace->dir);
	uname(&u); /* m.host points into u */
	memcpy(m.uuid, trace->uuid, sizeof(m.uuid));
	if (ip_ctf_metadata_write(out, &m) < 0) {
		fclose(out);
		unlinkat(trace->dirfd, temporary, 0);
		return -1;
	}
	return commit(trace, out, temporary, "metadata");
}

int ip_trace_sync(struct ip_trace *trace)
{
	struct ip_clock_reading now;

	trace->hz = ip_clock_hz(&trace->start, &now, 2000000);
	return write_metadata(trace) < 0 || write_session(trace) < 0 ? -1 : 0;
}

int ip_trace_finish(struct ip_trace *trace, uint64_t events, uint64_t lost, uint64_t unserved,
		    const char *reason)
{
	struct ip_clock_reading now;

	ip_clock_read(&now);
	trace->tsc_end = now.tsc;
	trace->hz = ip_clock_hz(&trace->start, &now, 50000000);
	if (asprintf(&trace->ending, "events\t%lu\nlost\t%lu\nunserved\t%lu\nend\t%s\n", events, lost,
		     unserved, reason) < 0) {
		trace->ending = NULL;
		return ip_error("out of memory");
	}
	return write_metadata(trace) < 0 || write_session(trace) < 0 ? -1 : 0;
}

/* Out of descriptors: streams can be opened again when they get their next packet. */
static void close_streams(struct ip_trace *trace)
{
	for (size_t i = 0; i < trace->nstreams; i++)
		if (trace->streams[i].fd >= 0) {
			close(trace->streams[i].fd);
			trace->streams[i].fd = -1;
		}
}

void ip_trace_close(struct ip_trace *trace)
{
	if (!trace)
		return;
	close_streams(trace);
	for (size_t i = 0; i < trace->nlabels; i++)
		free((char *)trace->labels[i].label);
	for (size_t i = 0; i < trace->nmodules; i++)
		free(trace->modules[i]);
	if (trace->text_out)
		fclose(trace->text_out);
	if (trace->dirfd >= 0)
		close(trace->dirfd);
	free(trace->streams);
	free(trace->labels);
	free(trace->modules);
	free(trace->known);
	free(trace->text);
	free(trace->ending);
	free(trace->dir);
	free(trace->command);
	free(trace);
}

void ip_trace_discard(struct ip_trace *trace)
{
	_cleanup_free_ char *old = NULL;

	if (!trace)
		return;
	if (trace->dirfd >= 0)
		nftw(trace->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	if (trace->moved_old && asprintf(&old, "%s.old", trace->dir) >= 0)
		rename(old, trace->dir); /* fails where the directory could not be removed: then both stay */
	ip_trace_close(trace);
}

static int stream_fd(struct ip_trace *trace, uint32_t stream)
{
	char name[32];

	if (stream >= trace->nstreams) {
		size_t n = stream + 64;
		struct stream *grown = realloc(trace->streams, n * sizeof(*grown));

		if (!grown)
			return ip_error("out of memory");
		for (size_t i = trace->nstreams; i < n; i++)
			grown[i] = (struct stream){.fd = -1};
		trace->streams = grown;
		trace->nstreams = n;
	}
	if (trace->streams[stream].fd >= 0)
		return trace->streams[stream].fd;
	snprintf(name, sizeof(name), "stream-%u", stream);
	for (int i = 0; i < 2 && trace->streams[stream].fd < 0; i++) {
		if (i && errno != EMFILE)
			break;
		if (i)
			close_streams(trace);
		trace->streams[stream].fd =
			openat(trace->dirfd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	}
	if (trace->streams[stream].fd < 0)
		return ip_error_errno("cannot make %s/%s", trace->dir, name);
	return trace->streams[stream].fd;
}

int ip_trace_write_packet(struct ip_trace *trace, uint32_t stream, struct ip_packet_header *header,
			  const uint64_t *words, size_t n)
{
	size_t size = sizeof(*header) + n * sizeof(*words);
	struct iovec parts[2] = {{header, sizeof(*header)}, {(void *)words, n * sizeof(*words)}};
	int fd = stream_fd(trace, stream);
	off_t before;
	ssize_t done;

	if (fd < 0)
		return -1;
	header->magic = IP_CTF_MAGIC;
	memcpy(header->uuid, trace->uuid, sizeof(header->uuid));
	header->stream_id = 0;
	header->content_size = header->packet_size = 8 * size;
	header->packet_seq_num = trace->streams[stream].packets;
	before = lseek(fd, 0, SEEK_END);
	do {
		done = writev(fd, parts, 2);
	} while (done < 0 && errno == EINTR);
	if (done == (ssize_t)size) {
		trace->streams[stream].packets++;
		trace->bytes += size;
		return 0;
	}
	/* a short write leaves half a packet: take it back, the trace stays readable up to here */
	if (done >= 0)
		errno = ENOSPC;
	ip_error_errno("cannot write %s/stream-%u", trace->dir, stream);
	if (done > 0 && ftruncate(fd, before) < 0)
		ip_error_errno("cannot write %s/stream-%u, nor cut it", trace->dir, stream);
	return -1;
}

uint64_t ip_trace_bytes(const struct ip_trace *trace)
{
	return trace->bytes;
}

const char *ip_trace_dir(const struct ip_trace *trace)
{
	return trace->dir;
}
