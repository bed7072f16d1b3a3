/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the terminal over and gives it back.
 *
 * The code that gives it back may run in a signal handler after a crash: it makes only calls
 * that are safe there.
 */
#include "cli/screen/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "common/elf/mapped_file.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/utf8.h"

#define SLICE_NS 100000000ull /* a signal that comes just before poll() is seen after this time */
#define REST_MS	 25	      /* time in which an escape sequence arrives whole */

/* ENTER: another page, no cursor, lines are cut off. LEAVE: the opposite. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[m\033[?7h\033[?25h\033[?1049l"

static struct termios before;
static volatile sig_atomic_t is_open, resized, to_stop;
static bool output_only; /* stdin is left alone */

static void put(const char *text)
{
	ssize_t ignored = write(STDOUT_FILENO, text, strlen(text));

	(void)ignored;
}

static int take(void)
{
	struct termios raw = before;

	if (output_only) {
		is_open = 1;
		put(ENTER);
		return 0;
	}
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return ip_error_errno("cannot set the terminal up");
	is_open = 1;
	put(ENTER);
	return 0;
}

void cli_screen_close(void)
{
	if (!is_open)
		return;
	is_open = 0;
	put(LEAVE);
	if (!output_only)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void on_crash(int number)
{
	cli_screen_close();
	signal(number, SIG_DFL);
	raise(number);
}

static void on_bus(int number, siginfo_t *info, void *context)
{
	if (!ip_mapped_file_has_shrunk(info))
		on_crash(number);
}

static const struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};

static void on_resize(int number)
{
	(void)number;
	resized = 1;
}

static void on_stop(int number)
{
	(void)number;
	to_stop = 1;
}

int cli_screen_open(const char *hint)
{
	static const int crashes[] = {SIGSEGV, SIGILL, SIGFPE, SIGABRT};
	struct sigaction action = {.sa_handler = on_crash};

	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return ip_error_errno("cannot look at the terminal (%s)", hint);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(*crashes); i++)
		sigaction(crashes[i], &action, NULL);
	sigaction(SIGBUS, &bus, NULL);
	action.sa_handler = on_resize;
	sigaction(SIGWINCH, &action, NULL);
	/* After SIGSTOP and SIGCONT the shell may have changed the terminal's settings. */
	sigaction(SIGCONT, &action, NULL);
	action.sa_handler = on_stop;
	sigaction(SIGTSTP, &action, NULL);
	return take();
}

/* Handles Ctrl-Z: the terminal belongs to the shell until the user types fg. */
static void stop(void)
{
	to_stop = 0;
	cli_screen_close();
	raise(SIGSTOP);
	resized = 1;
	if (output_only)
		return; /* the user may have typed bg */
	tcgetattr(STDIN_FILENO, &before);
	take();
}

/* Signals that mean something else while a screen of output is open. */
static struct {
	int number;
	void (*handler)(int);
	struct sigaction before;
} handled[] = {
	{SIGSEGV, on_crash, {}},  {SIGBUS, on_crash, {}},  {SIGILL, on_crash, {}},
	{SIGFPE, on_crash, {}},	  {SIGABRT, on_crash, {}}, {SIGTERM, on_crash, {}},
	{SIGHUP, on_crash, {}},	  {SIGQUIT, on_crash, {}}, {SIGWINCH, on_resize, {}},
	{SIGCONT, on_resize, {}}, {SIGTSTP, on_stop, {}},
};

#define HANDLED (sizeof(handled) / sizeof(*handled))

bool cli_screen_is_ours(void)
{
	pid_t group = tcgetpgrp(STDOUT_FILENO);

	/* a terminal that is not the controlling one has no groups */
	return group < 0 || group == getpgrp();
}

void cli_screen_open_output(void)
{
	output_only = true;
	for (size_t i = 0; i < HANDLED; i++) {
		struct sigaction action = {.sa_handler = handled[i].handler};

		/* what whoever started this process has had ignored stays so */
		sigaction(handled[i].number, NULL, &handled[i].before);
		if (handled[i].before.sa_handler != SIG_IGN)
			sigaction(handled[i].number, handled[i].number == SIGBUS ? &bus : &action,
				  NULL);
	}
	take();
}

void cli_screen_close_output(void)
{
	cli_screen_close();
	for (size_t i = 0; i < HANDLED; i++)
		sigaction(handled[i].number, &handled[i].before, NULL);
	if (to_stop) { /* it came a moment ago */
		to_stop = 0;
		raise(SIGTSTP);
	}
}

bool cli_screen_has_changed(void)
{
	bool changed;

	if (to_stop)
		stop();
	if (!is_open && !cli_screen_is_ours())
		return false;
	if (!is_open)
		take();
	changed = resized;
	resized = 0;
	return changed;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Returns the next byte; -1: none comes. */
static int next_byte(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned char byte;

	return poll(&p, 1, REST_MS) > 0 && read(STDIN_FILENO, &byte, 1) == 1 ? byte : -1;
}

/* Returns the key that the bytes after an escape stand for. */
static int sequence(void)
{
	int byte = next_byte(), number = 0;

	if (byte < 0)
		return CLI_KEY_ESCAPE;
	if (byte != '[' && byte != 'O')
		return CLI_KEY_OTHER;
	while ((byte = next_byte()) >= '0' && byte <= '9')
		number = (10 * number + byte - '0') % 1000;
	switch (byte) {
	case 'A':
		return CLI_KEY_UP;
	case 'B':
		return CLI_KEY_DOWN;
	case 'C':
		return CLI_KEY_RIGHT;
	case 'D':
		return CLI_KEY_LEFT;
	case 'H':
		return CLI_KEY_HOME;
	case 'F':
		return CLI_KEY_END;
	case '~':
		return number == 5		    ? CLI_KEY_PAGE_UP
		       : number == 6		    ? CLI_KEY_PAGE_DOWN
		       : number == 1 || number == 7 ? CLI_KEY_HOME
		       : number == 4 || number == 8 ? CLI_KEY_END
						    : CLI_KEY_OTHER;
	default:
		while (byte == ';' || (byte >= '0' && byte <= '9'))
			byte = next_byte();
		return CLI_KEY_OTHER;
	}
}

int cli_screen_key(uint64_t until_ns, int fd)
{
	for (;;) {
		struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
				      {.fd = fd, .events = POLLIN}};
		uint64_t now = now_ns(), nap = now < until_ns ? until_ns - now : 0;
		unsigned char byte;
		ssize_t n;

		if (to_stop)
			stop();
		if (resized) {
			resized = 0;
			/* the size may have changed while another program had the terminal */
			take();
			return CLI_KEY_RESIZED;
		}
		if (ip_interrupted)
			return CLI_KEY_NONE;
		nap = nap < SLICE_NS ? nap : SLICE_NS;
		if (poll(p, 2, (int)((nap + 999999) / 1000000)) > 0 && p[0].revents) {
			n = read(STDIN_FILENO, &byte, 1);
			if (n == 1)
				return byte == '\033' ? sequence() : byte;
			if (n == 0 || (errno != EINTR && errno != EAGAIN))
				return CLI_KEY_END_OF_INPUT;
		}
		if (p[1].revents || now_ns() >= until_ns)
			return to_stop || resized ? CLI_KEY_RESIZED : CLI_KEY_NONE;
	}
}

void cli_screen_size(size_t *ret_lines, size_t *ret_columns)
{
	struct winsize size = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*ret_lines = size.ws_row ? size.ws_row : 24;
	*ret_columns = size.ws_col ? size.ws_col : 80;
}

/* Prints as much of a line as there are columns. Sequences that make it stand out take no
 * column. */
static void put_line(FILE *out, const char *text, const char *end, size_t columns)
{
	while (text < end) {
		size_t n = ip_utf8_length(text) ? ip_utf8_length(text) : 1;

		if (*text == '\033')
			n = strcspn(text, "m") + 1;
		else if (!columns--)
			break;
		fwrite(text, 1, n, out);
		text += n;
	}
	fputs(CLI_SCREEN_PLAIN, out);
}

int cli_screen_show(const char *text, size_t size)
{
	char *buffer = NULL;
	size_t length = 0, lines, columns, line = 0;
	FILE *out = is_open ? open_memstream(&buffer, &length) : NULL;
	ssize_t n = -1;

	if (!is_open)
		return 0;
	if (!out)
		return ip_error("out of memory");
	cli_screen_size(&lines, &columns);
	/* Each line is put at its place, so that the last one does not scroll the screen. Each
	 * is erased first: an erase at the last column would remove a character. */
	for (const char *end = text + size; text < end && line < lines; line++) {
		const char *newline = memchr(text, '\n', end - text);
		const char *stop = newline ? newline : end;

		fprintf(out, "\033[%zu;1H\033[K", line + 1);
		put_line(out, text, stop, columns);
		text = newline ? newline + 1 : end;
	}
	if (line < lines)
		fprintf(out, "\033[%zu;1H\033[J", line + 1);
	if (fclose(out) == 0)
		for (size_t done = 0; done < length; done += n) {
			n = write(STDOUT_FILENO, buffer + done, length - done);
			if (n < 0 && errno == EINTR)
				n = 0;
			if (n < 0)
				break;
		}
	free(buffer);
	return n < 0 ? ip_error_errno("cannot write to the terminal") : 0;
}
