"""A client of Redis's protocol that shows replies as they are on the wire."""

import socket

LIMIT_S = 60


class Reply:
    """`raw`: its bytes. `value`: bytes, int, None, a list or (for errors and simple strings) a str that begins with the sign."""

    def __init__(self, raw, value):
        self.raw = raw
        self.value = value

    def __repr__(self):
        return repr(self.raw[:200])


def encode(*words):
    out = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(out)


class Connection:
    def __init__(self, port, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect(("127.0.0.1", port))
        self.buffer = b""

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        got = self.socket.recv(1 << 20)
        if not got:
            raise EOFError("the server closed the connection")
        self.buffer += got

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line + b"\r\n"

    def reply(self):
        line = self.line()
        kind, rest = line[:1], line[1:-2]
        if kind in b"+-":
            return Reply(line, (kind + rest).decode("latin-1"))
        if kind == b":":
            return Reply(line, int(rest))
        if kind == b"_":
            return Reply(line, None)
        count = int(rest)
        if kind == b"$":
            if count < 0:
                return Reply(line, None)
            while len(self.buffer) < count + 2:
                self.more()
            data, self.buffer = self.buffer[:count + 2], self.buffer[count + 2:]
            return Reply(line + data, data[:-2])
        if kind not in b"*~%":
            raise ValueError(f"not a reply: {line!r}")
        if count < 0:
            return Reply(line, None)
        parts = [self.reply() for _ in range(count * (2 if kind == b"%" else 1))]
        return Reply(line + b"".join(part.raw for part in parts), [part.value for part in parts])

    def ask(self, *words):
        self.send(encode(*words))
        return self.reply().value

    def rest(self):
        """All bytes until the server closes the connection."""
        try:
            while True:
                self.more()
        except (EOFError, ConnectionResetError):
            return self.buffer
