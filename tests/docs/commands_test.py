#!/usr/bin/env python3
"""commands.py with documents of this test's own: what fails, is unmarked or names what does not exist is found."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = """#!/bin/sh
case "$*" in
  *--help*) echo "  --known N   what it knows"; echo "  --[no-]on   what is on" ;;
  *) echo "skuad was called: $*"; exit "${SKUAD_CODE:-0}" ;;
esac
"""


class CommandsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.bin = os.path.join(self.folder.name, 'build/release/bin')
        os.makedirs(self.bin)
        program = os.path.join(self.bin, 'skuad')
        with open(program, 'w', encoding='utf-8') as out:
            out.write(PROGRAM)
        os.chmod(program, 0o755)

    def judge(self, document, *options):
        path = os.path.join(self.folder.name, 'document.md')
        with open(path, 'w', encoding='utf-8') as out:
            out.write(document)
        command = [sys.executable, os.path.join(HERE, 'commands.py'), '--bin', self.bin]
        done = subprocess.run([*command, *options, path], check=False, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def good(self, document, *options):
        code, output = self.judge(document, *options)
        self.assertEqual(code, 0, output)
        return output

    def bad(self, document, *options):
        code, output = self.judge(document, *options)
        self.assertEqual(code, 1, output)
        return output

    def test_blocks_of_a_document_are_one_script(self):
        output = self.good('# Title\n<!-- run: alone -->\n```sh\nname=value\n```\ntext\n\n<!-- run: alone -->\n```sh\n'
                           'skuad $name >/tmp/words   # a comment, isn\'t it\ngrep value /tmp/words\n```\n',
                           '--verbose')
        self.assertIn('ran 3 of 3 commands', output)
        self.assertFalse(os.path.exists('/tmp/words'))

    def test_a_document_may_call_what_it_compiles(self):
        block = '<!-- run: alone -->\n```sh\nprintf "int main(void) { return 0; }" >a.c\ngcc a.c -o made\n./NAME\n```\n'
        self.good(block.replace('NAME', 'made'))
        self.assertIn('there is no program ./other', self.bad(block.replace('NAME', 'other')))

    def test_programs_of_the_build_are_those_that_are_told(self):
        output = self.good('<!-- run: alone -->\n```sh\nexport PATH=$PWD/build/release/bin:/usr/bin:/bin\nskuad by its name\n'
                           'build/release/bin/skuad by its path\n```\n', '--verbose')
        self.assertIn('ran 3 of 3 commands', output)

    def test_failing_command_is_named_with_its_line_and_output(self):
        output = self.bad('text\n\n<!-- run: alone -->\n```sh\necho first\nSKUAD_CODE=3 skuad now\necho never\n```\n')
        self.assertRegex(output, r'document\.md:6: .*skuad now: exit code 3')
        self.assertIn('skuad was called: now', output)
        self.assertNotIn('\n  never', output)

    def test_document_after_a_heredoc_and_a_long_command_still_has_its_lines(self):
        output = self.bad("<!-- run: alone -->\n```sh\ncat >file <<'END'\nit's --text\nEND\nskuad one \\\n"
                          "  two\ntest 1 = 2\n```\n")
        self.assertIn('document.md:8: test 1 = 2: exit code 1', output)

    def test_unmarked_block_is_an_error(self):
        self.assertIn('document.md:2: no mark', self.bad('text\n```sh\necho\n```\n'))

    def test_commands_in_a_block_of_another_kind_are_an_error(self):
        self.assertIn('document.md:2: a command in a block', self.bad('```\nskuad --known 4\n```\n'))
        self.assertIn('no commands', self.bad('```\nskuad: an answer\nskuad run [--known N]\n```\n'))

    def test_mark_that_says_nothing_is_an_error(self):
        self.assertIn('does not say why', self.bad('<!-- shown: -->\n```sh\nskuad\n```\n'))
        self.assertIn('it must be one of', self.bad('<!-- run: somehow -->\n```sh\nskuad\n```\n'))
        self.assertIn('replaces --other', self.bad('<!-- run: alone --other=3 -->\n```sh\nskuad --known 4\n```\n'))

    def test_unknown_option_is_found_also_where_nothing_is_run(self):
        output = self.bad('<!-- shown: it would take long -->\n```sh\nskuad --known 4 --unknown=5\n```\n')
        self.assertIn('skuad has no option --unknown', output)
        self.assertIn('there is no program skuap', self.bad('<!-- run: alone -->\n```sh\nskuap\n```\n'))
        output = self.bad('<!-- run: alone -->\n```sh\ntrue; FOO=1 sudo skuad --unknown\n```\n')
        self.assertIn('no option --unknown', output)
        self.assertNotIn('ran 1', self.good('<!-- shown: it would take long -->\n```sh\nskuad --known 4 --on=false --no-on\n```\n'))

    def test_values_are_replaced_where_the_mark_says_so(self):
        output = self.good('<!-- run: alone --known=7 records=9 -->\n```sh\nskuad --known 4000 -p records=1000\n```\n',
                           '--verbose')
        self.assertIn('skuad was called: --known 7 -p records=9', output)

    def test_lines_in_the_mark_are_run_before(self):
        self.good('<!-- run: alone\ntouch file\n-->\n```sh\nls file\n```\n')

    def test_exit_codes_that_a_comment_tells_are_wanted(self):
        self.good('<!-- run: alone -->\n```sh\nSKUAD_CODE=2\nexport SKUAD_CODE\nskuad    # exit code 2: as told\n```\n')
        self.assertIn('exit code 1', self.bad('<!-- run: alone -->\n```sh\nskuad    # exit code 2\n```\n'))

    def test_what_does_not_end_is_stopped(self):
        self.good('<!-- run: alone -->\n```sh\nsleep 4321 &\n```\n')
        left = subprocess.run(['ps', '-eo', 'args'], check=True, capture_output=True, text=True).stdout
        self.assertIsNone(re.search(r'^sleep 4321$', left, re.MULTILINE))

    def test_document_that_takes_too_long_is_found(self):
        output = self.bad('<!-- run: alone -->\n```sh\necho before\nsleep 4322\n```\n', '--limit', '2')
        self.assertRegex(output, r'not done within 2 s; the last command: .*sleep 4322')

    def test_and_in_a_block_that_is_run_is_refused(self):
        self.assertIn('&& hides', self.bad('<!-- run: alone -->\n```sh\nfalse && true\n```\n'))
        self.assertIn('&& hides', self.bad('<!-- run: alone\nfalse && true -->\n```sh\ntrue\n```\n'))

    def test_what_fails_in_the_background_is_found(self):
        block = '<!-- run: alone -->\n```sh\nexport SKUAD_CODE={code}\nskuad there &{rest}\n{more}\n```\n'
        self.assertIn('document.md:4: what runs in the background: exit code 3', self.bad(block.format(code=3, rest='', more='')))
        self.assertIn('document.md:4: what runs', self.bad(block.format(code=3, rest='    # why', more='echo')))
        self.assertIn('exit code 5', self.bad('<!-- run: alone\nSKUAD_CODE=5 skuad & -->\n```sh\necho\n```\n'))
        self.good(block.format(code=0, rest='', more=''))
        # A child that is bash's still, and not `sleep` yet, may lose the signal. Bash forgets the name %1 of a job when
        # the job ends, and remembers the code by the job's PID.
        runs = 'until ps -o args= -p $! | grep -q ^sleep; do sleep 0.01; done'
        self.good(f'<!-- run: alone -->\n```sh\nsleep 4323 &\n{runs}\nkill $!\nsleep 0.1\nwait $!    # exit code 143: killed\n'
                  f'sleep 4324 &\n{runs}\nkill $!\n```\n')

    def test_blocks_of_other_shells_are_an_error(self):
        for fence in ('bash', 'console', 'sh title', 'shell'):
            self.assertIn('document.md:1', self.bad(f'```{fence}\nskuad\n```\n'))
        self.assertIn('document.md:1', self.bad('~~~sh\nskuad\n~~~\n'))

    def test_links_that_lead_nowhere_are_found(self):
        block = '\n<!-- shown: a test -->\n```sh\nskuad\n```\n'
        self.assertIn('document.md:1: there is no other.md', self.bad('see [other](other.md)' + block, '--check'))
        self.assertIn('has no heading #more', self.bad('# Less\nsee [more](#more)' + block, '--check'))
        self.good('# Less, and `more`\nsee [more](#less-and-more), [there](https://example.org/x#y)' + block, '--check')

    def test_nothing_to_look_at_is_an_error(self):
        self.assertIn('no commands', self.bad('text without commands\n'))


if __name__ == '__main__':
    unittest.main(verbosity=2)
