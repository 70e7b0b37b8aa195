#!/usr/bin/env python3
"""skua-gateway with TLS and users, as a program on a cluster: Redis's own tools, clients with the wrong certificate or none,
clients that say nothing or nonsense, files that are renewed, users that go.

  gateway_security_test.py --bin build/release/bin [NAME]

Exit code 77: there are no redis-cli and openssl here.
"""

import argparse
import concurrent.futures
import contextlib
import os
import pty
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import termios
import time
import unittest
import warnings

from gateway_programs import LIMIT_S, Programs, free_ports, wait_for
from redis_client import Connection, encode

BIN = None
WRONGPASS = "-WRONGPASS invalid username-password pair or user is disabled."
NOAUTH = "-NOAUTH Authentication required."


class Authorities:
    """Certificates in a directory, made when they are needed."""

    def __init__(self, directory, skuactl):
        self.directory = directory
        self.skuactl = skuactl
        os.makedirs(directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def run(self, *words):
        subprocess.run(words, check=True, capture_output=True, cwd=self.directory, timeout=LIMIT_S)

    def server(self, name="gateway", authority="site"):
        """NAME.pem and NAME.key for 127.0.0.1, signed by AUTHORITY.pem, which is made if it is not there."""
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        if not os.path.exists(self.path(authority + ".pem")):
            self.run("openssl", "req", "-x509", *key, "-days", "30", "-subj", f"/CN={authority}", "-keyout", authority + ".key",
                     "-out", authority + ".pem")
        self.run("openssl", "req", *key, "-subj", f"/CN={name}", "-keyout", name + ".new-key", "-out", name + ".request")
        with open(self.path("extensions"), "w", encoding="ascii") as extensions:
            extensions.write("subjectAltName=IP:127.0.0.1\n")
        self.run("openssl", "x509", "-req", "-in", name + ".request", "-CA", authority + ".pem", "-CAkey", authority + ".key",
                 "-CAcreateserial", "-days", "30", "-extfile", "extensions", "-out", name + ".new-pem")
        for ending in ("key", "pem"):
            os.replace(self.path(f"{name}.new-{ending}"), self.path(f"{name}.{ending}"))

    def expired(self, name, authority):
        """A client's certificate that has expired a long time ago."""
        self.run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", name + ".key", "-out", name + ".request")
        os.makedirs(self.path("ca.db"), exist_ok=True)
        open(self.path("ca.db/index"), "w", encoding="ascii").close()
        with open(self.path("ca.conf"), "w", encoding="ascii") as configuration:
            configuration.write("[ca]\ndefault_ca=d\n[d]\ndatabase=ca.db/index\nnew_certs_dir=ca.db\nrand_serial=yes\n"
                                "default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n")
        self.run("openssl", "ca", "-batch", "-config", "ca.conf", "-cert", authority + ".pem", "-keyfile", authority + ".key", "-in",
                 name + ".request", "-out", name + ".pem", "-startdate", "20200101000000Z", "-enddate", "20200201000000Z", "-notext")

    def named(self, name, uri, authority):
        """A client's certificate with any URI, of any authority."""
        self.run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", name + ".key", "-out", name + ".request")
        with open(self.path("extensions"), "w", encoding="ascii") as extensions:
            extensions.write(f"subjectAltName=URI:{uri}\n")
        self.run("openssl", "x509", "-req", "-in", name + ".request", "-CA", authority + ".pem", "-CAkey", authority + ".key",
                 "-CAcreateserial", "-days", "30", "-extfile", "extensions", "-out", name + ".pem")

    def uri_of(self, name):
        """skua://CLUSTER/ROLE/NAME, of a certificate of a cluster."""
        text = subprocess.run(["openssl", "x509", "-in", self.path(name + ".pem"), "-noout", "-ext", "subjectAltName"], check=True,
                              capture_output=True, text=True, timeout=LIMIT_S).stdout
        return text.split("URI:")[1].split(",")[0].strip()

    def both(self):
        """both.pem: the authorities of the cluster and of the site."""
        with open(self.path("both.pem"), "w", encoding="ascii") as both:
            for name in ("cluster/ca.pem", "site.pem"):
                with open(self.path(name), encoding="ascii") as authority:
                    both.write(authority.read())

    def cluster(self, name="cluster"):
        self.run(self.skuactl, "cert", "init", name)

    def client(self, name, authority="cluster"):
        self.run(self.skuactl, "cert", "issue", "client", name, "--authority", authority, "--out", ".")


class TlsConnection(Connection):
    """Without `authority` it believes any server."""

    def __init__(self, port, authority=None, certificate=None, newest=None):
        super().__init__(port)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = authority is not None
        context.verify_mode = ssl.CERT_REQUIRED if authority is not None else ssl.CERT_NONE
        if authority is not None:
            context.load_verify_locations(authority)
        if certificate is not None:
            context.load_cert_chain(certificate + ".pem", certificate + ".key")
        if newest is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                context.minimum_version = ssl.TLSVersion.TLSv1
                context.maximum_version = newest
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
        try:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        except OSError:
            self.socket.close()
            raise


class GatewaySecurityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = Programs(BIN)
        cls.addClassCleanup(cls.programs.__exit__)
        cls.programs.start_cluster(1)
        cls.programs.skuactl("table", "create", "cache", "--shards", "1")
        cls.programs.skuactl("table", "create", "users", "--shards", "1")
        cls.authorities = Authorities(os.path.join(cls.programs.directory.name, "certificates"), os.path.join(BIN, "skuactl"))
        cls.authorities.server()
        cls.authorities.cluster()
        cls.authorities.client("app-7")
        cls.hash = cls.hash_of("secret")

    @classmethod
    def hash_of(cls, password):
        return subprocess.run(cls.programs.gateway_command("--hash-password"), input=password + "\n", capture_output=True, text=True,
                              check=True, timeout=LIMIT_S).stdout.strip()

    def gateway(self, *words):
        process, port = self.programs.start_gateway("--databases", "0=cache,3=users", *words)
        self.addCleanup(self.end, process)
        return process, port

    def end(self, process):
        if process.poll() is None:
            self.assertEqual(self.programs.end(process), 0)

    def tls(self, authority=None):
        path = self.authorities.path
        return ("--client-tls-cert", path("gateway.pem"), "--client-tls-key", path("gateway.key"),
                *(("--client-tls-ca", path(authority)) if authority else ()))

    def users_file(self, text):
        """The path of a new users file."""
        path = os.path.join(self.programs.directory.name, f"users-{self.id()}")
        self.write_users(path, text)
        return path

    def write_users(self, path, text):
        with open(path + ".new", "w", encoding="ascii") as users:
            users.write(text.replace("HASH", self.hash))
        os.replace(path + ".new", path)

    def connect(self, make, *words):
        connection = make(*words)
        self.addCleanup(connection.close)
        return connection

    def refused_by_server(self, port, **arguments):
        """The server ends the connection because of the client's certificate: with TLS 1.3 the client sees it a little later."""
        try:
            connection = TlsConnection(port, self.authorities.path("site.pem"), **arguments)
        except (ssl.SSLError, ConnectionError):
            return
        try:
            connection.ask("PING")
        except (ssl.SSLError, ConnectionError, EOFError):
            return
        finally:
            connection.close()
        self.fail("the client got an answer")

    def test_redis_cli_and_benchmark(self):
        _, port = self.gateway(*self.tls(), "--users-file", self.users_file("default HASH *=read,write\n"), "--threads", "2")
        cli = ("redis-cli", "-p", str(port), "--tls", "--cacert", self.authorities.path("site.pem"), "--no-auth-warning")
        for more in ((), ("-3",)):
            result = subprocess.run([*cli, "-a", "secret", *more], input="set greeting hello\nget greeting\n", capture_output=True,
                                    text=True, timeout=LIMIT_S, check=True)
            self.assertEqual(result.stdout.split(), ["OK", "hello"], result.stderr)
        result = subprocess.run([*cli, "get", "greeting"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertIn("NOAUTH", result.stdout + result.stderr)
        result = subprocess.run([*cli, "--user", "default", "--pass", "secret", "--pipe"], timeout=LIMIT_S, capture_output=True,
                                input=b"".join(encode("SET", f"pipe:{i}", i) for i in range(1000)), check=True)
        self.assertIn(b"errors: 0, replies: 1000", result.stdout)
        result = subprocess.run(["redis-benchmark", "-p", str(port), "--tls", "--cacert", self.authorities.path("site.pem"), "-a",
                                 "secret", "-q", "-n", "1000", "-c", "20", "-P", "4", "-t", "ping,set,get"], capture_output=True,
                                text=True, timeout=4 * LIMIT_S, check=True)
        self.assertIn("GET: ", result.stdout)
        self.assertNotIn("rror", result.stdout + result.stderr)

    def test_large_values_and_slow_clients(self):
        _, port = self.gateway(*self.tls())
        connection = self.connect(TlsConnection, port, self.authorities.path("site.pem"))
        value = os.urandom(3 << 20)
        self.assertEqual(connection.ask("SET", "large", value), "+OK")
        connection.send(encode("GET", "large") * 40)
        other = self.connect(TlsConnection, port)
        self.assertEqual(other.ask("PING"), "+PONG")
        for _ in range(40):
            self.assertEqual(connection.reply().value, value)
        connection.send(encode("PING") * 5000)
        for _ in range(5000):
            self.assertEqual(connection.reply().value, "+PONG")

    def test_versions(self):
        _, port = self.gateway(*self.tls())
        self.assertEqual(self.connect(TlsConnection, port).socket.version(), "TLSv1.3")
        older = self.connect(lambda: TlsConnection(port, newest=ssl.TLSVersion.TLSv1_2))
        self.assertEqual(older.socket.version(), "TLSv1.2")
        self.assertEqual(older.ask("PING"), "+PONG")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            TlsConnection(port, newest=ssl.TLSVersion.TLSv1_1)

    def test_clients_must_show_a_certificate(self):
        self.authorities.cluster("other")
        self.authorities.client("stranger", "other")
        self.authorities.both()
        self.authorities.server("colleague")
        self.authorities.expired("expired", "site")
        process, port = self.gateway(*self.tls("both.pem"))
        site = self.authorities.path("site.pem")
        for name in ("app-7", "colleague"):
            connection = self.connect(TlsConnection, port, site, self.authorities.path(name))
            self.assertEqual(connection.ask("PING"), "+PONG", name)
        self.refused_by_server(port)
        self.refused_by_server(port, certificate=self.authorities.path("stranger"))
        self.refused_by_server(port, certificate=self.authorities.path("expired"))
        with self.assertRaises(ssl.SSLError):
            TlsConnection(port, self.authorities.path("other/ca.pem"))
        name = f"gateway{port}"
        for words in ("peer did not return a certificate", "certificate verify failed", "certificate has expired"):
            wait_for(f"the log to say {words}", lambda words=words: words in self.programs.log(name))
        self.assertIsNone(process.poll())

    def test_a_certificate_stands_for_a_user(self):
        self.authorities.client("app-8")
        site = self.authorities.path("site.pem")
        users = self.users_file("app-7 certificate cache=read\ndefault HASH cache=read,write\n")
        self.authorities.both()
        self.authorities.named("forged", self.authorities.uri_of("app-7"), "site")
        self.authorities.run(self.authorities.skuactl, "cert", "issue", "monitor", "app-7", "--authority", "cluster", "--out", "monitor")
        _, port = self.gateway(*self.tls("both.pem"), "--users-file", users)
        for name in ("forged", "monitor/app-7"):
            stranger = self.connect(TlsConnection, port, site, self.authorities.path(name))
            self.assertEqual(stranger.ask("GET", "nosuch"), NOAUTH, name)
        known = self.connect(TlsConnection, port, site, self.authorities.path("app-7"))
        self.assertIsNone(known.ask("GET", "nosuch"))
        self.assertTrue(known.ask("SET", "a", "1").startswith("-NOPERM "))
        unknown = self.connect(TlsConnection, port, site, self.authorities.path("app-8"))
        self.assertEqual(unknown.ask("GET", "nosuch"), NOAUTH)
        self.assertEqual(unknown.ask("AUTH", "secret"), "+OK")
        self.assertEqual(unknown.ask("SET", "a", "1"), "+OK")

    def test_bytes_that_are_no_tls(self):
        process, port = self.gateway(*self.tls(), "--connections-max", "20")
        for data in (encode("PING"), b"PING\r\n", os.urandom(4096), b"\x16\x03\x01\xff\xff" + bytes(100), b"\x16\x03\x01\x00\x00" * 50):
            plain = self.connect(Connection, port)
            plain.send(data)
            with contextlib.suppress(OSError):  # the gateway may have hung up
                plain.socket.shutdown(socket.SHUT_WR)
            answer = plain.rest()
            self.assertNotIn(b"PONG", answer)
            self.assertNotIn(b"-ERR", answer)
        connection = self.connect(TlsConnection, port)
        self.assertEqual(connection.ask("PING"), "+PONG")
        # A record that is cut, and one that was changed on its way.
        broken = TlsConnection(port)
        raw = socket.socket(fileno=os.dup(broken.socket.fileno()))
        raw.sendall(b"\x17\x03\x03\x00\x40" + bytes(64))
        raw.settimeout(LIMIT_S)
        while raw.recv(4096):
            pass
        raw.close()
        broken.close()
        self.assertEqual(connection.ask("PING"), "+PONG")
        self.assertIsNone(process.poll())

    def test_slow_handshakes_end(self):
        _, port = self.gateway(*self.tls(), "--connections-max", "3", "--http-address", f"127.0.0.1:{(http := free_ports(1))}")
        # The test has looked whether the gateway listens, by a connection: that one is gone when this one has an answer.
        patient = self.connect(TlsConnection, port)
        self.assertEqual(patient.ask("PING"), "+PONG")
        silent = [self.connect(Connection, port) for _ in range(2)]
        silent[1].send(b"\x16\x03\x01\x00\xfe\x01")
        further = self.connect(Connection, port)
        self.assertEqual(further.rest(), b"", "half-open handshakes count")
        for connection in silent:
            self.assertEqual(connection.rest(), b"", "closed without a word")
        late = self.connect(TlsConnection, port)
        self.assertEqual(late.ask("PING"), "+PONG")
        metrics = subprocess.run(["curl", "-s", f"http://127.0.0.1:{http}/metrics"], capture_output=True, text=True, check=True,
                                 timeout=LIMIT_S).stdout
        self.assertIn("skua_gateway_tls_failures_total 2", metrics)
        expires_s = int(re.search(r"^skua_gateway_tls_certificate_expires_seconds (\d+)$", metrics, re.MULTILINE).group(1))
        end = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", self.authorities.path("gateway.pem")], capture_output=True,
                             text=True, check=True, timeout=LIMIT_S).stdout.strip().removeprefix("notAfter=")
        self.assertEqual(expires_s, ssl.cert_time_to_seconds(end))
        self.assertNotIn("skua_certificate_expires_seconds", metrics, "the cluster has no certificates")

    def test_many_handshakes_at_once(self):
        _, port = self.gateway(*self.tls())
        site = self.authorities.path("site.pem")
        inside = self.connect(TlsConnection, port, site)
        # A greeting of a client, as ssl makes it: each costs the gateway a signature.
        greeting = ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with contextlib.suppress(ssl.SSLWantReadError):
            context.wrap_bio(ssl.MemoryBIO(), greeting).do_handshake()
        hello = greeting.read()
        crowd = [self.connect(Connection, port) for _ in range(300)]
        for connection in crowd:
            connection.send(hello)
        for connection in crowd[::3]:  # some leave while their handshake waits
            connection.close()
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            later = list(pool.map(lambda _: TlsConnection(port, site), range(100)))
        self.assertEqual(inside.ask("PING"), "+PONG")
        for connection in later:
            self.addCleanup(connection.close)
            self.assertEqual(connection.ask("PING"), "+PONG")
        for connection in crowd[1::3]:
            self.assertEqual(connection.socket.recv(1), b"\x16", "the server's part of the handshake")

    def test_files_are_renewed(self):
        self.authorities.server("renewed")
        path = self.authorities.path
        _, port = self.gateway("--client-tls-cert", path("renewed.pem"), "--client-tls-key", path("renewed.key"))
        name = f"gateway{port}"
        before = self.connect(TlsConnection, port, path("site.pem"))
        serial = before.socket.getpeercert()["serialNumber"]
        with open(path("renewed.pem"), "w", encoding="ascii") as certificate:
            certificate.write("nonsense\n")
        wait_for("a complaint", lambda: "those before stay in use" in self.programs.log(name))
        kept = self.connect(TlsConnection, port, path("site.pem"))
        self.assertEqual(kept.socket.getpeercert()["serialNumber"], serial)
        self.authorities.server("renewed")

        def is_renewed():
            connection = TlsConnection(port, path("site.pem"))
            found = connection.socket.getpeercert()["serialNumber"]
            connection.close()
            return found != serial

        wait_for("the new certificate", is_renewed)
        self.assertEqual(before.ask("PING"), "+PONG", "connections go on")
        self.assertIn("files about clients were read again", self.programs.log(name))

    def test_authentication(self):
        text = "default HASH *=read\nada HASH cache=read,write\n"
        _, port = self.gateway("--users-file", self.users_file(text), "--threads", "2")
        connection = self.connect(Connection, port)
        connection.send(encode("GET", "a") + encode("AUTH", "ada", "wrong") + encode("AUTH", "ada", "secret") + encode("SET", "a", "1") +
                        encode("GET", "a") + encode("AUTH", "secret") + encode("SET", "a", "2"))
        self.assertEqual([connection.reply().value for _ in range(6)], [NOAUTH, WRONGPASS, "+OK", "+OK", b"1", "+OK"])
        self.assertTrue(connection.reply().value.startswith("-NOPERM "))
        third = self.connect(Connection, port)
        third.send(encode("HELLO", "3", "AUTH", "nobody", "secret") + encode("HELLO", "3", "AUTH", "ada", "secret") +
                   encode("GET", "nosuch"))
        self.assertEqual(third.reply().value, WRONGPASS)
        self.assertTrue(third.reply().raw.startswith(b"%7\r\n"))
        self.assertEqual(third.reply().raw, b"_\r\n")
        self.assertIn("a client said a wrong user or password", self.programs.log(f"gateway{port}"))
        # Many connections of one application: each but the first is a matter of microseconds.
        many = [self.connect(Connection, port) for _ in range(200)]
        for client in many:
            client.send(encode("AUTH", "ada", "secret") + encode("PING"))
        for client in many:
            self.assertEqual([client.reply().value, client.reply().value], ["+OK", "+PONG"])

    def test_replies_are_those_of_redis(self):
        redis = self.programs.start_redis()
        setup = self.connect(Connection, redis)
        for user in (("ada", "on", ">secret", "~*", "+@all"), ("reader", "on", ">secret", "%R~*", "+@all"),
                     ("nobody", "on", ">secret", "~*", "-@all", "+@connection", "+@transaction"),
                     ("default", "on", ">secret", "~*", "+@all")):
            self.assertEqual(setup.ask("ACL", "SETUSER", *user), "+OK")
        users = self.users_file("ada HASH *=read,write\nreader HASH *=read\nnobody HASH\ndefault HASH *=read,write\n")
        _, gateway = self.gateway("--users-file", users)
        secret = [encode("AUTH", user, "secret") for user in ("ada", "reader", "nobody")]
        for conversation in (
                [encode("GET", "a"), encode("NOSUCH"), encode("PING"), encode("GET"), encode("MULTI"), encode("EXEC"), encode("RESET")],
                [encode("AUTH", "ada", "wrong"), encode("AUTH", "eve", "secret"), encode("AUTH", "wrong"), encode("AUTH"),
                 encode("AUTH", "a", "b", "c"), encode("AUTH", "secret"), encode("AUTH", "ada", "wrong"), encode("SET", "a", "1")],
                [encode("HELLO"), encode("HELLO", "3"), encode("HELLO", "3", "AUTH", "ada", "wrong"), encode("HELLO", "4"),
                 encode("HELLO", "3", "AUTH", "ada"), encode("HELLO", "3", "SETNAME", "me"), secret[0], encode("GET", "nosuch"),
                 encode("RESET"), encode("GET", "a")],
                [secret[0], encode("SET", "a", "1"), secret[1], encode("GET", "a"), encode("SET", "a", "2"), encode("GETSET", "a", "2"),
                 encode("DEL", "a"), encode("MULTI"), encode("GET", "a"), encode("SET", "a", "2"), encode("EXEC"), encode("EXEC"),
                 encode("GET", "a")],
                [secret[2], encode("DBSIZE"), encode("KEYS", "*")],
                [encode(*"abcdefghijk")], [b"*1\r\n$16385\r\n"], [encode("QUIT")]):
            answers = []
            for port in (redis, gateway):
                connection = self.connect(Connection, port)
                answers.append([])
                for request in conversation:
                    connection.send(request)
                    answers[-1].append(connection.reply().raw)
            self.assertEqual(*answers)

    def test_who_does_not_authenticate_is_cut_off(self):
        _, port = self.gateway("--users-file", self.users_file("ada HASH *=read,write\n"), "--authentication-timeout", "2s")
        silent, chatty, ada = (self.connect(Connection, port) for _ in range(3))
        self.assertEqual(ada.ask("AUTH", "ada", "secret"), "+OK")
        self.assertEqual(chatty.ask("GET", "a"), NOAUTH)
        self.assertEqual(chatty.ask("AUTH", "ada", "wrong"), WRONGPASS)
        self.assertEqual(silent.rest(), b"")
        self.assertEqual(chatty.rest(), b"")
        self.assertEqual(ada.ask("PING"), "+PONG")

    def test_others_are_served_while_passwords_are_checked(self):
        _, port = self.gateway("--users-file", self.users_file("ada HASH *=read,write\n"))
        ada = self.connect(Connection, port)
        self.assertEqual(ada.ask("AUTH", "ada", "secret"), "+OK")
        guessers = [self.connect(Connection, port) for _ in range(20)]
        for i, guesser in enumerate(guessers):
            guesser.send(encode("AUTH", "ada", f"guess{i}"))
        answered = 0
        while ada.ask("SET", "a", "1") == "+OK" and answered < 100:
            answered += 1
        self.assertEqual(answered, 100)
        guessers[-1].socket.setblocking(False)
        with self.assertRaises(BlockingIOError):
            guessers[-1].socket.recv(1)
        guessers[-1].socket.settimeout(LIMIT_S)
        self.assertEqual(guessers[-1].reply().value, WRONGPASS)

    def test_passwords_of_clients_that_went_away_come_last(self):
        http = free_ports(1)
        _, port = self.gateway("--users-file", self.users_file("ada HASH *=read,write\n"), "--http-address", f"127.0.0.1:{http}")
        for i in range(30):
            gone = Connection(port)
            gone.send(encode("AUTH", "ada", f"guess{i}"))
            gone.close()
        self.assertEqual(self.connect(Connection, port).ask("AUTH", "ada", "wrong"), WRONGPASS)
        metrics = subprocess.run(["curl", "-s", f"http://127.0.0.1:{http}/metrics"], capture_output=True, text=True, check=True,
                                 timeout=LIMIT_S).stdout
        checked = int(re.search(r"^skua_gateway_authentication_failures_total (\d+)$", metrics, re.MULTILINE).group(1))
        self.assertLess(checked, 30, "the last client did not wait for those that went away")

    def test_users_that_go(self):
        both = "ada HASH cache=read,write\nbob HASH cache=read,write\n"
        users = self.users_file(both)
        _, port = self.gateway("--users-file", users)
        ada, bob = (self.connect(Connection, port) for _ in range(2))
        self.assertEqual(ada.ask("AUTH", "ada", "secret"), "+OK")
        self.assertEqual(bob.ask("AUTH", "bob", "secret"), "+OK")
        self.assertEqual(bob.ask("MULTI"), "+OK")
        self.assertEqual(bob.ask("SET", "multi", "1"), "+QUEUED")
        self.write_users(users, "bob HASH cache=read\n")
        begun = time.monotonic()
        self.assertEqual(ada.rest(), b"")
        print(f"the session of a removed user ended after {time.monotonic() - begun:.2f} s", file=sys.stderr)
        self.assertTrue(bob.ask("EXEC").startswith("-NOPERM ACLs rules changed"))
        self.assertIsNone(bob.ask("GET", "multi"))
        self.assertTrue(bob.ask("SET", "multi", "1").startswith("-NOPERM "))
        # What makes no sense changes nothing, and neither does a file without users.
        for text, complaint in (("bob nonsense\n", "line 1: not a hash of a password"), ("", "there is no user in it")):
            with open(users, "w", encoding="ascii") as file:
                file.write(text)
            wait_for("a complaint", lambda complaint=complaint: complaint in self.programs.log(f"gateway{port}"))
        self.assertIsNone(bob.ask("GET", "multi"))
        again = self.connect(Connection, port)
        self.assertEqual(again.ask("AUTH", "ada", "secret"), WRONGPASS)

    def test_memcached(self):
        users = self.users_file("ada HASH cache=read\n")
        _, port = self.programs.start_memcached_gateway("--databases", "0=cache", *self.tls(), "--users-file", users)
        connection = self.connect(TlsConnection, port, self.authorities.path("site.pem"))
        connection.send(b"get a\r\nset x 0 0 9\r\nada wrong\r\nset x 0 0 10\r\nada secret\r\nget nosuch\r\nset a 0 0 1\r\n1\r\n")
        for line in (b"CLIENT_ERROR unauthenticated\r\n", b"CLIENT_ERROR authentication failure\r\n", b"STORED\r\n", b"END\r\n"):
            self.assertEqual(connection.line(), line)
        self.assertTrue(connection.line().startswith(b"SERVER_ERROR no right"))

    def prompted(self):
        """A terminal where --hash-password has asked, and its process."""
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = subprocess.Popen(self.programs.gateway_command("--hash-password"), stdin=end, stdout=subprocess.PIPE, stderr=end)
        self.addCleanup(lambda: (process.kill(), process.wait(LIMIT_S), process.stdout.close()))
        os.close(end)
        wait_for("the terminal to be silent", lambda: not self.shows_typing(terminal))
        return terminal, process

    @staticmethod
    def shows_typing(terminal):
        return termios.tcgetattr(terminal)[3] & termios.ECHO != 0

    def test_the_terminal_is_as_before_when_a_signal_ends_the_prompt(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            terminal, process = self.prompted()
            os.write(terminal, b"half a pass")
            process.send_signal(number)
            self.assertEqual(process.wait(LIMIT_S), -number)
            self.assertTrue(self.shows_typing(terminal))

    def test_a_terminal_asks_twice(self):
        terminal, process = self.prompted()
        for _ in range(2):
            os.write(terminal, b"secret\n")
        self.assertRegex(process.communicate(timeout=LIMIT_S)[0], rb"^\$scrypt\$")
        self.assertTrue(self.shows_typing(terminal))
        said = os.read(terminal, 4096)
        self.assertIn(b"password: ", said)
        self.assertNotIn(b"secret", said)
        terminal, process = self.prompted()
        os.write(terminal, b"secret\nanother\n")
        self.assertEqual(process.communicate(timeout=LIMIT_S)[0], b"")
        self.assertEqual(process.returncode, 2)

    def test_what_is_safe(self):
        def refused(words, *arguments):
            result = subprocess.run(self.programs.gateway_command("--databases", "0=cache", "--listen-address", "0.0.0.0:0", *arguments),
                                    capture_output=True, text=True, timeout=LIMIT_S, check=False, env=self.programs.environment())
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)

        users = self.users_file("ada HASH cache=read\n")
        refused("--client-tls-cert and --client-tls-key, with --users-file or --client-tls-ca")
        refused("--users-file, or --client-tls-ca", *self.tls())
        refused("passwords would go there in plain", "--users-file", users)
        refused("passwords would go there in plain", "--users-file", users, "--security", "off-unsafe")
        self.write_users(users, "ada HASH cache=everything\n")
        refused("line 1: rights are", *self.tls(), "--users-file", users)
        refused("not the private key", "--client-tls-cert", self.authorities.path("gateway.pem"), "--client-tls-key",
                self.authorities.path("app-7.key"), "--users-file", users)
        self.write_users(users, "ada HASH cache=read\n")
        port = free_ports(1)
        command = self.programs.gateway_command("--databases", "0=cache", *self.tls(), "--users-file", users, "--listen-address",
                                                f"0.0.0.0:{port}")
        self.addCleanup(self.end, self.programs.start("open", command, port))
        self.assertNotIn("security is off", self.programs.log("open"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    options, rest = parser.parse_known_args()
    BIN = os.path.abspath(options.bin)
    if any(shutil.which(name) is None for name in ("redis-cli", "redis-benchmark", "openssl")):
        print("no redis-cli, redis-benchmark or openssl here: deploy/install-deps check")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
