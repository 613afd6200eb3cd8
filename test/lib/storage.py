"""storage.py - the MongoDB-protocol server of a test: start, stop, freeze, kill; or the one the caller brought.

With PGSYNC_MONGODB_URI set nothing is started and nothing can be struck:
`own` is false, and whoever wants to strike must ask for it first.
"""
import contextlib
import os
import signal
import subprocess
import sys
import time

import pymongo

from cluster import free_port


class Storage:
    def __init__(self, folder, port=None, options=()):
        self.given = os.environ.get('PGSYNC_MONGODB_URI')
        self.own = not self.given
        self.folder = folder
        self.options = list(options)
        self.process = None
        if self.own:
            # by process: while a server is restarted, another run must not come across its port
            first = os.environ.get('PGSYNC_TEST_STORAGE_PORT') or 21000 + os.getpid() * 17 % 6000
            self.port = port or free_port(int(first))

    @property
    def uri(self):
        return self.given or f'mongodb://127.0.0.1:{self.port}/?replicaSet=rs0'

    def client(self, **options):
        options = {'serverSelectionTimeoutMS': 10000, 'connectTimeoutMS': 5000, **options}
        return pymongo.MongoClient(self.uri, **options)

    # ---- life of our own server

    def start(self, timeout=60):
        if not self.own:
            return self
        os.makedirs(self.folder, exist_ok=True)
        log = open(os.path.join(self.folder, '..', os.path.basename(self.folder) + '.log'), 'ab')
        server = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'storage_server.py')
        deadline = time.monotonic() + timeout
        while True:
            self.process = subprocess.Popen([sys.executable, server, str(self.port), self.folder, *self.options],
                                            stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL,
                                            start_new_session=True)
            if self.process.stdout.readline().strip() == b'up':
                break
            self.process.wait()
            # its predecessor's port or folder may not be free at once
            if time.monotonic() > deadline:
                raise RuntimeError(f'the storage server does not start, see {log.name}')
            time.sleep(0.1)
        log.close()
        return self

    @property
    def pid(self):
        return self.process.pid

    def stop(self):
        """SIGTERM and wait."""
        self._end(signal.SIGTERM)

    def kill(self):
        """SIGKILL and wait."""
        self._end(signal.SIGKILL)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def _end(self, number):
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.process = None

    def remove_all(self):
        if self.process:
            self.thaw()
            self.kill()
