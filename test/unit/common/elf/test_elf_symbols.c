/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol tables of files that nobody trusts.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/elf/elf_symbols.h"
#include "common/interrupted.h"
#include "test/unit/make_elf.h"
#include "test/unit/test.h"

#define HOLE (1ull << 30)

static const struct elf_recipe good = {.build_id = "ABCDEFGH"};

struct seen {
	uint64_t n, value, size;
	uint64_t interrupt_at; /* 0: never */
};

static void see(void *context, const GElf_Sym *symbol)
{
	struct seen *seen = context;

	if (++seen->n == seen->interrupt_at)
		ip_interrupted = SIGINT;
	seen->value |= symbol->st_value;
	seen->size |= symbol->st_size;
}

static int look(const struct made_elf *elf, uint64_t size, struct seen *ret)
{
	struct ip_elf_file *file = NULL;
	int fd = made_fd(elf->bytes, elf->size), done;

	assert_int_equal(ftruncate(fd, size), 0);
	if (ip_elf_open_fd(fd, "made", &file) < 0)
		fail_msg("%s", ip_error_message());
	done = ip_elf_each_symbol(file, see, ret);
	ip_elf_close(file);
	close(fd);
	return done;
}

static void test_symbols(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct seen seen = {0};

	assert_int_equal(look(&elf, elf.size, &seen), 0);
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.value, MADE_SYMBOL_VALUE);
	free(elf.bytes);
}

/* A file has one table of a type: a second one, which may be the first one again, is not read. */
static void test_several_tables(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct seen seen = {0};

	elf.shdrs[MADE_NOTE] = elf.shdrs[MADE_BSS] = elf.shdrs[MADE_DYNSYM];
	assert_int_equal(look(&elf, elf.size, &seen), 0);
	assert_int_equal(seen.n, 3);
	elf.shdrs[MADE_BSS].sh_type = SHT_SYMTAB;
	assert_int_equal(look(&elf, elf.size, &seen), 0);
	assert_int_equal(seen.n, 9);
	free(elf.bytes);
}

/* A hole of a gigabyte costs time, and no memory. */
static void test_a_hole(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct seen seen = {0};
	struct rusage before, after;

	elf.shdrs[MADE_DYNSYM].sh_size = HOLE / sizeof(Elf64_Sym) * sizeof(Elf64_Sym);
	getrusage(RUSAGE_SELF, &before);
	assert_int_equal(look(&elf, elf.size + HOLE, &seen), 0);
	getrusage(RUSAGE_SELF, &after);
	assert_int_equal(seen.n, HOLE / sizeof(Elf64_Sym));
	assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
	/* and the user can end that */
	seen = (struct seen){.interrupt_at = 5000};
	assert_int_equal(look(&elf, elf.size + HOLE, &seen), -1);
	ip_interrupted = 0;
	assert_in_range(seen.n, 5000, 10000);
	free(elf.bytes);
}

/* What was there when the file was opened may be cut off. */
static void test_a_file_that_shrinks(void **state)
{
	struct made_elf elf = make_elf(&good);
	struct ip_elf_file *file = NULL;
	struct seen seen = {0};
	int fd = made_fd(elf.bytes, elf.size);

	assert_int_equal(ip_elf_open_fd(fd, "made", &file), 0);
	assert_int_equal(ftruncate(fd, elf.shdrs[MADE_DYNSYM].sh_offset + 4), 0);
	assert_int_equal(ip_elf_each_symbol(file, see, &seen), -1);
	assert_int_equal(seen.n, 0);
	ip_elf_close(file);
	close(fd);
	free(elf.bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_several_tables),
		cmocka_unit_test(test_a_hole),
		cmocka_unit_test(test_a_file_that_shrinks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
