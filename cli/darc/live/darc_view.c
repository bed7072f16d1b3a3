/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a live search on the terminal.
 */
#include "cli/darc/live/darc_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/darc/darc_state.h"
#include "cli/screen/screen.h"
#include "cli/screen/text_output.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"
#include "common/print.h"
#include "common/units.h"

#define FRAME_LINES 3u		 /* the title, the message, the keys */
#define EVERY_NS    200000000ull /* the time in the title goes on */

static const char *const help[] = {
	"1 to 9            search the calls of that peak, as the histogram numbers them",
	"r                 search the calls of the rightmost peak",
	"up, down, k, j    a line up or down",
	"page up, down     a page up or down",
	"Home, End         the begin, the end",
	"q, Ctrl-C         leave: what is known is printed, and every byte is put back",
};

static const char hint[] = "without --live the steps are told line by line";

int cli_darc_view_check(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)
		       ? 0
		       : ip_error("--live needs a terminal for its input and output (%s)", hint);
}

int cli_darc_view_open(struct cli_darc_view *v)
{
	v->found = v->help = false;
	v->first = 0;
	return cli_screen_open(hint);
}

void cli_darc_view_close(struct cli_darc_view *v)
{
	cli_screen_close();
	free(v->text);
	v->text = NULL;
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* How many lines the text has room for. */
static size_t room(void)
{
	size_t lines, columns;

	cli_screen_size(&lines, &columns);
	return lines > FRAME_LINES ? lines - FRAME_LINES : 1;
}

static void print_body(struct cli_darc_view *v, FILE *out)
{
	const size_t most = room(), n = v->text ? count_lines(v->text) : 0;
	const char *line = v->text ? v->text : "";
	size_t shown = 0;

	v->first = n <= most ? 0 : v->first > n - most ? n - most : v->first;
	for (size_t i = 0; i < v->first; i++)
		line = strchr(line, '\n') + 1;
	for (; *line && shown < most; shown++) {
		const size_t length = strcspn(line, "\n");

		ip_print(out, "%.*s\n", (int)length, line);
		line += length + (line[length] == '\n');
	}
	for (; shown < most; shown++)
		ip_print(out, "\n");
}

static void print_help(FILE *out)
{
	const size_t most = room(), n = sizeof(help) / sizeof(*help);

	for (size_t i = 0; i < most; i++)
		ip_print(out, "  %s\n", i < n ? help[i] : "");
}

static void show(struct cli_darc_view *v)
{
	_cleanup_free_ char *text = NULL;
	const uint64_t now = ip_now_ns();
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	v->shown_ns = now;
	ip_print(out,
		 CLI_SCREEN_REVERSE "iprobe darc  %s  pid %d  %" PRIu64 " s  %s" CLI_SCREEN_PLAIN
				    "\n",
		 v->functions, v->pid, (now - v->begin_ns) / 1000000000,
		 v->found ? "the search is over" : "searching");
	ip_print(out, "%s\n", v->message);
	if (v->help)
		print_help(out);
	else
		print_body(v, out);
	ip_print(out, "%s",
		 v->help ? "any key: back"
			 : "q leave  ? help  1-9 search that peak  r the rightmost");
	if (fclose(out) == 0)
		cli_screen_show(text, size);
}

static void take_text(struct cli_darc_view *v, char *text, bool found)
{
	free(v->text);
	v->text = text;
	if (v->found != found)
		v->first = 0;
	v->found = found;
	show(v);
}

void cli_darc_view_state(struct cli_darc_view *v, const char *document, size_t size)
{
	struct cli_darc_state state;
	struct cli_text_output p;
	char *text = NULL;

	if (cli_darc_state_read(document, size, "the state of the search", &state) == 0 &&
	    cli_text_output_begin(&p) == 0) {
		cli_darc_state_text(&state);
		text = cli_text_output_end(&p);
	}
	cli_darc_state_clear(&state);
	if (text)
		take_text(v, text, false);
}

int cli_darc_view_found(struct cli_darc_view *v, const struct cli_darc *d)
{
	struct cli_text_output p;
	char *text;
	int ret;

	if (cli_text_output_begin(&p) < 0)
		return -1;
	ret = cli_darc_text(d);
	text = cli_text_output_end(&p);
	if (ret < 0 || !text) {
		free(text);
		return -1;
	}
	take_text(v, text, true);
	return 0;
}

/* number: of a peak; 0: the rightmost one of several. */
static enum cli_darc_request choose(struct cli_darc_view *v, size_t number,
				    const struct ip_darc_search *profile, size_t *ret)
{
	const size_t n = profile ? ip_peaks_count(&profile->peaks) : 0;
	const struct ip_peak *peak =
		n ? ip_peaks_number(&profile->peaks, number ? number : n) : NULL;

	if (!peak || (!number && n < 2)) {
		snprintf(v->message, sizeof(v->message), "There %s %zu peak%s.",
			 n == 1 ? "is" : "are", n, ip_plural(n));
		return CLI_DARC_REQUEST_NONE;
	}
	if (profile->peak && peak == &profile->peaks.items[profile->peak - 1]) {
		snprintf(v->message, sizeof(v->message), "That is the peak that is searched.");
		return CLI_DARC_REQUEST_NONE;
	}
	*ret = number;
	return CLI_DARC_REQUEST_PEAK;
}

/* Applies a key. */
static enum cli_darc_request take_key(struct cli_darc_view *v, int key,
				      const struct ip_darc_search *profile, size_t *ret)
{
	if (v->help) {
		v->help = key == CLI_KEY_RESIZED;
		return CLI_DARC_REQUEST_NONE;
	}
	if (key != CLI_KEY_RESIZED)
		*v->message = '\0';
	if (key >= '1' && key < '1' + (int)CLI_DARC_VIEW_PEAKS)
		return choose(v, (size_t)(key - '0'), profile, ret);
	switch (key) {
	case 'q':
	case CLI_KEY_END_OF_INPUT:
		return CLI_DARC_REQUEST_LEAVE;
	case 'r':
		return choose(v, 0, profile, ret);
	case '?':
	case 'h':
		v->help = true;
		break;
	case 'k':
	case CLI_KEY_UP:
		v->first -= v->first > 0;
		break;
	case 'j':
	case CLI_KEY_DOWN:
		v->first++;
		break;
	case CLI_KEY_PAGE_UP:
		v->first -= v->first < room() ? v->first : room();
		break;
	case CLI_KEY_PAGE_DOWN:
	case ' ':
		v->first += room();
		break;
	case CLI_KEY_HOME:
		v->first = 0;
		break;
	case CLI_KEY_END:
		v->first = v->text ? count_lines(v->text) : 0;
		break;
	default:
		break;
	}
	return CLI_DARC_REQUEST_NONE;
}

enum cli_darc_request cli_darc_view_wait(struct cli_darc_view *v, uint64_t until,
					 const struct ip_darc_search *profile, size_t *ret_number)
{
	do {
		const uint64_t due = v->shown_ns + EVERY_NS;
		const int key = cli_screen_key(due < until ? due : until, -1);
		enum cli_darc_request request = CLI_DARC_REQUEST_NONE;

		if (key != CLI_KEY_NONE)
			request = take_key(v, key, profile, ret_number);
		if (request != CLI_DARC_REQUEST_NONE)
			return request;
		if (key != CLI_KEY_NONE || ip_now_ns() >= v->shown_ns + EVERY_NS)
			show(v);
	} while (!ip_interrupted && ip_now_ns() < until);
	return CLI_DARC_REQUEST_NONE;
}
