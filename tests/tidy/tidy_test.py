#!/usr/bin/env python3
"""tidy.py catches each kind of violation, and nothing in a clean tree."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TIDY = os.path.join(HERE, 'tidy.py')
sys.path.insert(0, HERE)
import tidy  # noqa: E402  (found through the path above)


class TidyTest(unittest.TestCase):

    def setUp(self):
        self.root = tempfile.mkdtemp(prefix='skua-tidy-')
        self.addCleanup(shutil.rmtree, self.root)
        os.makedirs(os.path.join(self.root, 'tests/tidy'))
        shutil.copy(os.path.join(HERE, 'arrows.txt'), os.path.join(self.root, 'tests/tidy'))
        self.write('rpc/base/a.h', '#ifndef SKUA_RPC_BASE_A_H_\n#define SKUA_RPC_BASE_A_H_\n#endif\n')

    def write(self, file, text):
        path = os.path.join(self.root, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as out:
            out.write(text)

    def findings(self):
        return list(tidy.check_tree(self.root))

    def include(self, file, *included):
        self.write(file, ''.join(f'#include {what}\n' for what in included))
        return [finding for finding in self.findings() if finding.startswith(file)]

    def allowed(self, file, *included):
        self.assertEqual(self.include(file, *included), [])

    def refused(self, file, *included):
        self.assertEqual(len(self.include(file, *included)), len(included), self.findings())

    def test_clean_tree(self):
        self.assertEqual(self.findings(), [])
        self.allowed('rpc/wire/b.cc', '"rpc/base/a.h"', '"rpc/wire/b.h"', '<vector>', '"absl/status/status.h"')

    def test_arrow_that_is_not_listed(self):
        self.refused('rpc/base/x.cc', '"rpc/wire/b.h"', '"app/config.h"')
        self.refused('rpc/wire/x.cc', '"rpc/protocol/p.h"')
        self.refused('kvstore/codec/x.cc', '"rpc/memory/pool.h"', '"rpc/endpoint.h"')
        self.refused('ycsb/core/x.cc', '"kvstore/client/client.h"')

    def test_line_and_reason(self):
        self.write('rpc/base/x.cc', '// text\n  #  include "rpc/wire/b.h"\n')
        self.assertEqual(self.findings(), ['rpc/base/x.cc:2: arrows: rpc/base may not include rpc/wire/b.h'])

    def test_folder_item_does_not_cover_folders_below(self):
        self.allowed('rpc/x.cc', '"rpc/transport/transport.h"')
        self.refused('rpc/x.cc', '"rpc/transport/tcp/tcp_transport.h"')
        self.refused('rpc/transport/tcp/x.cc', '"rpc/transport/sim/sim_network.h"', '"rpc/protocol/p.h"')

    def test_folder_below_a_listed_one_obeys_its_line(self):
        self.allowed('rpc/wire/deep/x.cc', '"rpc/base/a.h"')
        self.refused('rpc/wire/deep/x.cc', '"rpc/protocol/p.h"')

    def test_mains_see_more(self):
        self.allowed('kvstore/node/main.cc', '"app/config.h"', '"rpc/transport/tcp/tcp_transport.h"')
        self.allowed('rpc/tools/perf_main.cc', '"app/config.h"')
        self.refused('kvstore/node/node.cc', '"app/config.h"', '"rpc/transport/tcp/tcp_transport.h"')

    def test_app_sees_only_base(self):
        self.allowed('app/x.cc', '"rpc/base/a.h"')
        self.refused('app/x.cc', '"rpc/endpoint.h"', '"control/core/uuid.h"')

    def test_single_header_of_a_folder(self):
        self.allowed('kvstore/node/x.cc', '"control/core/shard_map.h"')
        self.refused('kvstore/node/x.cc', '"control/core/cluster_core.h"')

    def test_nothing_includes_tests(self):
        self.refused('rpc/base/x.cc', '"tests/rpc/base/help.h"')
        self.refused('kvstore/node/main.cc', '"tests/rpc/base/help.h"')
        self.allowed('tests/rpc/x.cc', '"tests/rpc/base/help.h"', '"kvstore/client/client_core.h"')

    def test_third_party_headers_stay_behind_their_wrapper(self):
        self.allowed('rpc/transport/dpdk/x.cc', '<rte_mbuf.h>')
        self.refused('rpc/transport/tcp/x.cc', '<rte_mbuf.h>', '"rte_mbuf.h"', '<infiniband/verbs.h>')
        self.refused('kvstore/node/x.cc', '<rocksdb/db.h>')
        self.refused('kvstore/client/x.cc', '<spdlog/spdlog.h>')
        self.allowed('kvstore/gateway/tls_stream.cc', '<openssl/ssl.h>')
        self.refused('kvstore/gateway/gateway.cc', '<openssl/ssl.h>')

    def test_folder_without_a_line(self):
        self.write('novelty/x.cc', '')
        self.assertEqual(self.findings(), ['novelty/x.cc:1: arrows: its folder has no line in arrows.txt'])

    def test_cycle(self):
        self.write('tests/tidy/arrows.txt', 'rpc/base : rpc/wire\nrpc/wire : rpc/base\ntests : **\n')
        self.assertEqual(len(self.findings()), 2)

    def test_guard(self):
        self.write('rpc/base/b.h', '#ifndef SKUA_B_H_\n#define SKUA_B_H_\n#endif\n')
        self.write('rpc/base/c.h', '#pragma once\n')
        self.assertEqual(self.findings(), ['rpc/base/b.h:1: guard: it must be SKUA_RPC_BASE_B_H_',
                                           'rpc/base/c.h:1: guard: it must be SKUA_RPC_BASE_C_H_'])

    def test_length(self):
        for file, limit in (('rpc/base/b.cc', 500), ('tests/rpc/b.cc', 800), ('rpc/protocol/session_caller.cc', 800)):
            self.write(file, '\n' * limit)
            self.assertEqual(self.findings(), [])
            self.write(file, '\n' * (limit + 1))
            self.assertEqual(len(self.findings()), 1, file)
            self.write(file, '')

    def test_unfinished(self):
        for word in ('TO' 'DO', 'FIX' 'ME', 'XX' 'X'):
            self.write('rpc/base/b.cc', f'// {word}: later\n')
            self.assertEqual(len(self.findings()), 1, word)
        self.write('rpc/base/b.cc', '// skua-XX' 'XXXX\n')
        self.assertEqual(self.findings(), [])

    def test_secrets(self):
        self.write('kvstore/node/b.cc', 'worker.endpoint.simulation_seed ^= incarnation;\n')
        self.assertEqual(len(self.findings()), 1)
        self.write('kvstore/node/b.cc', 'options.seed = 3;\n')
        self.write('tests/sim/b.cc', 'options.simulation_seed = 3;\n')
        self.assertEqual(self.findings(), [])

    def test_build_folders_are_left_alone(self):
        self.write('build/release/x.cc', '#include "app/config.h"\n')
        self.write('.cache/x.cc', '#include "app/config.h"\n')
        self.assertEqual(self.findings(), [])

    def test_exit_code(self):
        self.assertEqual(subprocess.run([TIDY, self.root], stdout=subprocess.DEVNULL, check=False).returncode, 0)
        self.write('rpc/base/x.cc', '#include "app/config.h"\n')
        self.assertEqual(subprocess.run([TIDY, self.root], stdout=subprocess.DEVNULL, check=False).returncode, 1)


if __name__ == '__main__':
    unittest.main(verbosity=2)
