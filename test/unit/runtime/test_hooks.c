// SPDX-License-Identifier: Apache-2.0
/*
 * The hooks, each on each way through it: the assembler's words and the state that they leave must
 * be those of rt_record(), and every register that is live at such a site must survive, with the
 * flags, x87, MXCSR, vectors, masks and the red zone.
 */
#include <cpuid.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "runtime/rt.h"
#include "test/unit/test.h"

#define SESSION	 5u
#define NUMBER	 0x12345u
#define SUBBUFS	 4u
#define POSITION 70u /* of the next word */
#define VECTORS	 16384u
#define DEPTH	 4u /* frames of a block of meters */
#define COUNT_AT 256u
#define HIST_AT	 384u
#define BLOCK	 512u
#define TICKS	 (1u << 20) /* what a call has lasted at least */
#define INNER	 100u
#define ABOVE	 16 /* words of the stack above a site; the last two are zero */

/* What init.c has in the runtime. */
volatile struct ip_gate *rt_gate;
struct ip_area_header *rt_header;
struct ip_slot *rt_slots;
struct ip_subbuf *rt_subbufs;
char *rt_data;
uint32_t *rt_duties;
struct ip_area_clock *rt_clock;
struct ip_filter_rule *rt_rules;
uint32_t rt_nrules = IP_AREA_RULES;
struct ip_filters *rt_filters;
struct ip_rt_private rt_private;
extern struct ip_meters *rt_blocks[IP_AREA_SLOTS];

/* What record.c keeps to itself. */
extern __thread struct {
	struct ip_slot *slot;
	uint32_t session;
} rt_self __attribute__((tls_model("initial-exec")));

enum {
	RAX,
	RCX,
	RDX,
	RBX,
	RSP,
	RBP,
	RSI,
	RDI,
	R8,
	R9,
	R10,
	R11,
	R12,
	R13,
	R14,
	R15,
	FLAGS,
	REGISTERS
};
static const char *const names[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",  "r8",
				    "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "flags"};

/* hook_caller.S */
extern void hook_call(void);
extern const char hook_by_call[], hook_by_below[], hook_by_push[], hook_by_jump[], hook_by_return[],
	hook_by_tail[];
uint64_t hook_in[REGISTERS], hook_out[REGISTERS], hook_stack, hook_number = NUMBER;
const void *hook_address, *hook_way;
void *hook_vectors_in, *hook_vectors_out;
uint32_t hook_mask;

#define FLAGS_ARITHMETIC 0x8d5u /* OF SF ZF AF PF CF */
#define FLAG_DIRECTION	 0x400u
#define FLAG_ALIGNMENT	 0x40000u
#define FLAGS_ALL	 (FLAGS_ARITHMETIC | FLAG_DIRECTION | FLAG_ALIGNMENT)

static const uint32_t saved_by_calls =
	1 << RBX | 1 << RSP | 1 << RBP | 1 << R12 | 1 << R13 | 1 << R14 | 1 << R15;

#define AT_TAIL 4 /* everything but the flags */

/* What must survive, by enum ip_site_regs: registers and flags. */
static const struct {
	uint32_t registers, flags;
} live[] = {
	[IP_REGS_CALL] = {0, FLAG_DIRECTION | FLAG_ALIGNMENT},
	/* callers may know which registers the function uses, and keep values in the others */
	[IP_REGS_ENTRY] = {0xffff, FLAG_DIRECTION | FLAG_ALIGNMENT},
	[IP_REGS_RETURN] = {0xffff, FLAG_DIRECTION | FLAG_ALIGNMENT},
	[IP_REGS_ALL] = {0xffff, FLAGS_ALL},
	[AT_TAIL] = {0xffff, FLAG_DIRECTION | FLAG_ALIGNMENT},
};

/* The ways through a hook. */
enum way {
	COMMON,
	SILENT,
	NEVER_HEARD,
	CLAIM,
	NESTED,
	STALE_GUARD,
	FULL,
	FULL_NESTED,
	EXHAUSTED,
	EPOCH,
	FAR_BELOW,
	FAR_ABOVE,
	/* of sessions with modes */
	CAREFUL,
	SITES,
	SITES_OTHER_PAGE,
	SITES_UNKNOWN,
	SITES_INLINED,
	SITES_NO_RULE,
	SITES_ZERO,
	SITES_LAST,
	SITES_FULL,
	SITES_NESTED,
	SITES_STALE,
	COARSE,
	COARSE_LATER,
	COARSE_LAST,
	COARSE_NESTED,
	COARSE_FULL,
	COARSE_EPOCH,
	DUTY_LOG,
	DUTY_COARSE,
	SILENCED,
	COUNT,
	COUNT_SHARED,
	HIST,
	HIST_SHARED,
	HIST_INNER,
	HIST_PILED_UP,
	HIST_BEHIND,
	HIST_OUTMOST,
	HIST_MOVED,
	HIST_OVERSPENT,
	MODES_CLAIM,
	MODES_SILENT,
	WAYS
};
static const char *const ways[] = {"common",
				   "silent",
				   "never heard",
				   "claim",
				   "nested",
				   "stale guard",
				   "full",
				   "full and nested",
				   "exhausted",
				   "epoch",
				   "far below",
				   "far above",
				   "careful",
				   "call sites",
				   "call site in another page",
				   "call site that is not known",
				   "call site of an inlined one",
				   "call site without a rule",
				   "call site that is zero",
				   "call site, last words",
				   "call site, full",
				   "call site, nested",
				   "call site, stale guard",
				   "coarse",
				   "coarse, later",
				   "coarse, last word",
				   "coarse, nested",
				   "coarse, full",
				   "coarse, epoch",
				   "logged by duty",
				   "coarse by duty",
				   "silenced",
				   "count",
				   "shared count",
				   "histogram",
				   "shared histogram",
				   "inner histogram",
				   "piled up",
				   "behind one that is gone",
				   "outmost",
				   "recursive, the stack pointer moved",
				   "more in it than it took",
				   "claim with modes",
				   "silent with modes"};

static uint64_t random_state = 88172645463325252ull;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

static struct ip_meters *blocks;
static uint64_t opened; /* when the call began that an exit ends */
static uint64_t inner;	/* what calls in it took */

static struct ip_meters *block(unsigned i)
{
	return (struct ip_meters *)((char *)blocks + (size_t)i * BLOCK);
}

static struct ip_hist *hist_of(unsigned i)
{
	return (struct ip_hist *)((char *)block(i) + HIST_AT);
}

static uint64_t *count_of(unsigned i)
{
	return (uint64_t *)((char *)block(i) + COUNT_AT);
}

static char *zeroed(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static int setup(void **state)
{
	uint32_t eax, ebx, ecx, edx;

	(void)state;
	rt_gate = (struct ip_gate *)zeroed(4096);
	rt_header = (struct ip_area_header *)zeroed(4096);
	rt_slots = (struct ip_slot *)zeroed(IP_AREA_SLOTS * sizeof(*rt_slots));
	rt_subbufs = (struct ip_subbuf *)zeroed(SUBBUFS * sizeof(*rt_subbufs));
	rt_data = zeroed((size_t)SUBBUFS * IP_SUBBUF_SIZE);
	rt_duties = (uint32_t *)zeroed(IP_AREA_DUTIES * sizeof(*rt_duties));
	rt_clock = (struct ip_area_clock *)zeroed(4096);
	rt_filters = (struct ip_filters *)zeroed(4096);
	rt_rules = (struct ip_filter_rule *)zeroed((NUMBER + 1) * sizeof(*rt_rules));
	blocks = (struct ip_meters *)zeroed(4096);
	hook_stack = (uint64_t)zeroed(1 << 20) + (1 << 19);
	hook_vectors_in = zeroed(VECTORS);
	hook_vectors_out = zeroed(VECTORS);
	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & 1 << 27))
		return 0;
	__asm__("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
	hook_mask = eax & 0xe7; /* x87, SSE, AVX, AVX-512 */
	return 0;
}

static uint32_t modes_of(enum way way)
{
	if (way < CAREFUL)
		return 0;
	if (way == CAREFUL)
		return IP_MODE_CAREFUL;
	if (way <= SITES_STALE)
		return IP_MODE_CAREFUL | IP_MODE_SITES | IP_MODE_OVERWRITE;
	if (way >= COARSE && way <= COARSE_EPOCH)
		return IP_MODE_COARSE;
	return IP_MODE_PAYLOADS | (way == DUTY_COARSE ? IP_MODE_COARSE : 0);
}

/* A session that records call sites, and whether it does so for this number. */
static void prepare_sites(enum way way)
{
	*rt_filters = (struct ip_filters){0};
	if (way < SITES || way > SITES_STALE)
		return;
	rt_filters->callsite = 1;
	rt_filters->nrules = NUMBER + (way != SITES_NO_RULE);
	rt_rules[NUMBER] =
		(struct ip_filter_rule){.frame = way == SITES_OTHER_PAGE ? 4096 + 8
						 : way == SITES_UNKNOWN	 ? 0
						 : way == SITES_ZERO	 ? 8 * (ABOVE - 1)
									 : 24,
					.flags = way == SITES_INLINED ? IP_RULE_SITE : 0};
	if (way == SITES_LAST || way == SITES_FULL)
		rt_slots[0].cur = IP_SUBBUF_WORDS - IP_PAYLOAD_HEAD - (way == SITES_LAST);
	if (way == SITES_NESTED)
		rt_slots[0].guard = hook_stack + 4096;
	if (way == SITES_STALE)
		rt_slots[0].guard = hook_stack - 64;
}

/* A thread in a session with modes, with a call open in block 1 that an exit of that kind at sp
 * ends. */
static void prepare_modes(enum way way, unsigned kind, uint64_t sp)
{
	struct ip_meters *m = block(1);
	uint32_t duty =
		way == SILENCED ? IP_DUTY_SILENT
		: way == COUNT || way == COUNT_SHARED || way == MODES_CLAIM || way == MODES_SILENT
			? IP_DUTY(IP_DUTY_COUNT, COUNT_AT)
		: way >= HIST && way <= HIST_OVERSPENT ? IP_DUTY(IP_DUTY_HIST, HIST_AT)
						       : IP_DUTY_LOG;
	uint64_t own = kind == IP_PROBE_TAIL_EXIT ? sp - 8 : sp;

	memset(blocks, 0, 4096);
	rt_blocks[0] = NULL;
	rt_clock->now = __rdtsc();
	if (modes_of(way) & IP_MODE_COARSE) {
		rt_slots[0].epoch = rt_clock->now;
		rt_slots[0].epoch -= way == COARSE_LATER   ? 1
				     : way == COARSE_EPOCH ? 1 << IP_TIME_BITS
							   : 0;
	}
	rt_duties[NUMBER] = duty;
	rt_private.modes = modes_of(way);
	if (!rt_private.modes)
		return;
	rt_self.session |= rt_self.slot ? IP_SESSION_MARK : 0;
	rt_slots[0].session = rt_self.session;
	rt_slots[0].modes = rt_self.slot ? rt_private.modes : 0;
	if (way == MODES_SILENT)
		((struct ip_gate *)rt_gate)->session = 0;
	rt_header->nmeters = rt_private.nmeters = 3;
	rt_private.meters = (char *)blocks - (char *)rt_header;
	rt_private.meters_size = BLOCK;
	rt_private.frames = DEPTH * sizeof(struct ip_meters_frame);
	rt_header->meters_hint = 1;
	block(0)->state = IP_METERS_OWNED;
	if (!(rt_private.modes & IP_MODE_PAYLOADS) || way == COUNT_SHARED || way == HIST_SHARED ||
	    !rt_self.slot)
		return;
	rt_blocks[0] = m;
	rt_slots[0].block = 1;
	m->state = IP_METERS_OWNED;
	m->outmost = ~0ull;
	m->frames[0] = (struct ip_meters_frame){sp + 4096, 1, duty, 0};
	opened = __rdtsc() - TICKS;
	inner = way == HIST_OVERSPENT ? 1ull << 40 : INNER;
	m->frames[1] = (struct ip_meters_frame){own, opened, duty, inner};
	m->top = 2 * sizeof(struct ip_meters_frame);
	/* in front of the entry's site, placement instrument: the caller's is the exit's */
	if (way == HIST_MOVED && kind == IP_PROBE_TAIL_EXIT) {
		m->frames[0].sp = sp;
		m->frames[1].sp = sp - 16;
	} else if (way == HIST_OUTMOST) {
		m->frames[0] = m->frames[1];
		m->top = sizeof(struct ip_meters_frame);
	} else if (way == HIST_BEHIND) { /* longjmp has left one between the caller and the call */
		m->frames[2] = m->frames[1];
		m->frames[1] = (struct ip_meters_frame){sp - 256, 2, duty, 1};
		m->top = 3 * sizeof(struct ip_meters_frame);
		/* behind it, what longjmp has left; deeper by one: full */
	} else if (way == HIST_INNER || way == HIST_PILED_UP) {
		m->frames[2] = (struct ip_meters_frame){sp - 256, 2, duty, 1};
		m->frames[3] = (struct ip_meters_frame){sp - 512, 3, duty, 2};
		m->top = (way == HIST_INNER ? 3 : 4) * sizeof(struct ip_meters_frame);
		inner += way == HIST_INNER ? 1 : 3;
	}
}

/* The state before a record at sp on that way. */
static void prepare(enum way way, unsigned kind, uint64_t sp)
{
	struct ip_slot *slot = &rt_slots[0];
	bool has_slot = way != CLAIM && way != NEVER_HEARD && way != MODES_CLAIM;

	memset(rt_header, 0, sizeof(*rt_header));
	rt_private = (struct ip_rt_private){.end = ~0ull, .place_last = ~0ull};
	memset(rt_slots, 0, 2 * sizeof(*rt_slots));
	memset(rt_subbufs, 0, SUBBUFS * sizeof(*rt_subbufs));
	memset(rt_data, 0, (size_t)SUBBUFS * IP_SUBBUF_SIZE);
	*(struct ip_gate *)rt_gate =
		(struct ip_gate){way == SILENT || way == NEVER_HEARD ? 0 : SESSION, getpid()};
	rt_header->nsubbufs = rt_private.nsubbufs = SUBBUFS;
	rt_header->nfree = way == EXHAUSTED ? 0 : SUBBUFS - 1;
	rt_header->hint = 1;
	rt_subbufs[0] = (struct ip_subbuf){.state = IP_SUBBUF_OWNED, .slot = 0};
	rt_self.slot = has_slot ? slot : NULL;
	rt_self.session = has_slot ? SESSION : 0;
	if (has_slot)
		*slot = (struct ip_slot){.state = IP_SLOT_CLAIMED,
					 .session = SESSION,
					 .cur = POSITION,
					 .last_sp = sp + 64};
	slot->epoch = __rdtsc() >> IP_TIME_BITS;
	if (way == FULL || way == EXHAUSTED || way == FULL_NESTED)
		slot->cur = IP_SUBBUF_WORDS;
	if (way == COARSE_FULL || way == COARSE_LAST)
		slot->cur = IP_SUBBUF_WORDS - IP_SUBBUF_SPARE - (way == COARSE_LAST);
	if (way == NESTED || way == FULL_NESTED || way == COARSE_NESTED)
		slot->guard = sp + 4096;
	if (way == STALE_GUARD)
		slot->guard = sp - 64;
	if (way == EPOCH)
		slot->epoch--;
	if (way == FAR_BELOW)
		slot->last_sp = sp + IP_SP_WINDOW / 2 + 8;
	if (way == FAR_ABOVE)
		slot->last_sp = sp - IP_SP_WINDOW / 2;
	prepare_sites(way);
	prepare_modes(way, kind, sp);
}

/* What a record has left behind, without the times in it. */
struct outcome {
	struct ip_slot slots[2];
	struct ip_area_header header;
	struct ip_subbuf subbufs[SUBBUFS];
	uint64_t words[SUBBUFS][256], pad_words;
	char meters[3 * BLOCK]; /* aligned as the words */
	uint32_t session;
	bool has_slot;
};

/* Replaces times in block i by what is known of them. */
static void without_times(struct outcome *o, unsigned i, uint64_t before, uint64_t after)
{
	struct ip_meters *m = (struct ip_meters *)(o->meters + (size_t)i * BLOCK);
	struct ip_hist *h = (struct ip_hist *)((char *)m + HIST_AT);

	for (unsigned k = 0; k < DEPTH; k++)
		if (m->frames[k].time == opened)
			m->frames[k].time = 5;
		else if (m->frames[k].time >= before && m->frames[k].time <= after)
			m->frames[k].time = 4;
	if (!h->sum)
		return;
	/* one frame, or the head, has the duration: the caller's */
	for (unsigned k = 0; k < DEPTH; k++)
		if (m->frames[k].inner == h->sum)
			m->frames[k].inner = 6;
	if (m->inner == h->sum)
		m->inner = 6;
	assert_int_equal(h->self, h->sum > inner ? h->sum - inner : 0);
	assert_in_range(h->sum, TICKS, TICKS + after - before);
	assert_int_equal(h->sum, h->max);
	assert_int_equal((uint32_t)h->sum, ~h->min);
	assert_int_equal(h->recent, 63 - __builtin_clzll(h->sum));
	assert_int_equal(h->buckets[h->recent - IP_HIST_SHIFT + 1], 1);
	h->buckets[h->recent - IP_HIST_SHIFT + 1] = 0;
	h->buckets[0] += 1000;
	h->sum = h->self = h->max = h->min = h->recent = 1;
}

static void read_outcome(struct outcome *o, uint64_t before)
{
	uint64_t after = __rdtsc();

	memset(o, 0, sizeof(*o));
	memcpy(o->slots, rt_slots, sizeof(o->slots));
	memcpy(o->meters, blocks, sizeof(o->meters));
	for (unsigned i = 0; i < 3; i++)
		without_times(o, i, before, after);
	o->header = *rt_header;
	memcpy(o->subbufs, rt_subbufs, sizeof(o->subbufs));
	o->session = rt_self.session;
	o->has_slot = rt_self.slot == rt_slots;
	for (int i = 0; i < 2; i++)
		o->slots[i].claimed = 0;
	if (o->slots[0].modes & IP_MODE_COARSE && o->slots[0].epoch == rt_clock->now)
		o->slots[0].epoch = 2;
	else if (o->slots[0].epoch >= before >> IP_TIME_BITS &&
		 o->slots[0].epoch <= after >> IP_TIME_BITS)
		o->slots[0].epoch = 1;
	for (uint32_t k = 0; k < SUBBUFS; k++) {
		uint64_t *words = (uint64_t *)(rt_data + (size_t)k * IP_SUBBUF_SIZE);

		for (uint32_t i = 256; i < IP_SUBBUF_WORDS; i++)
			o->pad_words += words[i] != 0;
		for (uint32_t i = 0; i < 256; i++) {
			uint64_t word = words[i], time;

			if (word && (word & 7) != IP_ID_EXTENDED) {
				time = (before & ~IP_TIME_MASK) | (word >> 3 & IP_TIME_MASK);
				if (time < before)
					time += 1ull << IP_TIME_BITS;
				assert_in_range(time, before, after);
				o->words[k][i] = word & ~(IP_TIME_MASK << 3);
			} else if (word) {
				time = word >> 32 | words[i + 1] << 32;
				assert_in_range(time, before, after);
				o->words[k][i] = (uint32_t)word;
				o->words[k][i + 1] = words[i + 1] >> 32 << 32;
				o->words[k][i + 2] = words[i + 2];
				i += 2;
				if ((word >> 3 & IP_TIME_MASK) < IP_ID_PAYLOAD_BASE)
					continue;
				for (uint32_t n = 1 + IP_PAYLOAD_N(words[i + 1]); n; n--, i++)
					o->words[k][i + 1] = words[i + 1];
			}
		}
	}
}

static void fill_registers(unsigned regs)
{
	uint32_t *mxcsr = (uint32_t *)((char *)hook_vectors_in + 24);
	uint64_t *header = (uint64_t *)((char *)hook_vectors_in + 512);

	for (int i = 0; i < REGISTERS; i++)
		hook_in[i] = random64();
	hook_in[FLAGS] &=
		FLAGS_ARITHMETIC | FLAG_ALIGNMENT | (regs == IP_REGS_ALL ? FLAG_DIRECTION : 0);
	hook_in[FLAGS] |= 0x202;
	/* any bits are a state, but for the control words, the header, and the upper parts of x87
	 * registers */
	for (size_t i = 0; i < VECTORS / 8; i++)
		((uint64_t *)hook_vectors_in)[i] = random64();
	memset(hook_vectors_in, 0, 32);
	/* rounding of x87, exceptions masked */
	*(uint16_t *)hook_vectors_in = 0x037f ^ (random64() & 0xc00);
	/* top of its stack, condition codes */
	((uint16_t *)hook_vectors_in)[1] = random64() & 0x7800;
	((uint8_t *)hook_vectors_in)[4] = random64(); /* which of its registers are in use */
	*mxcsr = 0x1f80 ^ (random64() & 0xe03f);
	for (int i = 0; i < 8; i++)
		memset((char *)hook_vectors_in + 32 + 16 * i + 10, 0, 6);
	memset((char *)hook_vectors_in + 416, 0, 96);
	memset(header, 0, 64);
	header[0] = hook_mask;
}

static void check_registers(unsigned regs, const char *what)
{
	uint32_t registers = live[regs].registers | saved_by_calls;

	hook_in[RSP] = hook_stack;
	for (int i = 0; i < FLAGS; i++)
		if (registers & 1u << i && hook_in[i] != hook_out[i])
			fail_msg("%s: %s was %#lx, is %#lx", what, names[i], hook_in[i],
				 hook_out[i]);
	if ((hook_in[FLAGS] ^ hook_out[FLAGS]) & live[regs].flags)
		fail_msg("%s: flags were %#lx, are %#lx", what, hook_in[FLAGS], hook_out[FLAGS]);
	if (!hook_mask)
		return;
	for (size_t i = 0; i < VECTORS; i++)
		if (i != 28 && i != 29 && i != 30 && i != 31 && /* MXCSR_MASK */
		    ((uint8_t *)hook_vectors_in)[i] != ((uint8_t *)hook_vectors_out)[i])
			fail_msg("%s: byte %zu of x87, MXCSR, vector or mask registers has changed",
				 what, i);
}

/* Counts, histograms and open calls are what that probe makes of them, not only the same on both
 * ways. */
static void check_meters(enum way way, unsigned kind)
{
	bool entry = kind == IP_PROBE_ENTRY, point = kind == IP_PROBE_POINT,
	     ends = !entry && !point;
	unsigned counted = entry || point, open = block(1)->top / sizeof(struct ip_meters_frame);
	const struct ip_hist *h = hist_of(1);
	unsigned measured = 0;

	for (unsigned i = 0; i < IP_HIST_BUCKETS; i++)
		measured += h->buckets[i];
	assert_int_equal(*count_of(0), way == COUNT_SHARED ? counted : 0);
	assert_int_equal(*count_of(1), way == COUNT || way == MODES_CLAIM ? counted : 0);
	assert_int_equal(hist_of(0)->unmeasured, way == HIST_SHARED && entry);
	if (way == HIST || way == HIST_INNER)
		assert_int_equal(open, (way == HIST ? 2 : 3) + entry - ends);
	if (way == HIST_PILED_UP) /* an entry finds no room: the two dead ones go */
		assert_int_equal(open, entry ? 3 : 4 - ends);
	assert_int_equal(h->unmeasured, way == HIST_PILED_UP && entry ? 2 : 0);
	assert_int_equal(measured,
			 ends && way >= HIST && way <= HIST_OVERSPENT && way != HIST_SHARED);
	if (measured)
		assert_int_equal(way == HIST_OUTMOST ? block(1)->inner : block(1)->frames[0].inner,
				 h->sum);
	/* what was called in the two that went is the call's below them */
	if (way == HIST_PILED_UP && entry)
		assert_int_equal(block(1)->frames[1].inner, inner);
	if (way == HIST_INNER && ends)
		assert_int_equal(block(1)->frames[1].time, 2);
}

/* What lies above a site is the site's too. */
static uint64_t above(int i)
{
	return i < ABOVE - 2 ? i + 1 : 0;
}

static void fill_stack(void)
{
	for (int i = 0; i < ABOVE; i++)
		((uint64_t *)hook_stack)[i] = above(i);
}

/* The position at which the record is put. */
static uint64_t wanted_begin(enum way way)
{
	return way == SITES_LAST ? IP_SUBBUF_WORDS - IP_PAYLOAD_HEAD - 1 : POSITION;
}

/* hook against rt_record() on one way. form: that of its sites. */
static void compare(const char *hook, const char *base, int32_t offset, unsigned kind,
		    unsigned regs, unsigned form, enum way way)
{
	static struct outcome wanted, found;
	const bool jump = form == IP_FORM_JUMP, tail = form == IP_FORM_TAIL || form == IP_FORM_PLT,
		   returns = ip_probe_returns(kind, form);
	uint64_t sp =
		hook_stack + (kind == IP_PROBE_TAIL_EXIT && (regs != IP_REGS_CALL || jump) ? 8 : 0);
	uint64_t before, zone[16];
	char what[128];

	if (returns) /* the return address of the function is on top */
		sp = hook_stack - 8;
	snprintf(what, sizeof(what), "%s, kind %u, registers %u, %s", hook, kind, regs, ways[way]);
	fill_stack();
	/* where a call would put its return address */
	((uint64_t *)sp)[-1] = 1;
	do {
		before = __rdtsc();
		prepare(way, kind, sp);
		rt_record(NUMBER, kind, sp);
		read_outcome(&wanted, before);
	} while (__rdtsc() >> IP_TIME_BITS != before >> IP_TIME_BITS);

	hook_address = base + offset;
	hook_way = jump			  ? hook_by_jump
		   : tail		  ? hook_by_tail
		   : returns		  ? hook_by_return
		   : regs == IP_REGS_ALL  ? hook_by_push
		   : regs == IP_REGS_CALL ? hook_by_call
					  : hook_by_below;
	do {
		fill_registers(jump ? IP_REGS_ALL : regs);
		for (int i = 0; i < 16; i++)
			zone[i] = ((uint64_t *)hook_stack)[i - 16] = random64();
		fill_stack();
		memset(hook_vectors_out, 0, VECTORS);
		if (hook_mask)
			memcpy((char *)hook_vectors_out, hook_vectors_in, VECTORS);
		before = __rdtsc();
		prepare(way, kind, sp);
		hook_call();
		read_outcome(&found, before);
	} while (__rdtsc() >> IP_TIME_BITS != before >> IP_TIME_BITS);

	check_registers(jump ? IP_REGS_ALL : regs, what);
	for (int i = 0; i < 16; i++) {
		if (jump && zone[i] != ((uint64_t *)hook_stack)[i - 16])
			fail_msg("%s: red zone has changed", what);
		if (((uint64_t *)hook_stack)[i] != above(i))
			fail_msg("%s: the stack above has changed", what);
	}
	if (way == SITES_INLINED && kind == IP_PROBE_ENTRY) {
		/* the return addresses of two callers */
		assert_int_not_equal(found.words[0][POSITION + IP_PAYLOAD_HEAD], 0);
		found.words[0][POSITION + IP_PAYLOAD_HEAD] = 1;
	}
	if (memcmp(&wanted, &found, sizeof(found)))
		fail_msg("%s: rt_record() leaves another state: cur %#lx, %#lx; epoch %#lx, %#lx; "
			 "word %#lx, %#lx",
			 what, wanted.slots[0].cur, found.slots[0].cur, wanted.slots[0].epoch,
			 found.slots[0].epoch, wanted.words[0][POSITION], found.words[0][POSITION]);
	/* the way was the one that was meant */
	if (way == COMMON || way == STALE_GUARD || way == NESTED || way == EPOCH ||
	    way == FAR_BELOW || way == FAR_ABOVE)
		assert_int_equal(found.slots[0].cur, POSITION + (way == COMMON ? 1 : IP_EXT_WORDS));
	if (way == SILENT)
		assert_int_equal(found.slots[0].cur, POSITION);
	if (way == NEVER_HEARD)
		assert_false(found.has_slot || found.slots[0].cur);
	if (way == EXHAUSTED)
		assert_int_equal(found.slots[0].lost, 1);
	if (way == COARSE_LAST)
		assert_int_equal(found.slots[0].cur, IP_SUBBUF_WORDS - IP_SUBBUF_SPARE);
	if (way == CLAIM || way == FULL || way == FULL_NESTED || way == COARSE_FULL)
		assert_int_equal(found.slots[0].cur >> IP_POSITION_BITS, 1);
	if (way == CAREFUL || way == COARSE || way == COARSE_LATER || way == DUTY_LOG ||
	    way == DUTY_COARSE)
		assert_int_equal(found.slots[0].cur, POSITION + 1);
	if (way == SITES || way == SITES_INLINED || way == SITES_STALE || way == SITES_LAST)
		assert_int_equal(found.slots[0].cur - wanted_begin(way),
				 kind == IP_PROBE_ENTRY ? IP_PAYLOAD_HEAD + 1
				 : way == SITES_STALE	? IP_EXT_WORDS
							: 1);
	if (way == SITES && kind == IP_PROBE_ENTRY)
		assert_int_equal(found.words[0][POSITION + IP_PAYLOAD_HEAD], above(2));
	if (way == SITES_UNKNOWN || way == SITES_NO_RULE || way == SITES_ZERO ||
	    way == SITES_OTHER_PAGE)
		assert_int_equal(found.slots[0].cur, POSITION + 1);
	if (way == SITES_FULL)
		assert_int_equal(found.slots[0].cur >> IP_POSITION_BITS, kind == IP_PROBE_ENTRY);
	if (way == COARSE_NESTED || way == COARSE_EPOCH)
		assert_int_equal(found.slots[0].cur, POSITION + IP_EXT_WORDS);
	if (way >= SILENCED && way < MODES_CLAIM)
		assert_int_equal(found.slots[0].cur, POSITION);
	check_meters(way, kind);
	assert_int_equal(!found.slots[0].guard, way != NESTED && way != FULL_NESTED &&
							way != COARSE_NESTED &&
							way != SITES_NESTED);
}

static void test_hooks(void **state)
{
	(void)state;
	for (unsigned kind = 1; kind <= IP_HOOK_KINDS; kind++)
		for (unsigned regs = 0; regs < IP_HOOK_REGS; regs++)
			for (int way = 0; way < WAYS; way++)
				for (int round = 0; round < 20; round++)
					compare("hook", rt_hooks_base, rt_hooks[kind - 1][regs],
						kind, regs, IP_FORM_CALL, way);
}

/* Call sites alone do not take the way through C, which would leave everything out here. */
static void test_call_sites_in_line(void **state)
{
	(void)state;
	for (unsigned kind = 1; kind <= IP_HOOK_KINDS; kind++) {
		fill_registers(IP_REGS_CALL);
		fill_stack();
		prepare(SITES, kind, hook_stack);
		rt_filters->stopped = 1;
		hook_address = rt_hooks_base + rt_hooks[kind - 1][IP_REGS_CALL];
		hook_way = hook_by_call;
		hook_call();
		assert_int_equal(rt_slots[0].filtered, 0);
		assert_int_equal(rt_slots[0].cur,
				 POSITION + (kind == IP_PROBE_ENTRY ? IP_PAYLOAD_HEAD + 1 : 1));
		/* with anything else they do */
		prepare(SITES, kind, hook_stack);
		rt_filters->stopped = 1;
		rt_slots[0].modes &= ~IP_MODE_SITES;
		hook_call();
		assert_int_equal(rt_slots[0].filtered, 1);
		assert_int_equal(rt_slots[0].cur, POSITION);
	}
}

static void test_jump_hooks(void **state)
{
	(void)state;
	for (unsigned kind = 1; kind <= IP_HOOK_KINDS; kind++)
		for (int way = 0; way < WAYS; way++)
			for (int round = 0; round < 20; round++)
				compare("jump hook", rt_hooks_base, rt_jump_hooks[kind - 1], kind,
					IP_REGS_CALL, IP_FORM_JUMP, way);
}

static void test_tail_hook(void **state)
{
	(void)state;
	for (int way = 0; way < WAYS; way++)
		for (int round = 0; round < 20; round++)
			compare("tail hook", rt_hooks_base, rt_tail_hook, IP_PROBE_TAIL_EXIT,
				AT_TAIL, IP_FORM_TAIL, way);
}

/* It is called as the tail hook is, and records what the hook of an entry records. */
static void test_plt_hook(void **state)
{
	(void)state;
	for (int way = 0; way < WAYS; way++)
		for (int round = 0; round < 20; round++)
			compare("PLT hook", rt_hooks_base, rt_plt_hook, IP_PROBE_ENTRY, AT_TAIL,
				IP_FORM_PLT, way);
}

static void test_return_hook(void **state)
{
	(void)state;
	for (int way = 0; way < WAYS; way++)
		for (int round = 0; round < 20; round++)
			compare("return hook", rt_hooks_base, rt_return_hook, IP_PROBE_EXIT,
				IP_REGS_RETURN, IP_FORM_RETURN, way);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hooks),	   cmocka_unit_test(test_call_sites_in_line),
		cmocka_unit_test(test_jump_hooks), cmocka_unit_test(test_return_hook),
		cmocka_unit_test(test_tail_hook),  cmocka_unit_test(test_plt_hook)};

	return cmocka_run_group_tests(tests, setup, NULL);
}
