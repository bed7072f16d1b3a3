# SPDX-License-Identifier: Apache-2.0
"""What the system tests share: running commands as a user, targets, their memory, traces and
call trees.
"""
