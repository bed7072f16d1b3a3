/* SPDX-License-Identifier: Apache-2.0 */
/* Points whose arguments lie in registers, on the stack, in the program's data, behind pointers,
 * and in the code; what they are is said on stdout as values.c does: a list, in their order. */
#include <iprobe/probe.h>
#include <stdint.h>
#include <stdio.h>

static int global = 77;
static const char *text = "text of the module";
static unsigned char bytes[] = "bytes";

struct record {
	int a;
	long b;
	char *name;
};

__attribute__((noinline)) void work(int i, const char *name, const struct record *p,
				    unsigned char c)
{
	volatile long array[4] = {i, i * 2, i * 3, -i};

	IPROBE_POINT(plain);
	IPROBE_POINT(begin, i, name);
	IPROBE_POINT(fields, p->a, p->b, p->name, c, (short)-5, 123456789);
	IPROBE_POINT(data, global, text, array[i & 3], (int64_t)0x123456789abcdef0,
		     (uint16_t)65535);
	IPROBE_POINT(pointers, p, &global, IPROBE_STRING(bytes), bytes, (void *)(uintptr_t)i,
		     IPROBE_HEX((short)-1 - i));
	IPROBE_POINT(hex, IPROBE_HEX(c), IPROBE_HEX((short)(-1 - i)), IPROBE_HEX(1ull << 63 | i),
		     IPROBE_HEX(i));
	{
		IPROBE_SCOPE(inner);
		global++;
	}
}

int main(void)
{
	static char first[] = "first";
	struct record records[3] = {{-1, 1l << 40, first}, {2, -3, NULL}, {0, 0, (char *)16}};

	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"\"one\"", "\"two\"", "null"};
		static const char *const fields[] = {"\"first\"", "null",
						     "{\"unreadable\":\"0x10\"}"};
		const struct record *r = &records[i];

		printf("{\"f\":\"plain\"}\n{\"f\":\"begin\",\"list\":[%d,%s]}\n", i, names[i]);
		printf("{\"f\":\"fields\",\"list\":[%d,%ld,%s,%d,-5,123456789]}\n", r->a, r->b,
		       fields[i], 200 + i);
		printf("{\"f\":\"data\",\"list\":[%d,\"%s\",%d,1311768467463790320,65535]}\n",
		       global, text, i * (i + 1));
		printf("{\"f\":\"pointers\",\"list\":[\"%p\",\"%p\",\"bytes\",\"%p\",\"0x%x\","
		       "\"0x%x\"]}\n",
		       (void *)r, (void *)&global, (void *)bytes, i, (unsigned)(-1 - i));
		printf("{\"f\":\"hex\",\"list\":[\"0x%x\",\"0x%x\",\"0x%llx\",\"0x%x\"]}\n",
		       200 + i, (unsigned short)(-1 - i), 1ull << 63 | i, i);
		work(i, i == 0 ? "one" : i == 1 ? "two" : NULL, r, (unsigned char)(200 + i));
	}
	return 0;
}
