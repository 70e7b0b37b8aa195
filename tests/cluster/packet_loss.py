#!/usr/bin/env python3
"""Drops packets at random that arrive at an interface, until stdin ends.

  packet_loss.py --interface eth0 --percent 10           says "dropping" once it does, or why not and ends with 77

An XDP program of seven instructions, in the network namespace that this runs in; needs root. It goes with the process,
so a killed test leaves nothing behind. Needs neither tc's netem nor nftables nor a compiler.
"""

import argparse
import ctypes
import os
import socket
import struct
import sys

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
BPF_PROG_LOAD, BPF_LINK_CREATE = 5, 28
PROG_TYPE_XDP, ATTACH_XDP, GENERIC_MODE = 6, 37, 2
XDP_DROP, XDP_PASS = 1, 2
SKIPPED = 77


def instruction(code, to=0, source=0, offset=0, immediate=0):
    return struct.pack("<BBhi", code, source << 4 | to, offset, immediate)


def dropping(percent):
    """r0 = random; if (r0 < share of 2^32) return XDP_DROP; return XDP_PASS"""
    share = min(int(percent / 100 * (1 << 32)), (1 << 32) - 1)
    return b"".join((
        instruction(0x85, immediate=7),  # call bpf_get_prandom_u32
        instruction(0xb4, to=1, immediate=share - (1 << 32) if share >= 1 << 31 else share),  # w1 = share
        instruction(0x2d, to=1, source=0, offset=2),  # if r1 > r0 goto drop
        instruction(0xb7, to=0, immediate=XDP_PASS),
        instruction(0x95),
        instruction(0xb7, to=0, immediate=XDP_DROP),
        instruction(0x95)))


def bpf(command, attributes):
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, max(len(attributes), 128))
    number = BPF_SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(0, f"the number of bpf() on {os.uname().machine} is not known here")
    made = libc.syscall(number, command, buffer, len(buffer))
    if made < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return made


def attach(interface, percent):
    """A descriptor: packets are dropped while it is open."""
    program = ctypes.create_string_buffer(dropping(percent))
    license_text = ctypes.create_string_buffer(b"GPL")
    loaded = bpf(BPF_PROG_LOAD, struct.pack("<IIQQ", PROG_TYPE_XDP, (len(program) - 1) // 8, ctypes.addressof(program),
                                            ctypes.addressof(license_text)))
    target = socket.if_nametoindex(interface)
    return bpf(BPF_LINK_CREATE, struct.pack("<IIII", loaded, target, ATTACH_XDP, GENERIC_MODE))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--interface", required=True)
    parser.add_argument("--percent", type=float, required=True)
    arguments = parser.parse_args()
    try:
        attach(arguments.interface, arguments.percent)
    except OSError as error:
        print(f"no packets can be dropped at {arguments.interface}: {error}", flush=True)
        sys.exit(SKIPPED)
    print("dropping", flush=True)
    sys.stdin.read()
