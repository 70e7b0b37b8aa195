"""Two processes on one memif pair, each on a core of its own: skua-perf at both ends, or testpmd at both ends.

Used by dpdk_ratios.py and dpdk_behaviour.py. Needs root, huge pages (deploy/host-setup huge-pages --count 512) and, for
comparisons, Debian's dpdk-dev (testpmd).
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))
BIN = os.environ.get('SKUA_BIN_DIR', os.path.join(ROOT, 'build/release/bin'))
SERVER_CORE, CLIENT_CORE = 0, 1
NEAR_BELOW_NS = 200
CONTROL = '127.0.0.1:18530'


def fail(text):
    print(f'{os.path.basename(sys.argv[0])}: {text}', file=sys.stderr)
    sys.exit(2)


def check_host(with_testpmd):
    if not os.path.exists(os.path.join(BIN, 'skua-perf')):
        fail(f'{BIN}/skua-perf is not there: build first (cmake --preset release && cmake --build --preset release)')
    if os.cpu_count() < 2:
        fail('two processes that poll need two processors')
    with open('/proc/meminfo', encoding='utf-8') as meminfo:
        free = int(re.search(r'HugePages_Free:\s+(\d+)', meminfo.read())[1])
    if free < 256:
        fail(f'{free} free huge pages of 2 MiB; 256 are needed: deploy/host-setup huge-pages --count 512')
    if with_testpmd and shutil.which('dpdk-testpmd') is None:
        fail('dpdk-testpmd is not there: apt-get install dpdk-dev')


def distance_ns():
    """How long a cache line takes from one of the two processors to the other and back."""
    done = subprocess.run([os.path.join(BIN, 'cache_line_ping'), str(SERVER_CORE), str(CLIENT_CORE)],
                          capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        fail(f'cache_line_ping failed: {done.stderr.strip()}')
    return int(done.stdout)


def state_of(nanoseconds):
    """Virtual processors are at times near and at times far; figures of one state only can be compared."""
    return 'near' if nanoseconds < NEAR_BELOW_NS else 'far'


WAITED_MS_MAX = 30  # of 3 s


def judge(before_ns, after_ns, waited_ms):
    """The machine's state in a run, whether the run counts, and words for both."""
    state = state_of(after_ns)
    words = f'{state}, {before_ns} and {after_ns} ns'
    if state_of(before_ns) != state:
        return state, False, words + ': not counted, the state changed'
    if waited_ms > WAITED_MS_MAX:
        return state, False, words + f': not counted, a thread waited {waited_ms:.0f} ms for its processor'
    return state, True, words


def print_medians(name, ratios):
    """`ratios`: state -> those of its runs that count."""
    for state, found in ratios.items():
        if found:
            print(f'{name} {state}: median ratio {statistics.median(found):.3f} of {len(found)}  '
                  f'({min(found):.3f} to {max(found):.3f})', flush=True)
    if not any(ratios.values()):
        print(f'{name}: no run counts: is the machine busy with something else?', flush=True)


class Waits:
    """Watches how long the threads of processes waited for their processor, while others had it."""

    def __init__(self):
        self.waited_ns = {}

    def look(self, *processes):
        for process in processes:
            tasks = f'/proc/{process.pid}/task'
            for task in os.listdir(tasks) if os.path.isdir(tasks) else []:
                try:
                    with open(f'{tasks}/{task}/schedstat', encoding='ascii') as figures:
                        self.waited_ns[task] = int(figures.read().split()[1])
                except (OSError, ValueError):
                    pass  # it has ended

    @property
    def longest_ms(self):
        return max(self.waited_ns.values(), default=0) / 1e6


def memif(role, socket, buffer_bytes):
    size = f',bsize={buffer_bytes}' if buffer_bytes else ''
    return f'net_memif0,role={role},socket={socket},socket-abstract=no{size}'


class Pair:
    """Where one run's socket lives; gone afterwards, and so are its processes."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='skua-memif-')
        self.socket = os.path.join(self.folder, 'memif.sock')
        self.running = []
        return self

    def __exit__(self, *_):
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.running:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *words, **options):
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, **options)
        self.running.append(process)
        return process


def words_of(pair, role, address, core, program, buffer_bytes=0):
    """A program's own words, and those that name its end of the pair."""
    common = ['taskset', '-c', str(core), os.path.join(BIN, program)]
    names = ('--device', '--address') if program == 'bare_clients' else ('--dpdk-devices', '--dpdk-addresses')
    return common, [names[0], memif(role, pair.socket, buffer_bytes), names[1], address]


def start_server(pair, serving, server=(), buffer_bytes=0):
    """A skua-perf server, when it can be dialled."""
    program, device = words_of(pair, 'server', '10.77.0.1/24', SERVER_CORE, 'skua-perf', buffer_bytes)
    other = pair.start(*program, *serving, '--transport', 'dpdk', *device, *server, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not os.path.exists(pair.socket):
        if other.poll() is not None or time.monotonic() > deadline:
            fail(f'the server did not start: {other.communicate()[1].strip()}')
        time.sleep(0.05)
    if serving[0] != 'raw':
        time.sleep(0.3)
    return other


def report_of(pair, name, words, other):
    """What the client prints, with the longest time that a thread of either end waited for its processor ('waited_ms')."""
    client = pair.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    waits = Waits()
    while client.poll() is None:
        waits.look(client, other)
        time.sleep(0.1)
    out, err = client.communicate()
    if client.returncode != 0:
        fail(f'{name} failed: {err.strip()}')
    return {**json.loads(out), 'waited_ms': waits.longest_ms}


def skua(mode, *arguments, server=(), buffer_bytes=0, seconds=3):
    """One skua-perf test; the report as a dictionary, with the longest time that a thread of either end waited for its processor
    ('waited_ms'). `server`: more arguments for the other end."""
    with Pair() as pair:
        serving = ['raw', '--reflect'] if mode == 'raw' else ['server', '--listen', CONTROL]
        other = start_server(pair, serving, server, buffer_bytes)
        program, device = words_of(pair, 'client', '10.77.0.2/24', CLIENT_CORE, 'skua-perf', buffer_bytes)
        target = [] if mode == 'raw' else [CONTROL]
        return report_of(pair, f'skua-perf {mode}',
                         [*program, mode, *target, '--transport', 'dpdk', *device, '--duration', f'{seconds}s',
                          '--output', 'json', *arguments], other)


def bare_clients(clients, seconds=3):
    """Calls of clients that cost next to nothing, to a skua-perf server; as skua() reports."""
    with Pair() as pair:
        other = start_server(pair, ['server', '--listen', CONTROL])
        program, device = words_of(pair, 'client', '10.77.0.2/24', CLIENT_CORE, 'bare_clients')
        return report_of(pair, 'bare_clients',
                         [*program, CONTROL, *device, '--clients', str(clients), '--seconds', str(seconds)], other)


def skua_crowd(crowd_size, crowd, bystander, seconds=3):
    """A bystander's skua-perf test beside `crowd_size` others, each over a memif link of its own to one server, which has a port and
    a thread for each of them. `crowd` and `bystander`: mode and more arguments. The bystander's report, and those of the crowd."""
    size = crowd_size + 1
    program = os.path.join(BIN, 'skua-perf')
    def device(role, i):
        return memif(role, pair.socket + str(i), 0).replace('net_memif0', f'net_memif{i if role == "server" else 0}')
    def client(i, words, core):
        mode, *arguments = words
        return pair.start('taskset', '-c', str(core), program, mode, CONTROL, '--transport', 'dpdk', '--polling', 'adaptive',
                          '--dpdk-devices', device('client', i), '--dpdk-addresses', f'10.77.{i}.2/24',
                          '--output', 'json', *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with Pair() as pair:
        ports = range(size)
        server = pair.start('taskset', '-c', str(SERVER_CORE), program, 'server', '--listen', CONTROL, '--clients', str(size),
                            '--transport', 'dpdk', '--dpdk-devices', ';'.join(device('server', i) for i in ports),
                            '--dpdk-addresses', ';'.join(f'10.77.{i}.1/24' for i in ports), stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20
        while not all(os.path.exists(pair.socket + str(i)) for i in ports):
            if server.poll() is not None or time.monotonic() > deadline:
                fail(f'the server did not start: {server.communicate()[1].strip()}')
            time.sleep(0.05)
        time.sleep(0.3)
        # The crowd is at it before the bystander begins and after it has ended.
        others = [client(i, [*crowd, '--duration', f'{seconds + 4}s'], CLIENT_CORE) for i in range(1, size)]
        if others:
            time.sleep(2)
        reports = []
        for process in [client(0, [*bystander, '--duration', f'{seconds}s'], CLIENT_CORE), *others]:
            out, err = process.communicate(timeout=120)
            if process.returncode != 0:
                fail(f'a client of {size} failed: {err.strip()}')
            reports.append(json.loads(out))
        return reports[0], reports[1:]


def testpmd(server_mode, client_mode, measure, seconds=4, frame_bytes=None):
    """Median over the last seconds of `measure` ('Rx-pps' or 'Rx-bps') as the server's end counts it."""
    with Pair() as pair:
        def end(role, mode, core):
            log = os.path.join(pair.folder, role)
            extra = [f'--txpkts={frame_bytes}'] if frame_bytes else []
            with open(log, 'w', encoding='utf-8') as out:
                pair.start('dpdk-testpmd', '--lcores', f'(0,1)@{core}', '--in-memory', '--single-file-segments', '--no-pci',
                           '--no-telemetry', f'--file-prefix=skua-testpmd-{role}', f'--vdev={memif(role, pair.socket, 0)}',
                           '--', f'--forward-mode={mode}', '--stats-period=1', '--total-num-mbufs=16384', '--burst=32',
                           *extra, stdout=out, stderr=subprocess.STDOUT)
            return log
        log = end('server', server_mode, SERVER_CORE)
        time.sleep(1)
        end('client', client_mode, CLIENT_CORE)
        time.sleep(seconds)
        with open(log, encoding='utf-8', errors='replace') as text:
            values = [int(v) for v in re.findall(measure + r':\s+(\d+)', text.read())]
    if len(values) < 2:
        fail('testpmd reported nothing: run it by hand to see why')
    return statistics.median(values[-2:])
