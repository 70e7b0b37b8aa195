#!/usr/bin/env python3
"""skua-ycsb's logs and reports as other programs read them, and deploy/ycsb-plot.

usage: tests/ycsb/plot/plot_test.py SKUA_YCSB [TEST]...

The decoder here is written from HdrHistogram's description of its V2 encoding and shares nothing with skua-ycsb or ycsb-plot.
"""
import base64
import collections
import importlib.machinery
import importlib.util
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
import zlib

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..')
PLOT = os.path.join(ROOT, 'deploy', 'ycsb-plot')
PROGRAM = ''
PERCENTILES = (50, 90, 99, 99.9)


def load_plot():
    loader = importlib.machinery.SourceFileLoader('ycsb_plot', PLOT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('ycsb_plot', loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def decode(text):
    """Highest value of each bucket to its count, for histograms of three digits from 1 on."""
    data = base64.b64decode(text, validate=True)
    cookie, size = struct.unpack('>II', data[:8])
    assert cookie == 0x1c849314 and size == len(data) - 8
    plain = zlib.decompress(data[8:])
    cookie, size, offset, digits, lowest, highest, ratio = struct.unpack('>IIIIQQd', plain[:40])
    assert (cookie, size, offset, digits, lowest, ratio) == (0x1c849313, len(plain) - 40, 0, 3, 1, 1.0), 'header'
    numbers, number, shift = [], 0, 0
    for byte in plain[40:]:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(-(number + 1 >> 1) if number & 1 else number >> 1)
            number = shift = 0
    assert shift == 0, 'a number is cut off'
    counts, index = {}, 0
    for number in numbers:
        if number < 0:
            index -= number
            continue
        if index < 2048:
            top = index
        else:
            width = 1 << index // 1024 - 1
            top = (index % 1024 + 1024) * width + width - 1
        assert top - top // 2048 <= highest, 'beyond the highest value'
        counts[top] = number
        index += 1
    assert not numbers or numbers[-1] > 0, 'nothing follows the last count'
    return counts


def percentile(counts, percent):
    rank, seen = max(1, math.ceil(sum(counts.values()) * percent / 100)), 0
    for top in sorted(counts):
        seen += counts[top]
        if seen >= rank:
            return top
    return 0


class Logs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix='skua-ycsb-plot-')
        prefix = cls.path('run-')
        done = subprocess.run(
            [PROGRAM, 'run', 'basic', '-P', os.path.join(ROOT, 'ycsb', 'workloads', 'workloada'), '-s', '-threads', '2', '-inflight', '32',
             '-p', 'operationcount=8000', '-p', 'basicdb.simulatedelay=15', '-p', 'status.interval=1', '-p', 'exporter=jsonarray',
             '-p', 'hdrhistogram.fileoutput=true', '-p', f'hdrhistogram.output.path={prefix}',
             '-p', f'hdrhistogram.percentiles={",".join(map(str, PERCENTILES))}'],
            capture_output=True, text=True, check=True)
        cls.report = {(entry['metric'], entry['measurement']): entry['value'] for entry in json.loads(done.stdout)}
        with open(cls.path('status.txt'), 'w', encoding='utf-8') as file:
            file.write(done.stderr)
        cls.lines = {}
        for name in ('READ', 'UPDATE'):
            with open(f'{prefix}{name}.hdr', encoding='utf-8') as file:
                cls.lines[name] = file.read().splitlines()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def plot(self, *words, code=0):
        done = subprocess.run([sys.executable, PLOT, *words], capture_output=True, text=True, check=False, cwd=self.folder.name)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def without_gnuplot(self, *words, programs=None):
        """With a gnuplot that draws nothing, or with none."""
        tools = self.path('tools')
        os.makedirs(tools, exist_ok=True)
        with open(os.path.join(tools, 'gnuplot'), 'w', encoding='utf-8') as file:
            file.write('#!/bin/sh\n')
        os.chmod(os.path.join(tools, 'gnuplot'), 0o755)
        done = subprocess.run([sys.executable, PLOT, *words], capture_output=True, text=True, check=False, cwd=self.folder.name,
                              env={'PATH': programs or tools})
        self.assertEqual((done.returncode, done.stderr.count('\n')), (1, 1), done.stderr)
        return done.stderr

    def test_table_to_a_full_disk_and_to_a_closed_pipe(self):
        with open('/dev/full', 'w', encoding='utf-8') as full:
            done = subprocess.run([sys.executable, PLOT, '--table', 'run-'], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                  cwd=self.folder.name)
        self.assertEqual((done.returncode, done.stderr), (1, 'ycsb-plot: standard output: No space left on device\n'))
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([sys.executable, PLOT, '--table', 'run-'], stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
                              cwd=self.folder.name)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (1, ''))

    def test_log_lines_are_those_of_format_1_3(self):
        for name, lines in self.lines.items():
            self.assertEqual(lines[0], f'#[Logging for: {name}]')
            self.assertEqual(lines[1], '#[Histogram log format version 1.3]')
            self.assertRegex(lines[2], r'^#\[StartTime: \d{10}\.\d{3} \(seconds since epoch\), \w{3} \w{3} \d\d \d\d:\d\d:\d\d \S+ \d{4}\]$')
            self.assertEqual(lines[3], '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"')
            end = None
            for line in lines[4:]:
                start, length, top, text = line.split(',')
                for number in (start, length, top):
                    self.assertRegex(number, r'^\d+\.\d{3}$')
                if end is not None:
                    self.assertAlmostEqual(float(start), end, delta=0.0021)
                end = float(start) + float(length)
                self.assertAlmostEqual(float(top) * 1e6, max(decode(text), default=0), delta=1000)

    def test_logs_hold_what_the_report_says(self):
        for name, lines in self.lines.items():
            merged = collections.Counter()
            for line in lines[4:]:
                merged.update(decode(line.split(',')[3]))
            self.assertEqual(sum(merged.values()), self.report[name, 'Operations'])
            for percent in PERCENTILES:
                label = {50: '50th', 90: '90th', 99: '99th'}.get(percent, str(percent))
                highest = self.report[name, 'MaxLatency(us)']
                self.assertEqual(min(percentile(merged, percent), highest), self.report[name, f'{label}PercentileLatency(us)'], percent)

    def test_report_is_json_with_the_environment(self):
        self.assertEqual(self.report['ENVIRONMENT', 'Binding'], 'basic')
        self.assertEqual(self.report['READ', 'Return=OK'] + self.report['UPDATE', 'Return=OK'], 8000)

    def test_table_is_the_same_from_logs_and_from_status_lines(self):
        percentiles = ','.join(map(str, PERCENTILES))
        words = ['--table', '--series', 'READ', '--percentiles', percentiles]
        logs = [line.split() for line in self.plot(*words, 'a=run-').splitlines()]
        status = [line.split() for line in self.plot(*words, 'b=status.txt').splitlines()]
        # The first status line comes with the first operations and has no series yet, but the logs may have some of them.
        logs = [log for log in logs if float(log[1]) > 0.1]
        self.assertEqual(len(logs), len(status))
        self.assertGreaterEqual(len(logs), 1)
        for log, line in zip(logs, status):
            self.assertEqual(log[0], 'a')
            self.assertAlmostEqual(float(log[1]), float(line[1]), delta=0.5)
            for ours, theirs in zip(log[3:], line[3:]):  # status lines stop at the largest value, not at its bucket's top
                self.assertAlmostEqual(float(ours), float(theirs), delta=float(ours) / 1000)

    def test_throughput_counts_every_operation_once(self):
        # An interval without any operation has no line: the next line does not begin where the last one ended.
        lengths = {}
        for line in self.lines['READ'] + self.lines['UPDATE']:
            if line[0].isdigit():
                start, length = map(float, line.split(',')[:2])
                lengths[round(start + length, 3)] = length
        operations = 0
        for line in self.plot('--table', 'run-').splitlines():
            _, end, rate = line.split()[:3]
            operations += float(rate) * lengths[float(end)]
        self.assertAlmostEqual(operations, 8000, delta=80)

    @unittest.skipIf(shutil.which('gnuplot') is None, 'gnuplot is not there')
    def test_pictures_of_two_runs(self):
        self.plot('--out', 'a.svg', '--out', 'a.png', 'first_run=run-', 'second=status.txt')
        words = ''.join(xml.etree.ElementTree.parse(self.path('a.svg')).getroot().itertext())
        for text in ('first_run p50', 'second p99', 'operations per second', 'latency (us)'):
            self.assertIn(text, words)
        with open(self.path('a.png'), 'rb') as file:
            self.assertEqual(file.read(8), b'\x89PNG\r\n\x1a\n')

    def test_what_cannot_be_plotted(self):
        def refused(*words, code=1):
            """One line, and no traceback."""
            text = self.plot(*words, code=code)
            self.assertEqual(text.count('\n'), 1, text)
            self.assertTrue(text.startswith('ycsb-plot: '), text)
            return text

        with open(self.path('report.txt'), 'w', encoding='utf-8') as file:
            file.write('[OVERALL], RunTime(ms), 1\n')
        with open(self.path('empty.hdr'), 'w', encoding='utf-8'), open(self.path('picture.txt'), 'wb') as picture:
            picture.write(bytes(range(256)))
        os.mkdir(self.path('none'))
        self.assertIn('neither logs', refused('nowhere'))
        self.assertIn('neither logs (none/*.hdr)', refused('none'))
        self.assertIn("is a run's report", refused('report.txt'))
        self.assertIn('has no status lines', refused('picture.txt'))
        self.assertIn('the logs hold no interval', refused('empty.hdr'))
        self.assertIn('must be RUN or LABEL=RUN', refused('label=', code=2))
        self.assertIn('must be numbers', refused('--percentiles', '50,', 'run-', code=2))
        self.assertIn('must be above 0', refused('--percentiles', 'nan', 'run-', code=2))
        self.assertIn('the following arguments are required: RUN', refused(code=2))
        self.assertIn('none/x/a.svg: No such file', self.without_gnuplot('--out', 'none/x/a.svg', 'run-'))
        self.assertIn('gnuplot is not there', self.without_gnuplot('run-', programs='/nonexistent'))
        self.assertIn('there are: CLEANUP, READ, UPDATE', self.plot('--series', 'SCAN', 'run-', code=1))
        self.assertIn('no percentile 75', self.plot('--percentiles', '75', '--table', 'status.txt', code=1))
        self.assertIn('must end in', refused('--out', 'a.pdf', 'run-', code=2))
        with open(self.path('bad.hdr'), 'w', encoding='utf-8') as file:
            file.write('0.0,1.0,0.1,HISTFAAA\n')
        self.assertIn('bad.hdr, line 1', self.plot('bad.hdr', code=1))


class OtherWriters(unittest.TestCase):
    """Histograms with other digits and units, which skua-ycsb does not write."""

    @staticmethod
    def encode(digits, lowest, counts):
        def leb(number):
            bits = (number << 1 ^ number >> 63) & (1 << 64) - 1
            out = b''
            while bits >= 128 and len(out) < 8:
                out += bytes([bits & 127 | 128])
                bits >>= 7
            return out + bytes([bits])
        body = b''.join(map(leb, counts))
        plain = struct.pack('>IIIIQQd', 0x1c849313, len(body), 0, digits, lowest, 1 << 40, 1.0) + body
        packed = zlib.compress(plain)
        return base64.b64encode(struct.pack('>II', 0x1c849314, len(packed)) + packed).decode()

    def test_two_digits_in_units_of_1024(self):
        histogram = load_plot().Histogram(self.encode(2, 1024, [-3, 1, -252, 2, 1]))
        self.assertEqual(histogram.total, 4)
        self.assertEqual(histogram.percentile(25), 4 * 1024 - 1)
        self.assertEqual(histogram.percentile(75), (256 + 2) * 1024 - 1)  # from 256 on, two units to a bucket
        self.assertEqual(histogram.percentile(100), (256 + 4) * 1024 - 1)

    def test_counts_of_nine_octets(self):
        histogram = load_plot().Histogram(self.encode(3, 1, [1 << 60, 1]))
        self.assertEqual(histogram.total, (1 << 60) + 1)


if __name__ == '__main__':
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
