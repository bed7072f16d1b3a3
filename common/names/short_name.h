/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short forms of demangled names, for people. What a name loses is what every name of its kind has:
 *
 *   std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::append
 *       -> std::string::append              (and the streams, string views, wide ones)
 *   std::map<int, K, std::less<int>, std::allocator<std::pair<int const, K> > >::find
 *       -> std::map<int, K>::find           (arguments that are the default ones)
 *   f(int, char)::{lambda(std::string const&)#1}::operator()
 *       -> f::{lambda#1}::operator()        (parameters of what a name lies in)
 *   g[abi:cxx11], std::chrono::_V2::x -> g, std::chrono::x
 *
 * A name that is still longer than the limit has its template arguments elided, the innermost ones
 * first: std::map<...>::find. Two names may have one short form: whoever shows a list of names
 * must tell them apart (short_names.h).
 */
#ifndef IP_SHORT_NAME_H
#define IP_SHORT_NAME_H

#include <stddef.h>

/* How long a name may be before template arguments are elided, in bytes. */
#define IP_SHORT_NAME_LIMIT 64

/* Returns the short form of a demangled name, with or without its parameters; malloc'ed, never
 * longer than the name, NULL where memory ran out. limit: SIZE_MAX elides nothing. The name may
 * hold any bytes: what is no name comes back as it is, or with parts left out. */
char *ip_short_name(const char *demangled, size_t limit);

/* Returns the name without its lists of template arguments, as one says it: std::map<int, K>::find
 * -> std::map::find; malloc'ed, never longer than the name, NULL where memory ran out. The name may
 * hold any bytes. */
char *ip_name_without_templates(const char *name);

/* The length of what a name lies in, with the "::" behind it: that of "std::map<int, K>::" in
 * std::map<int, K>::find; 0: it lies in nothing, or memory ran out. The name may hold any bytes. */
size_t ip_name_scope_length(const char *name);

#endif
