# SPDX-License-Identifier: Apache-2.0
"""The order of these tests: of two workers, which take a file each, one builds other people's
programs while the other watches a server.
"""

LAST = ("test_rules_server", "test_consumers")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: builds a large program; ./check --full runs it")


def pytest_collection_modifyitems(items):
    items.sort(
        key=lambda item: LAST.index(item.module.__name__) if item.module.__name__ in LAST else -1
    )
