# SPDX-License-Identifier: Apache-2.0
"""What the tests of compilers share: the table of combinations, the truth about sites, traces
held against programs.
"""
