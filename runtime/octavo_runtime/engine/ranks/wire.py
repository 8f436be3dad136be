"""Between rank 0 and ranks of other nodes, over TCP: orders one way, last-step words the other.

Rank 0 has a port for each such rank's orders, and one more where all of them tell their words once a second and hear that rank 0 is
alive. Each side takes the other for gone after `SILENT_AFTER_S` without a word. Every rank 0 has a number of its own, which its
answers carry and later words must: ranks that outlived one end when they hear the next.
"""

import dataclasses
import logging
import os
import secrets
import threading
import time

import msgspec
import zmq

from octavo_runtime.engine.ranks.placement import RANK_PORT, Placement
from octavo_runtime.engine.ranks.processes import LOST_OTHERS
from octavo_runtime.engine.ranks.words import OwnWord, RankWord, Words

log = logging.getLogger("octavo.engine")

_NUMBER_BYTES = 8
_NEW = b""  # of a rank that has not heard of a rank 0 yet
TELL_EVERY_S = 1.0
SILENT_AFTER_S = 10.0


class LeaderWire:
    """Rank 0's side. `send` belongs to the thread that plans, `listen` to the one that watches."""

    def __init__(self, placement: Placement, host: str) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._orders: dict[int, zmq.Socket[bytes]] = {}
        self.heard_at_s: dict[int, float] = {}
        for rank in placement.remote_ranks:
            self._orders[rank] = _bound(context, zmq.PUSH, host, RANK_PORT + rank)
        self._words = _bound(context, zmq.ROUTER, host, RANK_PORT)
        self._number = secrets.token_bytes(_NUMBER_BYTES)

    def send(self, message: bytes) -> None:
        for sender in self._orders.values():
            sender.send(message)

    def listen(self, words: Words, patience_ms: int) -> None:
        """Take what was told, waiting so long for the first."""
        if not self._words.poll(patience_ms):
            return
        while self._words.poll(0):
            sender, number, message = self._words.recv_multipart()
            self._words.send_multipart([sender, self._number])
            if number not in (self._number, _NEW):
                continue
            word = msgspec.msgpack.decode(message, type=RankWord)
            now_s = time.monotonic()
            before = words.read(word.rank)
            # When it began its last collective is counted by this machine's clock.
            at_s = before.at_s if before.collectives == word.collectives else now_s
            words.put(dataclasses.replace(word, at_s=at_s))
            self.heard_at_s[word.rank] = now_s

    def silent(self, now_s: float) -> int | None:
        """A rank that has not told anything for too long."""
        return next((rank for rank, at_s in self.heard_at_s.items() if now_s - at_s > SILENT_AFTER_S), None)

    def close(self) -> None:
        for one in (*self._orders.values(), self._words):
            one.close(linger=0)


class MemberWire:
    """Another node's rank's side. A thread of it ends the process when rank 0 has been silent for too long."""

    def __init__(self, leader: str, word: OwnWord) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._orders = _connected(context, zmq.PULL, leader, RANK_PORT + word.rank)
        threading.Thread(target=_tell, args=(leader, word), name="rank-word", daemon=True).start()

    def take(self) -> bytes:
        return self._orders.recv()


def tell_end(leader: str, word: RankWord) -> None:
    """Tell rank 0 for a rank that has ended without a word; not longer than a second."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    talk = _connected(context, zmq.DEALER, leader, RANK_PORT)
    talk.send_multipart([_NEW, msgspec.msgpack.encode(word)])
    talk.close(linger=1000)


def _tell(leader: str, word: OwnWord) -> None:
    """Tell the word every second. Before rank 0 is there it may take as long as it likes: it is loading too."""
    talk = _connected(zmq.Context.instance(), zmq.DEALER, leader, RANK_PORT)
    heard_at_s, number, gone = float("inf"), _NEW, False
    while not gone:
        word.lives()
        talk.send_multipart([number, msgspec.msgpack.encode(word.read())])
        time.sleep(TELL_EVERY_S)
        while talk.poll(0):
            heard, heard_at_s = talk.recv(), time.monotonic()
            gone |= number not in (heard, _NEW)
            number = heard
        gone |= time.monotonic() - heard_at_s > SILENT_AFTER_S
    log.error("rank %d ends: rank 0 at %s is gone", word.rank, leader)
    os._exit(LOST_OTHERS)  # the main thread may wait for an order or in a collective


def _bound(context: "zmq.Context[zmq.Socket[bytes]]", kind: int, host: str, port: int) -> "zmq.Socket[bytes]":
    made = _socket(context, kind)
    made.bind(_address(host, port))
    return made


def _connected(context: "zmq.Context[zmq.Socket[bytes]]", kind: int, host: str, port: int) -> "zmq.Socket[bytes]":
    made = _socket(context, kind)
    made.connect(_address(host, port))
    return made


def _socket(context: "zmq.Context[zmq.Socket[bytes]]", kind: int) -> "zmq.Socket[bytes]":
    made = context.socket(kind)
    made.setsockopt(zmq.IPV6, 1)
    made.setsockopt(zmq.LINGER, 0)
    return made


def _address(host: str, port: int) -> str:
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
