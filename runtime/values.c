/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program that reads values.
 *
 *   1. The operations run in their order. There are no jumps, so a program ends after as many steps
 *      as it has operations.
 *   2. Memory in the page of the site's stack pointer is mapped: it is read by plain loads. All
 *      other memory is read by the kernel (rt_gather(), rt_read()): one call, whose error is a
 *      return value. There is no check before a load, so there is no time between a check and a
 *      load in which another thread could unmap the page.
 *   3. A load waits until its value is needed. Then all loads that wait are read by one call. The
 *      plan orders operations so that each step of all chains of pointers comes together, and the
 *      strings come last, together.
 *   4. The first call also reads where the later loads and strings were found the last time. Where
 *      an address then turns out to be the same, its bytes are there already: in the usual case one
 *      call reads everything. A wrong guess costs some tens of nanoseconds, and is not used.
 *   5. A temporary whose memory could not be read is unknown, and so is what is computed from it,
 *      except for a logical operation that its other operand decides. An unknown value is recorded
 *      as missing. A condition that is unknown is not true.
 */
#include "runtime/values.h"

#include "common/trace/values.h"
#include "runtime/rt.h"
#include "runtime/value_loads.h"

#define PAGE 4096ull

static int is_on_stack_page(const struct rt_run *r, uint64_t address, uint64_t size)
{
	uint64_t page = r->frame->general[RT_STACK_POINTER] / PAGE;

	return address / PAGE == page && (address + size - 1) / PAGE == page;
}

/* Reads size bytes, at least 1. Returns the number of bytes that could be read. */
static uint64_t read_bytes(const struct rt_run *r, uint64_t address, void *to, uint64_t size)
{
	if (!is_on_stack_page(r, address, size))
		return rt_read(address, to, size);
	for (uint64_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = ((const volatile uint8_t *)address)[i];
	return size;
}

static int read_word(const struct rt_run *r, uint64_t address, uint64_t *ret, uint32_t size)
{
	*ret = 0;
	return read_bytes(r, address, ret, size) == size;
}

static uint64_t extend(uint64_t value, uint32_t bits, int is_signed)
{
	uint32_t unused = 64 - bits;

	return is_signed ? (uint64_t)((int64_t)(value << unused) >> unused)
			 : value << unused >> unused;
}

static uint32_t size_of(const struct ip_value_op *op)
{
	return op->size && op->size <= 8 ? op->size : 8;
}

static void put(struct rt_run *r, uint64_t word)
{
	if (r->n < r->room)
		r->words[r->n++] = word;
}

/* Stores st(0) in its own precision. It does so by storing the whole x87 state, which does not
 * change the state. Not inlined, like other functions with large frames: they take the thread's
 * stack only while they run. */
static __attribute__((noinline)) void put_x87(struct rt_run *r)
{
	uint64_t state[64] __attribute__((aligned(16)));

	__asm__ volatile("fxsave64 %0" : "=m"(state));
	put(r, state[4]);
	put(r, state[5] & 0xffff);
}

static void keep(struct rt_run *r, const struct ip_value_op *op, uint64_t value, int there)
{
	uint32_t number = op->limit % IP_PROGRAM_TEMPS;

	r->temporary[number] = there ? value : 0;
	r->unknown = (r->unknown & ~(1ull << number)) | (uint64_t)!there << number;
	r->pending &= ~(1ull << number);
}

static void keep_bytes(struct rt_run *r, const struct ip_value_op *op, const uint8_t *bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < size_of(op); i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	keep(r, op, extend(value, 8 * size_of(op), op->flags & IP_VALUE_SIGNED), 1);
}

/* Step 3: reads what all waiting loads need. A temporary that has got another value since keeps
 * that. */
static __attribute__((noinline)) void read_waiting(struct rt_run *r)
{
	struct rt_loads *l = r->loads;
	struct rt_read_call g;
	uint32_t needed = 0, done, at;
	const uint64_t pending = r->pending;

	g.n = g.size = 0; /* nothing else is read before it is written */

	/* a program that asks for more than it has counted may leave no room for the last ones */
	while (needed < l->nwaiting && rt_read_call_add(l, &g, l->waiting[needed].address,
							size_of(l->waiting[needed].op), RT_READS))
		needed++;
	if (!l->asked)
		rt_read_call_add_guesses(l, &g);
	at = l->used;
	done = rt_read_call_make(l, &g, needed);
	for (uint32_t i = 0; i < l->nwaiting; i++) {
		const struct ip_value_op *op = l->waiting[i].op;

		if (!(pending >> op->limit % IP_PROGRAM_TEMPS & 1))
			;
		else if (i < needed && done >> i & 1)
			keep_bytes(r, op, l->bytes + at);
		else
			keep(r, op, 0, 0);
		at += size_of(op);
	}
	/* what is held for reads to come must stay */
	l->used = needed < g.n ? l->used + g.size : l->used;
	l->nwaiting = 0;
	r->pending = 0;
}

/* The value of a temporary. Returns 0 if it is unknown. */
static int temporary(struct rt_run *r, uint32_t number, uint64_t *ret)
{
	*ret = 0;
	if (number >= IP_PROGRAM_TEMPS)
		return 0;
	if (r->pending >> number & 1)
		read_waiting(r);
	*ret = r->temporary[number];
	return !(r->unknown >> number & 1);
}

/* The sum that a TEMPORARY and a LOAD begin with. */
static int sum(struct rt_run *r, const struct ip_value_op *op, uint64_t *ret)
{
	uint64_t base, index = 0;
	int there = temporary(r, op->base, &base);

	if (op->index != IP_VALUE_NOTHING && !(op->flags & IP_VALUE_COUNTED))
		there &= temporary(r, op->index, &index);
	*ret = base + (uint64_t)op->value + index * op->scale;
	return there;
}

static void load(struct rt_run *r, const struct ip_value_op *op)
{
	struct rt_loads *l = r->loads;
	uint32_t number = op->limit % IP_PROGRAM_TEMPS, size = size_of(op);
	uint64_t address, value;
	const uint8_t *bytes;
	int there = sum(r, op, &address);

	if (!there || !l || !address) {
		if (l)
			l->nreads++;
		keep(r, op, 0, 0);
		return;
	}
	if (is_on_stack_page(r, address, size) || !rt_can_gather(address, size)) {
		l->nreads++;
		there = read_word(r, address, &value, size);
		keep(r, op, extend(value, 8 * size, op->flags & IP_VALUE_SIGNED), there);
		return;
	}
	bytes = rt_loads_held(l, rt_loads_number(l, address, size), address, size);
	if (bytes) {
		keep_bytes(r, op, bytes);
		return;
	}
	/* a second load to the same temporary must not be overtaken by the first */
	if (l->nwaiting == RT_READS || 8 * (l->nwaiting + 1) > l->room - l->used ||
	    r->pending >> number & 1)
		read_waiting(r);
	l->waiting[l->nwaiting].address = address;
	l->waiting[l->nwaiting++].op = op;
	r->pending |= 1ull << number;
}

static void compute(struct rt_run *r, const struct ip_value_op *op)
{
	uint64_t a, b = 0, value = 0;
	int knows_a = temporary(r, op->base, &a);
	int knows_b = op->scale == IP_COMPUTE_NOT || temporary(r, op->index, &b);
	int there = knows_a && knows_b;

	switch (op->scale) {
	case IP_COMPUTE_OR:
		value = (knows_a && a) || (knows_b && b);
		there |= value != 0;
		break;
	case IP_COMPUTE_AND:
		value = a && b;
		there |= (knows_a && !a) || (knows_b && !b);
		break;
	case IP_COMPUTE_EQUAL:
		value = a == b;
		break;
	case IP_COMPUTE_LESS:
		value = op->flags & IP_VALUE_SIGNED ? (int64_t)a < (int64_t)b : a < b;
		break;
	case IP_COMPUTE_ADD:
		value = a + b;
		break;
	case IP_COMPUTE_SUBTRACT:
		value = a - b;
		break;
	case IP_COMPUTE_MULTIPLY:
		value = a * b;
		break;
	case IP_COMPUTE_BITS:
		value = a & b;
		break;
	case IP_COMPUTE_NOT:
		value = !a;
		break;
	default:
		there = 0;
	}
	keep(r, op, value, there);
}

static void take_bits(struct rt_run *r, const struct ip_value_op *op)
{
	uint64_t value;
	int there =
		temporary(r, op->base, &value) && op->scale && op->scale <= 64 && op->index < 64;

	keep(r, op, there ? extend(value >> op->index, op->scale, op->flags & IP_VALUE_SIGNED) : 0,
	     there);
}

/* Operations that hold a text of so many bytes. */
static uint32_t text_ops(uint64_t length)
{
	return (uint32_t)((length + sizeof(struct ip_value_op) - 1) / sizeof(struct ip_value_op));
}

/* Compares a string with a text. Returns the number of operations that hold the text. */
static uint32_t compare(struct rt_run *r, const struct ip_value_op *op, uint32_t left)
{
	const char *text = (const char *)(op + 1);
	uint64_t n = (uint64_t)op->value, address, length = 0, need, got, same = 0;
	char bytes[IP_VALUE_TEXT_MAX + 1];
	int begins = op->flags & IP_VALUE_BEGINS, counted = op->flags & IP_VALUE_COUNTED;
	int there = temporary(r, op->base, &address);

	if (n > IP_VALUE_TEXT_MAX || text_ops(n) > left) {
		keep(r, op, 0, 0);
		return left;
	}
	if (counted)
		there &= temporary(r, op->index, &length);
	need = counted || begins ? n : n + 1;
	if (!there || (counted && (begins ? length < n : length != n))) {
		keep(r, op, 0, there);
		return text_ops(n);
	}
	got = !need ? 0 : address ? read_bytes(r, address, bytes, need) : 0;
	/* behind the text stands the zero byte that ends the string */
	while (same < got && bytes[same] == (same < n ? text[same] : '\0'))
		same++;
	/* where all that was read is the same, and some is missing, the answer is unknown */
	keep(r, op, same == need, same < got || got == need);
	return text_ops(n);
}

static uint64_t general(const struct rt_run *r, uint32_t number)
{
	return number < RT_GENERAL_REGISTERS ? r->frame->general[number] : 0;
}

/* The value of an operation that needs no temporary, or only adds. Returns 0 if it is unknown. */
static int value_of(struct rt_run *r, const struct ip_value_op *op, uint64_t *ret)
{
	uint64_t address;

	*ret = 0;
	switch (op->source) {
	case IP_VALUE_REGISTER:
		*ret = general(r, op->base);
		return 1;
	case IP_VALUE_IMMEDIATE:
		*ret = (uint64_t)op->value;
		return 1;
	case IP_VALUE_MEMORY:
		address = (uint64_t)op->value + general(r, op->base) +
			  general(r, op->index) * op->scale;
		return read_word(r, address, ret, size_of(op));
	case IP_VALUE_VECTOR:
		*ret = r->frame->vector[op->base % RT_VECTOR_REGISTERS];
		return 1;
	case IP_VALUE_TEMPORARY:
		return sum(r, op, ret);
	default:
		return 0;
	}
}

/* How many bytes of a string are read: of one that is not counted, one more than the limit, which
 * tells whether the string ends there. Returns 0 if that is unknown. */
static int size_of_string(struct rt_run *r, const struct ip_value_op *op, uint64_t *ret_counted,
			  uint64_t *ret)
{
	int there = 1;

	*ret_counted = 0;
	*ret = op->limit + 1ull;
	if (op->flags & IP_VALUE_COUNTED) {
		there = temporary(r, op->index, ret_counted);
		*ret = *ret_counted < op->limit ? *ret_counted : op->limit;
	}
	return there;
}

/* Reads the strings of the operations from this one on, whose read has that number, by one call: up
 * to the end of the program there are no other operations. No load may wait: reading it would take
 * room in the buffer after the first piece is sized. */
static __attribute__((noinline)) void read_strings(struct rt_run *r, uint32_t number)
{
	struct rt_loads *l = r->loads;
	struct rt_read_call g;

	g.n = g.size = 0;
	for (uint32_t i = r->at; i < r->nops && number < RT_READS; i++) {
		uint64_t other, counted, need;

		if (!(r->ops[i].flags & IP_VALUE_STRING))
			continue;
		if (value_of(r, &r->ops[i], &other) && other &&
		    size_of_string(r, &r->ops[i], &counted, &need) && need &&
		    !rt_loads_held(l, number, other, need))
			rt_read_call_add(l, &g, other, need, number);
		number++;
	}
	rt_read_call_make(l, &g, g.n);
	l->used += g.size;
	r->strings = 0;
}

static uint64_t read_string(struct rt_run *r, uint64_t address, void *to, uint64_t size)
{
	struct rt_loads *l = r->loads;
	const uint8_t *bytes;
	uint32_t number;

	if (!address || !l) {
		if (l)
			l->nreads++;
		return address ? read_bytes(r, address, to, size) : 0;
	}
	number = rt_loads_number(l, address, size);
	bytes = rt_loads_held(l, number, address, size);
	if (!bytes && l->nwaiting) {
		read_waiting(r);
		bytes = rt_loads_held(l, number, address, size);
	}
	if (!bytes && r->strings > 1 && !is_on_stack_page(r, address, size) && number < RT_READS) {
		read_strings(r, number);
		bytes = rt_loads_held(l, number, address, size);
	}
	if (!bytes)
		return read_bytes(r, address, to, size);
	for (uint64_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = bytes[i];
	return size;
}

/* `limit` bytes and one more byte, which tells whether the string ends there, fit into the words
 * that the program has counted. */
static void put_string(struct rt_run *r, uint64_t address, const struct ip_value_op *op)
{
	uint64_t *head = r->words + r->n;
	char *bytes = (char *)(head + 1);
	uint64_t limit = op->limit, need, got, length = 0, counted;
	int is_counted = op->flags & IP_VALUE_COUNTED;
	int there = size_of_string(r, op, &counted, &need);

	if (r->n + 2 + limit / 8 > r->room || !there) {
		if (r->loads)
			r->loads->nreads++;
		put(r, IP_STRING_UNREADABLE);
		put(r, address);
		return;
	}
	if (is_counted && !counted) {
		if (r->loads)
			r->loads->nreads++;
		*head = 0;
		r->n++;
		return;
	}
	got = read_string(r, address, bytes, need);
	if (!got) {
		put(r, address ? IP_STRING_UNREADABLE : IP_STRING_NULL);
		if (address)
			put(r, address);
		return;
	}
	if (is_counted)
		length = got;
	while (length < got && bytes[length])
		length++;
	*head = length;
	if (is_counted ? got < counted : length == got) { /* no end of the string was found */
		length = length > limit ? limit : length;
		*head = length | IP_STRING_CUT;
	}
	for (uint64_t i = length; i % 8; i++)
		bytes[i] = 0;
	r->n += 1 + (length + 7) / 8;
}

/* Records a value. */
static void put_value(struct rt_run *r, const struct ip_value_op *op)
{
	uint32_t missing = 1u << (r->place++ % 32);
	uint64_t value, high = 0;
	int there;

	if (op->source == IP_VALUE_X87) {
		put_x87(r);
		return;
	}
	there = value_of(r, op, &value);
	if (op->flags & IP_VALUE_LONG) {
		uint64_t address = (uint64_t)op->value + general(r, op->base);

		if (!there || !read_word(r, address + 8, &high, 2))
			r->missing |= missing;
		put(r, value);
		put(r, high);
		return;
	}
	if (!there) {
		r->missing |= missing;
		put(r, op->flags & IP_VALUE_STRING ? IP_STRING_NULL : 0);
		return;
	}
	value = extend(value, 8 * size_of(op), op->flags & IP_VALUE_SIGNED);
	if (op->flags & IP_VALUE_STRING)
		put_string(r, value, op);
	else
		put(r, value);
}

void rt_values_run(struct rt_run *r)
{
	uint64_t value;
	int there;

	for (uint32_t i = 0; i < r->nops; i++) {
		const struct ip_value_op *op = &r->ops[i];

		r->at = i;
		switch (op->source) {
		case IP_VALUE_LOAD:
			load(r, op);
			break;
		case IP_VALUE_BITS:
			take_bits(r, op);
			break;
		case IP_VALUE_COMPUTE:
			compute(r, op);
			break;
		case IP_VALUE_COMPARE:
			i += compare(r, op, r->nops - i - 1);
			break;
		case IP_VALUE_WHEN:
			there = temporary(r, op->base, &value);
			if (!there || !value) {
				r->out = 1;
				return;
			}
			break;
		default:
			if (!(op->flags & IP_VALUE_KEEP)) {
				put_value(r, op);
				break;
			}
			there = value_of(r, op, &value);
			keep(r, op, extend(value, 8 * size_of(op), op->flags & IP_VALUE_SIGNED),
			     there);
		}
	}
}
