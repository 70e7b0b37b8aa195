"""What python_package_test.py runs beside a cluster: the package `skua`, in tables `t` (four shards) and `one`."""

import array
import ast
import asyncio
import datetime
import gc
import inspect
import os
import signal
import sys
import threading
import unittest
import weakref

import skua
from skua import _async_client
from skua._skua import lib
from skua._values import Arguments

ADDRESS = os.environ["SKUA_CONTROL_ADDRESS"]
LIMIT_S = 60.0


def make_client(**options):
    return skua.Client(control_address=ADDRESS, timeout=LIMIT_S, **options)


def make_async_client(**options):
    return skua.AsyncClient(control_address=ADDRESS, timeout=LIMIT_S, **options)


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.client = make_client()
        self.addCleanup(self.client.close)

    def test_values(self):
        for value in (b"", b"x", b"\0\xff" * 3, "gr\u00fc\u00dfe", bytearray(b"array"), memoryview(b"view"), os.urandom(300_000)):
            written = self.client.put("t", "value", value)
            read = self.client.get("t", b"value")
            wanted = value.encode() if isinstance(value, str) else bytes(value)
            self.assertEqual(bytes(read), wanted)
            self.assertEqual(bytes(read.view), wanted)
            self.assertEqual((len(read), read.version, read.ttl), (len(wanted), written.version, None))
        self.assertIsNone(self.client.get("t", "nobody"))

    def test_a_view_outlives_value_and_client(self):
        self.client.put("t", "large", b"v" * 1_000_000)
        with make_client() as other:
            value = other.get("t", "large")
        result = weakref.ref(value._result)
        view = value.view
        del value
        gc.collect()
        self.assertIsNotNone(result())
        self.assertTrue(view.readonly)
        self.assertEqual(view, b"v" * 1_000_000)
        del view
        gc.collect()
        self.assertIsNone(result())

    def test_writes(self):
        c = self.client
        self.assertEqual(c.add("t", "n").number, 1)
        written = c.add("t", "n", 41, durability=skua.Durability.SYNC)
        self.assertEqual((written.number, written.durability, written.repeated), (42, skua.Durability.SYNC, False))
        c.append("t", "n", "0")
        read = c.get("t", "n", at_least=written.token)
        self.assertEqual(bytes(read), b"420")
        self.assertEqual(read.token[:2], written.token[:2])
        c.expire("t", "n", 60)
        ttl = c.get("t", "n", with_ttl=True).ttl
        self.assertTrue(datetime.timedelta(0) < ttl <= datetime.timedelta(seconds=60), ttl)
        c.put("t", "n", "1", ttl=datetime.timedelta(hours=1))
        self.assertGreater(c.get("t", "n", with_ttl=True).ttl, datetime.timedelta(minutes=59))
        c.expire("t", "n", None)
        self.assertIsNone(c.get("t", "n", with_ttl=True).ttl)
        c.patch("t", "row", {"born": "1815", "name": b"ada"}, create_if_missing=True)
        both = len(c.get("t", "row"))
        self.assertEqual(c.get("t", "row").fields(), {"born": b"1815", "name": b"ada"})
        self.assertEqual(c.get("t", "row", fields=["name", "none"]).fields(), {"name": b"ada"})
        with self.assertRaises(skua.FailedPrecondition):
            c.get("t", "n", fields=["name"])
        for wrong in ([], "name", b"name"):
            with self.assertRaises(skua.InvalidArgument):
                c.get("t", "row", fields=wrong)
        no_text = b"\xff".decode(errors="surrogateescape")
        c.patch("t", "row", {no_text: "1"})
        self.assertEqual(c.get("t", "row", fields=[no_text]).fields(), {no_text: b"1"})
        c.patch("t", "row", {no_text: None})
        with self.assertRaises(skua.InvalidArgument):
            c.get("t", "row", fields=[""])
        with self.assertRaises(ValueError):
            c.get("t", "n").fields()
        c.patch("t", "row", {"born": None, "missing": None})
        self.assertLess(len(c.get("t", "row")), both)
        c.patch("t", "row", {"name": None})
        self.assertIsNone(c.get("t", "row"))
        c.remove("t", "n")
        with self.assertRaises(skua.NotFound) as raised:
            c.remove("t", "n")
        self.assertTrue(raised.exception.is_answer)

    def test_conditions(self):
        c = self.client
        first = c.put("t", "cond", "1")
        with self.assertRaises(skua.AlreadyExists) as raised:
            c.put("t", "cond", "2", if_absent=True)
        self.assertEqual((raised.exception.version, raised.exception.code), (first.version, "ALREADY_EXISTS"))
        self.assertTrue(raised.exception.is_answer)
        self.assertFalse(raised.exception.may_have_been_applied)
        second = c.put("t", "cond", "2", if_version=first.version)
        with self.assertRaises(skua.FailedPrecondition) as raised:
            c.put("t", "cond", "3", if_version=first.version)
        self.assertEqual(raised.exception.version, second.version)
        with self.assertRaises(skua.NotFound):
            c.put("t", "absent", "1", if_present=True)
        with self.assertRaisesRegex(skua.FailedPrecondition, "FAILED_PRECONDITION: .+"):
            c.put("t", "word", "w")
            c.add("t", "word", 1)

    def test_reads_into_buffers(self):
        c = self.client
        large = os.urandom(300_000)
        for value in (b"", b"x", large):
            c.put("t", "into", value)
            for buffer in (bytearray(300_001), memoryview(bytearray(300_001)), array.array("d", bytes(300_008))):
                view = memoryview(buffer).cast("B")
                view[len(value)] = 0x5a
                self.assertEqual(c.get_into("t", "into", buffer), len(value))
                self.assertEqual((bytes(view[:len(value)]), view[len(value)]), (value, 0x5a))
        self.assertIsNone(c.get_into("t", "nobody", bytearray(1)))
        self.assertEqual(c.get_into("t", "into", bytearray(300_000)), 300_000)
        small = bytearray(b"s" * 299_999)
        with self.assertRaisesRegex(skua.BufferTooSmall, "buffer 0 has 299999 bytes, and the value needs 300000"):
            c.get_into("t", "into", small)
        self.assertEqual(small, b"s" * 299_999)
        for refused in (b"read only", memoryview(bytearray(8))[::2], "text", None):
            with self.assertRaises((TypeError, BufferError, ValueError), msg=repr(refused)):
                c.get_into("t", "into", refused)

    def test_a_buffer_that_is_too_small_can_be_made_larger(self):
        self.client.put("t", "grown", b"g" * 1000)
        buffer = bytearray(10)
        try:
            self.client.get_into("t", "grown", buffer)
            self.fail("10 bytes are too few")
        except skua.BufferTooSmall as error:
            buffer.extend(bytes(error.needed_bytes - len(buffer)))
        self.assertEqual(self.client.get_into("t", "grown", buffer), 1000)
        self.assertEqual(buffer, b"g" * 1000)

    def test_reads_many_into_buffers(self):
        c = self.client
        c.put("t", "i1", b"1" * 10)
        c.put("t", "i2", b"2" * 20_000)
        buffers = [bytearray(10), bytearray(5), bytearray(20_000)]
        self.assertEqual(c.multi_get_into("t", ["i1", "nobody", "i2"], buffers), [10, None, 20_000])
        self.assertEqual(buffers, [b"1" * 10, bytearray(5), b"2" * 20_000])
        buffers = [bytearray(10), bytearray(19_999)]
        with self.assertRaises(skua.BufferTooSmall) as raised:
            c.multi_get_into("t", ["i1", "i2"], buffers)
        self.assertEqual((raised.exception.position, raised.exception.needed_bytes), (1, 20_000))
        self.assertEqual(buffers, [bytearray(10), bytearray(19_999)])
        with self.assertRaisesRegex(ValueError, "2 keys need as many buffers, and there are 1"):
            c.multi_get_into("t", ["i1", "i2"], [bytearray(10)])

    def test_many(self):
        c = self.client
        for key in ("m1", "m2", "m3"):
            c.put("t", key, key * 2)
        values = c.multi_get("t", ["m3", "nobody", b"m1"])
        self.assertEqual([None if value is None else bytes(value) for value in values], [b"m3m3", None, b"m1m1"])
        self.assertGreater(values[0].version, 0)
        rows = c.scan("t", "m1", "m9", limit=2)
        self.assertEqual([(row.key, row.value) for row in rows], [(b"m1", b"m1m1"), (b"m2", b"m2m2")])
        rest = c.scan("t", rows.next_start, "m9", limit=2)
        self.assertEqual([row.key for row in rest], [b"m3"])
        self.assertIsNone(rest.next_start)
        batch = skua.Batch().put("b", "1").add("b", 4).append("b", "0").add("b", 1)
        self.assertEqual(c.batch("one", batch), [0, 5, 0, 51])
        with self.assertRaises(skua.NotFound):
            c.batch("one", skua.Batch().add("b", 1).expire("nobody", 1))
        self.assertEqual(bytes(c.get("one", "b")), b"51")
        # A remove of an absent key does not end a batch, unless there is a condition.
        self.assertEqual(c.batch("one", skua.Batch().remove("nobody").add("b", 1)), [0, 52])
        for condition in ({"if_present": True}, {"if_version": 7}):
            with self.assertRaises(skua.Error) as raised:
                c.batch("one", skua.Batch().add("b", 1).remove("nobody", **condition))
            self.assertTrue(raised.exception.is_answer)

    def test_refusals(self):
        c = self.client
        with self.assertRaises(skua.InvalidArgument) as raised:
            c.put("t", "", "v")
        self.assertFalse(raised.exception.is_answer)
        with self.assertRaises(ValueError):
            c.multi_get("t", [])
        with self.assertRaises(TypeError):
            c.put("t", "k", "v", unknown=1)
        with self.assertRaises(TypeError):
            c.put("t", "k", 5)
        with self.assertRaisesRegex(skua.InvalidArgument, "did you mean timeout"):
            skua.Client(timeouts="1s")
        with skua.Client(control_address="127.0.0.1:9", timeout=0.2) as lost, self.assertRaises(skua.Error) as raised:
            lost.put("t", "k", "v")
        self.assertFalse(raised.exception.may_have_been_applied)
        c.close()
        c.close()
        with self.assertRaises(skua.Cancelled):
            c.get("t", "k")

    def test_times_are_above_zero(self):
        c = self.client
        for time in (0, -1, -1e-7, float("-inf"), float("nan"), datetime.timedelta(0), datetime.timedelta(microseconds=-1)):
            for call in (lambda t: c.put("t", "times", "v", ttl=t), lambda t: c.expire("t", "times", t),
                         lambda t: c.get("t", "times", timeout=t), lambda t: skua.Batch().expire("times", t)):
                with self.assertRaises((ValueError, OverflowError), msg=repr(time)) as raised:
                    call(time)
                self.assertNotIsInstance(raised.exception, skua.Error)
        # The least time above 0 is not "for ever" or "the client's timeout".
        c.put("t", "times", "v", ttl=1e-12)
        with skua.Client(control_address="127.0.0.1:9", timeout=LIMIT_S * 10) as lost, self.assertRaises(skua.Error):
            lost.get("t", "k", timeout=1e-12)
        read = c.get("t", "times", with_ttl=True)
        self.assertTrue(read is None or read.ttl is not None)

    def test_zeros_in_texts(self):
        for call in (lambda: self.client.put("t\0x", "k", "v"), lambda: make_client(cert="a\0b")):
            with self.assertRaisesRegex(ValueError, "must not have a zero in it"):
                call()

    def test_options(self):
        for options in ({"timeout": 60}, {"timeout": datetime.timedelta(minutes=1)}, {"timeout": "60s", "cert": None},
                        {"operations_max": 7, "exactly_once": True, "spin": 0}):
            with skua.Client(control_address=ADDRESS, **options) as client:
                client.put("t", "options", "v")

    def test_a_certificate_that_is_not_there_is_not_renewed(self):
        self.assertIsNone(self.client.certificate_trouble())
        with self.assertRaisesRegex(skua.InvalidArgument, "there is no certificate to renew"):
            make_client(renew_certificate=True)
        closed = skua.Client(control_address="127.0.0.1:9")
        closed.close()
        with self.assertRaises(skua.Cancelled):
            closed.certificate_trouble()

    def test_close_leaves_calls_under_way_whole(self):
        lost = skua.Client(control_address="127.0.0.1:9", timeout=1)
        raised = []

        def call():
            try:
                lost.get("t", "k")
            except skua.Error as error:
                raised.append(error.code)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        lost.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(raised), 4, raised)

    def test_a_child_of_fork_is_refused(self):
        self.client.put("t", "fork", "v")
        child = os.fork()
        if child == 0:
            signal.alarm(int(LIMIT_S))  # a call that waits for ever ends the child
            try:
                self.client.get("t", "fork")
            except skua.InvalidArgument as error:
                os._exit(0 if "fork()" in str(error) else 1)
            finally:
                os._exit(2)
        _, status = os.waitpid(child, 0)
        self.assertEqual(status, 0)
        self.assertEqual(bytes(self.client.get("t", "fork")), b"v")

    def test_threads_share_a_client(self):
        self.client.put("t", "sum", "0")

        def work():
            for _ in range(50):
                self.client.add("t", "sum", 1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(bytes(self.client.get("t", "sum")), b"200")


class AsyncClientTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = make_async_client()
        self.addAsyncCleanup(self.client.close)

    async def test_operations(self):
        c = self.client
        written = await c.put("t", "async", b"v" * 200_000)
        read = await c.get("t", "async")
        self.assertEqual((bytes(read), read.version), (b"v" * 200_000, written.version))
        self.assertIsNone(await c.get("t", "nobody"))
        self.assertEqual((await c.add("t", "an", 7)).number, 7)
        await c.append("t", "an", "0")
        await c.expire("t", "an", 100)
        self.assertEqual([None if v is None else bytes(v) for v in await c.multi_get("t", ["an", "nobody"])], [b"70", None])
        self.assertEqual([row.key for row in await c.scan("t", "an", "ao")], [b"an"])
        await c.patch("t", "arow", {"a": "b"}, create_if_missing=True)
        self.assertEqual((await c.get("t", "arow", fields=["a"])).fields(), {"a": b"b"})
        await c.patch("t", "arow", {"a": None})
        self.assertIsNone(await c.get("t", "arow"))
        self.assertEqual(await c.batch("one", skua.Batch().add("ab", 1).add("ab", 2)), [1, 3])
        await c.remove("t", "an")
        with self.assertRaises(skua.NotFound):
            await c.remove("t", "an")
        with self.assertRaises(skua.InvalidArgument):
            await c.get("t", "")

    async def test_a_transport_without_a_descriptor(self):
        # DPDK starts once in a process, so in one of its own. Nobody is behind the device.
        program = f"""
import asyncio, skua
async def main():
    async with skua.AsyncClient(control_address="{ADDRESS}", transport="dpdk", dpdk_devices="net_null0", timeout=0.2,
                                dpdk_addresses="10.77.0.2/24", dpdk_huge_pages=False) as client:
        try:
            await client.get("t", "k")
        except skua.Error as error:
            print(error.code)
try:
    asyncio.run(main())
except skua.Error as error:
    print("left out:", error.text)
"""
        made = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
        said, _ = await made.communicate()
        self.assertEqual(made.returncode, 0)
        self.assertRegex(said.decode(), r"^(DEADLINE_EXCEEDED\n|UNAVAILABLE\n|left out: .*)")

    async def test_reads_into_buffers(self):
        c = self.client
        values = {f"ai{i}": bytes([i]) * (i * 50_000) for i in range(6)}
        await asyncio.gather(*(c.put("t", key, value) for key, value in values.items()))
        buffers = {key: bytearray(len(value)) for key, value in values.items()}
        sizes = await asyncio.gather(*(c.get_into("t", key, buffer) for key, buffer in buffers.items()))
        self.assertEqual((sizes, buffers), ([len(value) for value in values.values()], values))
        self.assertIsNone(await c.get_into("t", "nobody", bytearray(1)))
        small = bytearray(10)
        with self.assertRaises(skua.BufferTooSmall) as raised:
            await c.get_into("t", "ai1", small)
        self.assertEqual((raised.exception.needed_bytes, small), (50_000, bytearray(10)))
        pair = [bytearray(50_000), bytearray(100_000)]
        self.assertEqual(await c.multi_get_into("t", ["ai1", "ai2"], pair), [50_000, 100_000])
        self.assertEqual(pair, [values["ai1"], values["ai2"]])
        with self.assertRaises(skua.InvalidArgument):
            await c.get_into("t", "", small)

    async def test_a_cancelled_read_leaves_its_buffer_alone(self):
        await self.client.put("t", "untouched", b"v" * 100_000)
        buffer = bytearray(100_000)
        task = asyncio.ensure_future(self.client.get_into("t", "untouched", buffer))
        # At once: a turn of the loop may be enough for the answer.
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        while _async_client._in_flight:
            await asyncio.sleep(0.01)
        self.assertEqual(buffer, bytes(100_000))

    async def test_many_at_a_time(self):
        keys = [f"many{i}" for i in range(500)]
        await asyncio.gather(*(self.client.put("t", key, key) for key in keys))
        values = await asyncio.gather(*(self.client.get("t", key) for key in keys))
        self.assertEqual([bytes(value).decode() for value in values], keys)
        await asyncio.gather(*(self.client.add("t", "async sum") for _ in range(100)))
        self.assertEqual(bytes(await self.client.get("t", "async sum")), b"100")

    async def test_the_loop_sleeps(self):
        await self.client.get("t", "k")
        turns = 0
        original = self.client._turn

        def counted():
            nonlocal turns
            turns += 1
            original()

        self.client._turn = counted
        # The descriptor's own reader is not counted: what is left are timers and turns that were asked for.
        await self.client.get("t", "k")
        self.assertLess(turns, 50)

    async def test_a_deadline_ends_it(self):
        async with skua.AsyncClient(control_address="127.0.0.1:9") as lost:
            with self.assertRaises(skua.Error) as raised:
                await lost.get("t", "k", timeout=0.2)
        self.assertIn(type(raised.exception), (skua.DeadlineExceeded, skua.Unavailable))

    async def test_cancelled_tasks_leave_the_client_whole(self):
        task = asyncio.ensure_future(self.client.put("t", "cancelled", "v" * 100_000))
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        for _ in range(20):
            await self.client.get("t", "k")

    async def test_close_ends_what_is_under_way(self):
        client = make_async_client()
        waiting = client.get("t", "k")
        await client.close()
        await client.close()
        with self.assertRaises(skua.Cancelled):
            await waiting
        with self.assertRaises(skua.Cancelled):
            await client.get("t", "k")

    async def test_a_call_that_raises_stops_nobody(self):
        async with skua.AsyncClient(control_address="127.0.0.1:9") as lost:
            waiting = lost.get("t", "k", timeout=0.5)
            await asyncio.sleep(0.1)  # the loop sleeps, until a timer of the client
            in_flight = dict(_async_client._in_flight)
            with self.assertRaises(OverflowError):
                lost.add("t", "n", 2 ** 70)
            self.assertEqual(_async_client._in_flight, in_flight)
            with self.assertRaises(skua.Error):
                await asyncio.wait_for(waiting, LIMIT_S)

    async def test_other_threads_are_refused(self):
        async with skua.AsyncClient(control_address="127.0.0.1:9") as lost:
            waiting = lost.get("t", "k", timeout=0.5)
            await asyncio.sleep(0.1)
            raised = []

            def other():
                for call in (lambda: lost.get("t", "k"), lambda: asyncio.run(lost.close()), lost.certificate_trouble):
                    try:
                        call()
                    except RuntimeError as error:
                        raised.append(error)

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            self.assertEqual(len(raised), 3, raised)
            self.assertRegex(str(raised[0]), "belongs to another thread")
            # The client goes on, and is closed by its own thread.
            with self.assertRaises(skua.Error):
                await asyncio.wait_for(waiting, LIMIT_S)
            with self.assertRaises(skua.Error):
                await asyncio.wait_for(lost.get("t", "k", timeout=0.2), LIMIT_S)

    async def test_a_client_that_cannot_be_polled_fails_its_operations(self):
        lost = skua.AsyncClient(control_address="127.0.0.1:9", timeout=LIMIT_S * 10)
        waiting = lost.get("t", "k")
        write = lost.add("t", "n", 1)
        lost._end_wait()
        # Now the loop's thread is not the owner any more.
        thread = threading.Thread(target=lambda: lib.skua_adopt_thread(lost._client))
        thread.start()
        thread.join()
        for call in (waiting, lost.get("t", "k")):
            with self.assertRaises(skua.InvalidArgument) as raised:
                await asyncio.wait_for(call, LIMIT_S)
            self.assertFalse(raised.exception.may_have_been_applied)
        with self.assertRaises(skua.InvalidArgument) as raised:
            await asyncio.wait_for(write, LIMIT_S)
        self.assertTrue(raised.exception.may_have_been_applied)
        with self.assertRaises(skua.InvalidArgument):
            await lost.close()
        self.assertEqual(lib.skua_adopt_thread(lost._client), lib.SKUA_OK)
        await lost.close()

    async def test_a_refusal_does_not_lose_the_others(self):
        async with make_async_client(operations_max=4) as narrow:
            outcomes = await asyncio.gather(*(narrow.put("t", "narrow", str(i)) for i in range(6)), return_exceptions=True)
        self.assertEqual([type(outcome) for outcome in outcomes], [skua.Written] * 4 + [skua.ResourceExhausted] * 2)

    async def test_other_tasks_run_meanwhile(self):
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        await asyncio.gather(*(self.client.get("t", "k") for _ in range(50)))
        ticking.cancel()
        self.assertGreater(ticks, 1)


class InterruptTest(unittest.TestCase):
    def test_a_signal_handler_that_raises_inside_of_a_callback(self):
        loop = asyncio.new_event_loop()
        self.addCleanup(loop.close)
        operations = []

        def interrupt(_result):
            raise KeyboardInterrupt

        async def start():
            client = make_async_client()
            arguments = Arguments()
            operations.append(client._run("get", interrupt, arguments, arguments.table("t"), arguments.bytes("k"),
                                          arguments.read()))
            return client

        client = loop.run_until_complete(start())
        with self.assertRaises(KeyboardInterrupt):
            loop.run_until_complete(operations[0])
        with self.assertRaises(skua.Error) as raised:
            loop.run_until_complete(operations[0])
        self.assertIn("signal handler", str(raised.exception))
        self.assertFalse(_async_client._in_flight)
        # The client goes on.
        self.assertIsNone(loop.run_until_complete(client.get("t", "nobody")))
        loop.run_until_complete(client.close())


class PackageTest(unittest.TestCase):
    def test_an_async_client_that_was_not_closed_warns(self):
        async def forget():
            skua.AsyncClient(control_address="127.0.0.1:9")

        with self.assertWarnsRegex(ResourceWarning, "AsyncClient.* was not closed"):
            asyncio.run(forget())
            gc.collect()

    def test_the_stub_says_what_the_package_has(self):
        with open(os.path.join(os.path.dirname(skua.__file__), "__init__.pyi"), encoding="utf-8") as stub:
            told = {node.name: node for node in ast.parse(stub.read()).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        self.assertEqual(set(told), set(skua.__all__))
        for name in ("Client", "AsyncClient", "Batch"):
            methods = {node.name: node.args for node in told[name].body
                       if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
            has = getattr(skua, name)
            self.assertEqual({method for method in methods if method[0] != "_"},
                             {method for method in dir(has) if method[0] != "_" and callable(getattr(has, method))})
            for method, arguments in methods.items():
                if method[0] != "_":
                    self.check_arguments(f"{name}.{method}", getattr(has, method), arguments)

    def check_arguments(self, name, method, told):
        parameters = inspect.signature(method).parameters.values()
        self.assertEqual([argument.arg for argument in told.args],
                         [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD], name)
        allowed = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
        for options in (Arguments.read, Arguments.write):
            allowed |= set(inspect.signature(options).parameters) - {"self"}
        self.assertLessEqual({argument.arg for argument in told.kwonlyargs}, allowed, name)

    def test_names(self):
        for name in skua.__all__:
            self.assertTrue(hasattr(skua, name), name)
        self.assertRegex(skua.library_version(), r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main(verbosity=2)
