/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points and scopes of your own in C and C++ programs, for iprobe, and also for gdb, bpftrace and
 * perf.
 *
 *   IPROBE_POINT(name);                  marks a place; a trace can show that control came by here
 *   IPROBE_POINT(name, arg...);          and with which values: up to six integers, enumerations,
 *                                        pointers or strings (char *); iprobe shows each under the
 *                                        text that it has in the source
 *   IPROBE_POINT(name, IPROBE_STRING(p)) the bytes at p as a string, whatever p points to
 *   IPROBE_POINT(name, IPROBE_HEX(n))    the integer n in hexadecimal
 *   IPROBE_SCOPE(name);                  from here to the end of the block, however control leaves
 *                                        it: return, break, goto, exception
 *   IPROBE_NO_PROBE                      attribute of a function that must never have probes
 *
 * name is an identifier. iprobe shows points of the same name as one point.
 *
 * A point is a 5-byte NOP for iprobe and a 1-byte NOP for the other tools. A scope has two of each.
 * Beside the code there are records that are not loaded into memory: those for coldpatch in section
 * .iprobe.points, those for the other tools in the form of SystemTap (.note.stapsdt; the provider
 * is "iprobe", unless IPROBE_PROVIDER is defined before this header is included). Nothing is linked
 * in or called. So a program that is built with this header and without iprobe runs the same.
 * `coldpatch PROGRAM` makes its points ready for use.
 *
 * Arguments are always evaluated, exactly once. They are not copied: the records only note where
 * they are (register, memory, constant). For a string, memory is up to date, as
 * before a call.
 *
 * This file needs no other file: you may keep a copy in your sources. It supports gcc 9 and later,
 * clang 11 and later, C from gnu89 or c99 on and C++ from 11 on, on x86-64. Elsewhere the macros
 * only evaluate their arguments. If IPROBE_DISABLE is defined, the macros do nothing, and their
 * arguments are not evaluated.
 */
#ifndef IPROBE_PROBE_H
#define IPROBE_PROBE_H

/* Variadic macros, statement expressions, nested functions: -pedantic must not complain about
 * them. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif

/* clang checks the strings of these macros as if they were the user's; C90's limit is 509
 * characters. */
#if defined(__clang__) && !defined(__STDC_VERSION__) && !defined(__cplusplus)
#pragma clang diagnostic ignored "-Woverlength-strings"
#endif

#ifdef __has_attribute
#if __has_attribute(patchable_function_entry)
#define IPROBE_NO_PATCHABLE_ , __patchable_function_entry__(0)
#endif
#if __has_attribute(xray_never_instrument)
#define IPROBE_NO_XRAY_ , __xray_never_instrument__
#endif
#endif
#ifndef IPROBE_NO_PATCHABLE_
#define IPROBE_NO_PATCHABLE_
#endif
#ifndef IPROBE_NO_XRAY_
#define IPROBE_NO_XRAY_
#endif
#if defined(__GNUC__)
#define IPROBE_NO_PROBE                                                                            \
	__attribute__((__no_instrument_function__ IPROBE_NO_PATCHABLE_ IPROBE_NO_XRAY_))
#else
#define IPROBE_NO_PROBE
#endif

/* Expands to its twelfth argument. The caller puts a list of macros behind its own arguments, so
 * the number of these arguments decides which macro is chosen. */
#define IPROBE_SELECT_(p, a, b, c, d, e, f, g, h, i, j, chosen, ...) chosen
#define IPROBE_PASTE_(a, b)					     IPROBE_PASTE2_(a, b)
#define IPROBE_PASTE2_(a, b)					     a##b
#define IPROBE_STRING_(a)					     IPROBE_STRING2_(a)
#define IPROBE_STRING2_(a)					     #a

/* An argument of IPROBE_POINT whose bytes are a string: unsigned char *, void * and the like. */
#define IPROBE_STRING(p) ((const char *)(const void *)(p))

/* An argument of IPROBE_POINT that is shown in hexadecimal: the bytes of an integer or an
 * enumeration, without an extension of its sign. Where pointers have 32 bits, the upper half of a
 * larger integer is lost. Its type, which nothing else has, tells it from a pointer. */
struct iprobe_hex_;
#define IPROBE_HEX(n)                                                                              \
	((const struct iprobe_hex_ *)((__UINTPTR_TYPE__)(n) &                                      \
				      (IPROBE_BYTES_(n) >= sizeof(void *)                          \
					       ? ~(__UINTPTR_TYPE__)0                              \
					       : ((__UINTPTR_TYPE__)1                              \
						  << 8 * (IPROBE_BYTES_(n) &                       \
							  (sizeof(void *) - 1))) -                 \
							 1)))
/* Evaluates nothing. n may be a bit-field, of which C++ takes no size: it has its type there. */
#if defined(__cplusplus)
#define IPROBE_BYTES_(n) sizeof(decltype(((void)0, (n))))
#else
#define IPROBE_BYTES_(n) sizeof(((void)0, (n)))
#endif

#ifndef IPROBE_PROVIDER
#define IPROBE_PROVIDER iprobe
#endif

#define IPROBE_POINT(name, ...)                                                                    \
	IPROBE_SELECT_(name, ##__VA_ARGS__, IPROBE_MORE_THAN_SIX_ARGUMENTS_,                       \
		       IPROBE_MORE_THAN_SIX_ARGUMENTS_, IPROBE_MORE_THAN_SIX_ARGUMENTS_,           \
		       IPROBE_MORE_THAN_SIX_ARGUMENTS_, IPROBE_POINT6_, IPROBE_POINT5_,            \
		       IPROBE_POINT4_, IPROBE_POINT3_, IPROBE_POINT2_, IPROBE_POINT1_,             \
		       IPROBE_POINT0_, ~)                                                          \
	(#name, #__VA_ARGS__, ##__VA_ARGS__)

#if defined(__cplusplus)
#define IPROBE_MORE_THAN_SIX_ARGUMENTS_(...)                                                       \
	static_assert(false, "IPROBE_POINT takes at most six arguments")
#else
#define IPROBE_MORE_THAN_SIX_ARGUMENTS_(...)                                                       \
	_Static_assert(0, "IPROBE_POINT takes at most six arguments")
#endif

#if defined(IPROBE_DISABLE)
/*
 * Generates no code. Variables that only points use still count as used for the compiler.
 */
#if defined(__GNUC__)
#define IPROBE_EVALUATE_(x) (void)(__typeof__(((void)0, (x))) *)0
#else
#define IPROBE_EVALUATE_(x) (void)sizeof(x)
#endif
#define IPROBE_SCOPE(name) struct iprobe_no_scope_

#elif !defined(__GNUC__) || defined(__TINYC__) || !defined(__x86_64__) || defined(__ILP32__) ||    \
	defined(__CUDA_ARCH__)
/*
 * Evaluates the arguments, and does no more.
 */
#define IPROBE_EVALUATE_(x) (void)(x)
#define IPROBE_SCOPE(name)  struct iprobe_no_scope_

#else

/* __inline__: the compiler counts it as one instruction, however long the text is. */
#define IPROBE_ASM_ __asm__ __inline__ __volatile__

/*
 * A record of .iprobe.points has
 *   - 4 bytes: its size; 1: version; 1: kind (0 point, 1 begin, 2 end of a scope); 1: mask of the
 *     arguments that are strings; 1: mask of those that are other pointers; 8: link-time address of
 *     the site; from version 2 on 8 more: link-time address of the text of the arguments in the
 *     source, or 0. In version 3, what is in both masks is a number of IPROBE_HEX;
 *   - then name, arguments, identity, each ended by a NUL; padded to a multiple of 8.
 *
 * Each argument is "SIZE@OPERAND;"; SIZE is negative for a signed one. identity: for an end without
 * a name, the hash of its name, as an operand. The text is a constant of the program: in the
 * template of an asm statement, a % or { of it would mean something.
 *
 * The sections are not loaded, so an absolute address needs no relocation at run time, as in debug
 * information. "?o": they are dropped together with the code (groups, --gc-sections).
 */
/* The nop in front gives both NOPs their line: it is an instruction for the assembler, and bytes
 * are not. */
#define IPROBE_SITE_                                                                               \
	"\n"                                                                                       \
	".Liprobe_note%=:\n\t"                                                                     \
	"nop\n"                                                                                    \
	".Liprobe_site%=:\n\t"                                                                     \
	".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\t"

#define IPROBE_RECORD_(kind, masks, name, args, identity)                                          \
	IPROBE_ANY_RECORD_("1", "", kind, masks, name, args, identity)
#define IPROBE_ANY_RECORD_(version, text, kind, masks, name, args, identity)                       \
	".pushsection .iprobe.points, \"?o\", @progbits, .Liprobe_site%=\n\t"                      \
	".balign 8\n"                                                                              \
	".Liprobe_record%=:\n\t"                                                                   \
	".4byte .Liprobe_record_end%= - .Liprobe_record%=\n\t"                                     \
	".byte " version ", " kind "\n\t"                                                          \
	".2byte " masks "\n\t"                                                                     \
	".8byte .Liprobe_site%=\n\t" text ".asciz \"" name "\"\n\t"                                \
	".asciz \"" args "\"\n\t"                                                                  \
	".asciz \"" identity "\"\n\t"                                                              \
	".balign 8\n"                                                                              \
	".Liprobe_record_end%=:\n\t"                                                               \
	".popsection\n\t"

#define IPROBE_NOTE_(name, args)                                                                   \
	".pushsection .note.stapsdt, \"?o\", @note, .Liprobe_site%=\n\t"                           \
	".balign 4\n\t"                                                                            \
	".4byte 8, .Liprobe_note_end%= - .Liprobe_note_start%=, 3\n\t"                             \
	".asciz \"stapsdt\"\n"                                                                     \
	".Liprobe_note_start%=:\n\t"                                                               \
	".8byte .Liprobe_note%=, _.stapsdt.base, 0\n\t"                                            \
	".asciz \"" IPROBE_STRING_(IPROBE_PROVIDER) "\"\n\t"                                       \
						    ".asciz \"" name "\"\n\t"                      \
						    ".asciz \"" args "\"\n"                        \
						    ".Liprobe_note_end%=:\n\t"                     \
						    ".balign 4\n\t"                                \
						    ".popsection\n\t"                              \
						    ".ifndef _.stapsdt.base\n\t"                   \
						    ".pushsection .stapsdt.base, \"aG\", "         \
						    "@progbits, .stapsdt.base, comdat\n\t"         \
						    ".weak _.stapsdt.base\n\t"                     \
						    ".hidden _.stapsdt.base\n"                     \
						    "_.stapsdt.base:\n\t"                          \
						    ".space 1\n\t"                                 \
						    ".size _.stapsdt.base, 1\n\t"                  \
						    ".popsection\n\t"                              \
						    ".endif\n"

/*
 * Arguments: their size, negative for signed ones; and whether they are strings (1), other
 * pointers (0x100: a second mask stands above the first), or of IPROBE_HEX (both). These are
 * constants, for which no argument is evaluated.
 */
#if defined(__cplusplus)

extern "C++" {
namespace iprobe_detail
{
template <typename T> T decayed(T);

template <typename T, bool is_enum = __is_enum(T)> struct arg {
	static_assert(
		sizeof(T) == 0,
		"an argument of IPROBE_POINT is an integer, an enumeration, a pointer or a string");
	enum { size = 0, is_string = 0 };
};
template <typename T> struct arg<T, true> {
	typedef __underlying_type(T) number;
	enum { size = (number)-1 < (number)1 ? -(int)sizeof(T) : (int)sizeof(T), is_string = 0 };
};
template <typename T> struct arg<T *, false> {
	enum { size = 8, is_string = 0x100 };
};
#define IPROBE_INTEGER_(type)                                                                      \
	template <> struct arg<type, false> {                                                      \
		enum {                                                                             \
			size = (type)-1 < (type)1 ? -(int)sizeof(type) : (int)sizeof(type),        \
			is_string = 0                                                              \
		};                                                                                 \
	};
IPROBE_INTEGER_(char)
IPROBE_INTEGER_(signed char)
IPROBE_INTEGER_(unsigned char)
IPROBE_INTEGER_(short)
IPROBE_INTEGER_(unsigned short)
IPROBE_INTEGER_(int)
IPROBE_INTEGER_(unsigned int)
IPROBE_INTEGER_(long)
IPROBE_INTEGER_(unsigned long)
IPROBE_INTEGER_(long long)
IPROBE_INTEGER_(unsigned long long)
IPROBE_INTEGER_(wchar_t)
IPROBE_INTEGER_(char16_t)
IPROBE_INTEGER_(char32_t)
#if defined(__cpp_char8_t)
IPROBE_INTEGER_(char8_t)
#endif
#undef IPROBE_INTEGER_
template <> struct arg<bool, false> {
	enum { size = 1, is_string = 0 };
};
#define IPROBE_STRING_TYPE_(type)                                                                  \
	template <> struct arg<type, false> {                                                      \
		enum { size = 8, is_string = 1 };                                                  \
	};
IPROBE_STRING_TYPE_(char *)
IPROBE_STRING_TYPE_(const char *)
IPROBE_STRING_TYPE_(volatile char *)
IPROBE_STRING_TYPE_(const volatile char *)
#undef IPROBE_STRING_TYPE_
template <> struct arg<const iprobe_hex_ *, false> {
	enum { size = 8, is_string = 0x101 };
};
} // namespace iprobe_detail
}

#define IPROBE_ARG_(x)	     ::iprobe_detail::arg<__typeof__(::iprobe_detail::decayed(x))>
#define IPROBE_SIZE_(x)	     ((int)IPROBE_ARG_(x)::size)
#define IPROBE_IS_STRING_(x) ((int)IPROBE_ARG_(x)::is_string)
#define IPROBE_CHECK_(x)     (void)0

#else /* C */

/* The type that x has as a value: arrays are pointers then. */
#define IPROBE_TYPE_(x)	      __typeof__(((void)0, (x)))
#define IPROBE_IS_A_(x, type) __builtin_types_compatible_p(IPROBE_TYPE_(x), type)
/* 5: pointer; 1..4: integer, character, enumeration, boolean */
#define IPROBE_CLASS_(x)      __builtin_classify_type(((void)0, (x)))
#define IPROBE_IS_STRING_(x)                                                                       \
	(IPROBE_IS_A_(x, char *) || IPROBE_IS_A_(x, const char *) ||                               \
			 IPROBE_IS_A_(x, volatile char *) ||                                       \
			 IPROBE_IS_A_(x, const volatile char *)                                    \
		 ? 1                                                                               \
	 : IPROBE_IS_A_(x, const struct iprobe_hex_ *) ? 0x101                                     \
	 : IPROBE_CLASS_(x) == 5		       ? 0x100                                     \
						       : 0)
#define IPROBE_INTEGER_(x)                                                                         \
	__typeof__(__builtin_choose_expr(IPROBE_CLASS_(x) >= 1 && IPROBE_CLASS_(x) <= 4,           \
					 ((void)0, (x)), 0U))
#define IPROBE_SIZE_(x)                                                                            \
	((int)sizeof(IPROBE_TYPE_(x)) * ((IPROBE_INTEGER_(x)) - 1 < (IPROBE_INTEGER_(x))1 ? -1 : 1))
#define IPROBE_CHECK_(x)                                                                           \
	__extension__ _Static_assert(IPROBE_CLASS_(x) >= 1 && IPROBE_CLASS_(x) <= 5 &&             \
					     sizeof(IPROBE_TYPE_(x)) <= 8,                         \
				     "an argument of IPROBE_POINT is an integer, an enumeration, " \
				     "a pointer or a string")

#endif

/* clang copies everything to memory that may be there */
#if defined(__clang__)
#define IPROBE_ANYWHERE_ "nr"
#else
#define IPROBE_ANYWHERE_ "nor"
#endif

/* %P: the constant's address, without (%rip). Code of the large model has it in a register. .reloc:
 * a linker that drops what nothing loaded refers to (mold --gc-sections) sees a reference. */
#if defined(__code_model_large__)
#define IPROBE_TEXT_OPERAND_(text)
#define IPROBE_RECORD_OF_POINT_(name, args)                                                        \
	IPROBE_ANY_RECORD_("%c[version]", ".8byte 0\n\t", "0", "%c[mask]", name, args, "")
#else
#define IPROBE_TEXT_OPERAND_(text) [words] "m"(text),
#define IPROBE_RECORD_OF_POINT_(name, args)                                                        \
	".reloc .Liprobe_site%=, R_X86_64_NONE, %P[words]\n\t" IPROBE_ANY_RECORD_(                 \
		"%c[version]", ".8byte %P[words]\n\t", "0", "%c[mask]", name, args, "")
#endif

/* Only what a coldpatch of before IPROBE_HEX had a type would take for a string is version 3. */
#define IPROBE_VERSION_(strings) ((strings) & (strings) >> 8 & 0xff ? 3 : 2)

/* name, text of the arguments, their number, masks of the strings and of other pointers, "memory"
 * or "cc" (which an asm statement clobbers anyway), operands */
#define IPROBE_EMIT_(name, text, n, strings, clobber, ...)                                         \
	IPROBE_ASM_(IPROBE_SITE_ IPROBE_RECORD_OF_POINT_(name, IPROBE_TEXT##n##_(";"))             \
			    IPROBE_NOTE_(name, IPROBE_TEXT##n##_(" "))                             \
		    :                                                                              \
		    : [mask] "n"(strings), [version] "n"(IPROBE_VERSION_(strings)),                \
		      IPROBE_TEXT_OPERAND_(text) __VA_ARGS__                                       \
		    : clobber)
/* Only for a string, the compiler must have written to memory what it would keep elsewhere. The
 * condition is a constant, so only one of the two remains. */
#define IPROBE_EMIT_EITHER_(name, text, n, strings, ...)                                           \
	do {                                                                                       \
		if ((strings) & ~(strings) >> 8 & 0xff)                                            \
			IPROBE_EMIT_(name, text, n, strings, "memory", __VA_ARGS__);               \
		else                                                                               \
			IPROBE_EMIT_(name, text, n, strings, "cc", __VA_ARGS__);                   \
	} while (0)

#define IPROBE_TEXT_(n)	      "%c[s" #n "]@%[a" #n "]"
#define IPROBE_TEXT1_(sep)    IPROBE_TEXT_(1)
#define IPROBE_TEXT2_(sep)    IPROBE_TEXT1_(sep) sep IPROBE_TEXT_(2)
#define IPROBE_TEXT3_(sep)    IPROBE_TEXT2_(sep) sep IPROBE_TEXT_(3)
#define IPROBE_TEXT4_(sep)    IPROBE_TEXT3_(sep) sep IPROBE_TEXT_(4)
#define IPROBE_TEXT5_(sep)    IPROBE_TEXT4_(sep) sep IPROBE_TEXT_(5)
#define IPROBE_TEXT6_(sep)    IPROBE_TEXT5_(sep) sep IPROBE_TEXT_(6)
#define IPROBE_OPERAND_(n, x) [s##n] "n"(IPROBE_SIZE_(x)), [a##n] IPROBE_ANYWHERE_(x)

#define IPROBE_POINT0_(name, text)                                                                 \
	IPROBE_ASM_(IPROBE_SITE_ IPROBE_RECORD_("0", "0", name, "", "") IPROBE_NOTE_(name, "")     \
		    :                                                                              \
		    :                                                                              \
		    : "cc")
#define IPROBE_POINT1_(name, text, a)                                                              \
	do {                                                                                       \
		IPROBE_CHECK_(a);                                                                  \
		IPROBE_EMIT_EITHER_(name, text, 1, IPROBE_IS_STRING_(a), IPROBE_OPERAND_(1, a));   \
	} while (0)
#define IPROBE_POINT2_(name, text, a, b)                                                           \
	do {                                                                                       \
		IPROBE_CHECK_(a);                                                                  \
		IPROBE_CHECK_(b);                                                                  \
		IPROBE_EMIT_EITHER_(name, text, 2,                                                 \
				    IPROBE_IS_STRING_(a) | IPROBE_IS_STRING_(b) << 1,              \
				    IPROBE_OPERAND_(1, a), IPROBE_OPERAND_(2, b));                 \
	} while (0)
#define IPROBE_POINT3_(name, text, a, b, c)                                                        \
	do {                                                                                       \
		IPROBE_CHECK_(a);                                                                  \
		IPROBE_CHECK_(b);                                                                  \
		IPROBE_CHECK_(c);                                                                  \
		IPROBE_EMIT_EITHER_(name, text, 3,                                                 \
				    IPROBE_IS_STRING_(a) | IPROBE_IS_STRING_(b) << 1 |             \
					    IPROBE_IS_STRING_(c) << 2,                             \
				    IPROBE_OPERAND_(1, a), IPROBE_OPERAND_(2, b),                  \
				    IPROBE_OPERAND_(3, c));                                        \
	} while (0)
#define IPROBE_POINT4_(name, text, a, b, c, d)                                                     \
	do {                                                                                       \
		IPROBE_CHECK_(a);                                                                  \
		IPROBE_CHECK_(b);                                                                  \
		IPROBE_CHECK_(c);                                                                  \
		IPROBE_CHECK_(d);                                                                  \
		IPROBE_EMIT_EITHER_(name, text, 4,                                                 \
				    IPROBE_IS_STRING_(a) | IPROBE_IS_STRING_(b) << 1 |             \
					    IPROBE_IS_STRING_(c) << 2 | IPROBE_IS_STRING_(d) << 3, \
				    IPROBE_OPERAND_(1, a), IPROBE_OPERAND_(2, b),                  \
				    IPROBE_OPERAND_(3, c), IPROBE_OPERAND_(4, d));                 \
	} while (0)
#define IPROBE_POINT5_(name, text, a, b, c, d, e)                                                  \
	do {                                                                                       \
		IPROBE_CHECK_(a);                                                                  \
		IPROBE_CHECK_(b);                                                                  \
		IPROBE_CHECK_(c);                                                                  \
		IPROBE_CHECK_(d);                                                                  \
		IPROBE_CHECK_(e);                                                                  \
		IPROBE_EMIT_EITHER_(name, text, 5,                                                 \
				    IPROBE_IS_STRING_(a) | IPROBE_IS_STRING_(b) << 1 |             \
					    IPROBE_IS_STRING_(c) << 2 |                            \
					    IPROBE_IS_STRING_(d) << 3 | IPROBE_IS_STRING_(e) << 4, \
				    IPROBE_OPERAND_(1, a), IPROBE_OPERAND_(2, b),                  \
				    IPROBE_OPERAND_(3, c), IPROBE_OPERAND_(4, d),                  \
				    IPROBE_OPERAND_(5, e));                                        \
	} while (0)
#define IPROBE_POINT6_(name, text, a, b, c, d, e, f)                                               \
	do {                                                                                       \
		IPROBE_CHECK_(a);                                                                  \
		IPROBE_CHECK_(b);                                                                  \
		IPROBE_CHECK_(c);                                                                  \
		IPROBE_CHECK_(d);                                                                  \
		IPROBE_CHECK_(e);                                                                  \
		IPROBE_CHECK_(f);                                                                  \
		IPROBE_EMIT_EITHER_(                                                               \
			name, text, 6,                                                             \
			IPROBE_IS_STRING_(a) | IPROBE_IS_STRING_(b) << 1 |                         \
				IPROBE_IS_STRING_(c) << 2 | IPROBE_IS_STRING_(d) << 3 |            \
				IPROBE_IS_STRING_(e) << 4 | IPROBE_IS_STRING_(f) << 5,             \
			IPROBE_OPERAND_(1, a), IPROBE_OPERAND_(2, b), IPROBE_OPERAND_(3, c),       \
			IPROBE_OPERAND_(4, d), IPROBE_OPERAND_(5, e), IPROBE_OPERAND_(6, f));      \
	} while (0)

/*
 * Scopes
 */
#define IPROBE_BEGIN_(name)                                                                        \
	IPROBE_ASM_(IPROBE_SITE_ IPROBE_RECORD_("1", "0", name, "", "")                            \
			    IPROBE_NOTE_(name "__begin", "")                                       \
		    :                                                                              \
		    :                                                                              \
		    : "cc")
#define IPROBE_END_(name)                                                                          \
	IPROBE_ASM_(IPROBE_SITE_ IPROBE_RECORD_("2", "0", name, "", "")                            \
			    IPROBE_NOTE_(name "__end", "")                                         \
		    :                                                                              \
		    :                                                                              \
		    : "cc")
#define IPROBE_INLINE_ __inline__ __attribute__((__always_inline__, __no_instrument_function__))

#if defined(__cplusplus)

#define IPROBE_SCOPE(name)                                                                         \
	IPROBE_SCOPE_(#name, IPROBE_PASTE_(iprobe_scope_##name##_, __LINE__),                      \
		      IPROBE_PASTE_(iprobe_scope_type_##name##_, __LINE__))
#define IPROBE_SCOPE_(name, variable, type)                                                        \
	struct type {                                                                              \
		IPROBE_INLINE_ type()                                                              \
		{                                                                                  \
			IPROBE_BEGIN_(name);                                                       \
		}                                                                                  \
		IPROBE_INLINE_ ~type()                                                             \
		{                                                                                  \
			IPROBE_END_(name);                                                         \
		}                                                                                  \
	} variable

#elif defined(__clang__)
/*
 * clang's C has no nested functions, so all scopes share one cleanup function. A constant says
 * which scope it is: the hash of its name. Optimisation brings this constant to the place where the
 * function is inlined. Without optimisation coldpatch pairs the ends with the beginnings by their
 * order.
 */
#define IPROBE_HASH1_(s, i, h)                                                                     \
	((h)*31 + ((i) < sizeof(s) ? (unsigned char)(s)[(i) < sizeof(s) ? (i) : 0] : 0))
#define IPROBE_HASH4_(s, i, h)                                                                     \
	IPROBE_HASH1_(                                                                             \
		s, (i) + 3,                                                                        \
		IPROBE_HASH1_(s, (i) + 2, IPROBE_HASH1_(s, (i) + 1, IPROBE_HASH1_(s, i, h))))
#define IPROBE_HASH16_(s, i, h)                                                                    \
	IPROBE_HASH4_(                                                                             \
		s, (i) + 12,                                                                       \
		IPROBE_HASH4_(s, (i) + 8, IPROBE_HASH4_(s, (i) + 4, IPROBE_HASH4_(s, i, h))))
#define IPROBE_HASH32_(s)  IPROBE_HASH16_(s, 16u, IPROBE_HASH16_(s, 0u, 0ul))
#define IPROBE_HASH_(s)	   IPROBE_HASH16_(s, 32u, IPROBE_HASH32_(s))

static IPROBE_INLINE_ __attribute__((__unused__)) void iprobe_scope_end_(const unsigned long *hash)
{
	IPROBE_ASM_(IPROBE_SITE_ IPROBE_RECORD_("2", "0", "", "", "8@%[hash]")
		    :
		    : [hash] "ri"(*hash)
		    : "cc");
}
#define IPROBE_SCOPE(name) IPROBE_SCOPE_(#name, IPROBE_PASTE_(iprobe_scope_##name##_, __LINE__))
#define IPROBE_SCOPE_(name, variable)                                                              \
	const unsigned long variable __attribute__((__cleanup__(iprobe_scope_end_), __unused__)) = \
		__extension__({                                                                    \
			IPROBE_BEGIN_(name);                                                       \
			IPROBE_HASH_(name);                                                        \
		})

#else

struct iprobe_scope_ {
};
#define IPROBE_SCOPE(name)                                                                         \
	IPROBE_SCOPE_(#name, IPROBE_PASTE_(iprobe_scope_##name##_, __LINE__),                      \
		      IPROBE_PASTE_(iprobe_scope_end_##name##_, __LINE__))
#define IPROBE_SCOPE_(name, variable, end)                                                         \
	__extension__ IPROBE_INLINE_ void end(struct iprobe_scope_ *scope                          \
					      __attribute__((__unused__)))                         \
	{                                                                                          \
		IPROBE_END_(name);                                                                 \
	}                                                                                          \
	struct iprobe_scope_ variable __attribute__((__cleanup__(end), __unused__)) =              \
		__extension__({                                                                    \
			IPROBE_BEGIN_(name);                                                       \
			(struct iprobe_scope_){};                                                  \
		})

#endif
#endif

#if defined(IPROBE_EVALUATE_)
#define IPROBE_POINT0_(name, text)	    ((void)0)
#define IPROBE_POINT1_(name, text, a)	    IPROBE_EVALUATE_(a)
#define IPROBE_POINT2_(name, text, a, b)    (IPROBE_POINT1_(name, text, a), IPROBE_EVALUATE_(b))
#define IPROBE_POINT3_(name, text, a, b, c) (IPROBE_POINT2_(name, text, a, b), IPROBE_EVALUATE_(c))
#define IPROBE_POINT4_(name, text, a, b, c, d)                                                     \
	(IPROBE_POINT3_(name, text, a, b, c), IPROBE_EVALUATE_(d))
#define IPROBE_POINT5_(name, text, a, b, c, d, e)                                                  \
	(IPROBE_POINT4_(name, text, a, b, c, d), IPROBE_EVALUATE_(e))
#define IPROBE_POINT6_(name, text, a, b, c, d, e, f)                                               \
	(IPROBE_POINT5_(name, text, a, b, c, d, e), IPROBE_EVALUATE_(f))
#endif

#endif
