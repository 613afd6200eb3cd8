"""proxy.py - a TCP proxy in front of the storage server that cuts, delays, and swallows.

A MongoDB driver learns the members of the replica set from the server and
would go round a proxy: so the server's own address in its replies is replaced
by the proxy's, which has the same length (ports of five digits).

Modes: pass on; delay(seconds); black_hole() takes bytes and answers nothing;
refuse() closes every new connection; cut() ends the present ones.
"""
import contextlib
import socket
import threading
import time


class Proxy:
    def __init__(self, port, target_port, host='127.0.0.1'):
        self.port, self.target_port, self.host = port, target_port, host
        self.search, self.replace = f'{host}:{target_port}'.encode(), f'{host}:{port}'.encode()
        if len(self.search) != len(self.replace):
            raise ValueError('ports of different length')
        self._delay = 0.0
        self._hole = False
        self._refuse = False
        self._lock = threading.Lock()
        self._pairs = set()
        self.accepted = 0
        self.forwarded = 0              # bytes, both ways
        self._listen = None

    # ---- control

    def start(self):
        self._listen = socket.create_server((self.host, self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self._listen,), daemon=True).start()
        return self

    def stop(self):
        if self._listen:
            with contextlib.suppress(OSError):
                self._listen.shutdown(socket.SHUT_RDWR)
            self._listen.close()
            self._listen = None
        self.cut()

    def cut(self):
        """End all connections now, with a reset."""
        with self._lock:
            pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            for s in pair:
                with contextlib.suppress(OSError):
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
                    s.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    def delay(self, seconds):
        self._delay = seconds

    def black_hole(self, on=True):
        """Bytes that arrive are lost.  Connections which lost some are cut when it ends: their streams have a gap."""
        self._hole = on
        if not on:
            self.cut()

    def refuse(self, on=True):
        self._refuse = on

    def normal(self):
        self._delay = 0.0
        self._refuse = False
        if self._hole:
            self.black_hole(False)

    # ---- work

    def _accept(self, listen):
        while True:
            try:
                client, _ = listen.accept()
            except OSError:
                return
            if self._refuse:
                client.close()
                continue
            self.accepted += 1
            try:
                server = socket.create_connection((self.host, self.target_port), 5)
                server.settimeout(None)
            except OSError:
                client.close()
                continue
            for s in (client, server):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            threading.Thread(target=self._copy, args=(pair, client, server, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(pair, server, client, True), daemon=True).start()

    def _copy(self, pair, source, target, rewrite):
        kept = b''
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if self._delay:
                    time.sleep(self._delay)
                if self._hole:
                    continue
                if rewrite:
                    data, kept = self._rewrite(kept + data)
                target.sendall(data)
                self.forwarded += len(data)
        with self._lock:
            self._pairs.discard(pair)
        for s in pair:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        if not rewrite:                 # one of the two directions closes
            for s in pair:
                s.close()

    def _rewrite(self, data):
        """Replace the address; keep back a tail that could be its first half."""
        data = data.replace(self.search, self.replace)
        for length in range(min(len(self.search) - 1, len(data)), 0, -1):
            if data.endswith(self.search[:length]):
                return data[:-length], data[-length:]
        return data, b''
