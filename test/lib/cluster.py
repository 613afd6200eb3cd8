"""cluster.py - throwaway PostgreSQL clusters: make, start, stop, kill, ask.

Runs as an ordinary user (the server refuses root).  Everything of a cluster
lies in one folder; only processes of that cluster are ever signalled, by the
pid its own files and views name.
"""
import contextlib
import os
import re
import signal
import socket
import subprocess
import time

import psycopg2

from suite import wait_until

BASE_CONFIG = {
    'listen_addresses': "'127.0.0.1'",
    'fsync': 'off',                     # processes are killed, not the machine
    'wal_level': 'logical',
    'max_wal_senders': '10',
    'max_replication_slots': '20',
    'max_worker_processes': '24',
    'max_connections': '60',
    'shared_preload_libraries': "'pgsync'",
    'log_line_prefix': "'%m [%p] %b %d '",
    'log_checkpoints': 'off',
    'autovacuum_naptime': '10s',
}


def free_port(first, count=100):
    """A TCP port nobody listens on.  A race with other programs stays possible; the start would then say so."""
    for port in range(first, first + count):
        with contextlib.closing(socket.socket()) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(('127.0.0.1', port))
            except OSError:
                continue
            return port
    raise RuntimeError(f'no free port in {first}..{first + count - 1}')


def bin_folder():
    config = os.environ.get('PG_CONFIG', 'pg_config')
    return subprocess.run([config, '--bindir'], check=True, capture_output=True, text=True).stdout.strip()


def lsn_number(text):
    high, low = text.split('/')
    return int(high, 16) << 32 | int(low, 16)


def alive(pid):
    """Whether a process exists and is no zombie."""
    try:
        with open(f'/proc/{pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except (FileNotFoundError, ProcessLookupError):
        return False


class Cluster:
    def __init__(self, folder, port=None, config=None, bin_dir=None):
        self.folder = folder
        self.data = os.path.join(folder, 'data')
        self.log_file = os.path.join(folder, 'log')
        self.port = port or free_port(int(os.environ.get('PGSYNC_TEST_PG_PORT', 5451)))
        self.bin = bin_dir or bin_folder()
        self.started = False
        self.config = {**BASE_CONFIG, 'port': str(self.port), 'unix_socket_directories': f"'{folder}'",
                       **(config or {})}

    # ---- life

    def create(self):
        os.makedirs(self.folder, exist_ok=True)
        subprocess.run([f'{self.bin}/initdb', '-D', self.data, '-U', 'postgres', '-A', 'trust', '--no-sync',
                        '--encoding=UTF8', '--no-locale'], check=True, capture_output=True)
        self.write_config()
        return self

    def write_config(self, **settings):
        self.config.update(settings)
        with open(os.path.join(self.data, 'postgresql.auto.conf'), 'w') as f:
            for name, value in self.config.items():
                if value is not None:
                    f.write(f'{name} = {value}\n')

    def start(self, timeout=60, check=True):
        """Start and wait until it takes connections.  Retries while processes of a killed predecessor still end."""
        deadline = time.monotonic() + timeout
        while True:
            done = self._pg_ctl('start', '-w', '-t', str(int(timeout)), '-l', self.log_file)
            if done.returncode == 0:
                self.started = True
                return True
            if not check:
                return False
            end = self.log()[-2000:] + done.stderr
            if 'could not create any TCP/IP sockets' in end and not self.started:
                self.port = free_port(self.port + 1)        # somebody was faster
                self.write_config(port=str(self.port))
            elif time.monotonic() > deadline or 'still in use' not in end:
                raise RuntimeError('the server did not start: ' + self.log()[-2000:])
            time.sleep(0.1)

    def stop(self, mode='fast', timeout=60):
        """Returns the seconds it took."""
        start = time.monotonic()
        done = self._pg_ctl('stop', '-m', mode, '-w', '-t', str(int(timeout)))
        if done.returncode != 0:
            raise RuntimeError(f'stop -m {mode}: {done.stdout}{done.stderr}')
        return time.monotonic() - start

    def restart(self, mode='fast'):
        self.stop(mode)
        self.start()

    def reload(self):
        self._pg_ctl('reload')

    def kill(self):
        """SIGKILL to the postmaster; its children see that and end.  Waits for all of them."""
        pid = self.postmaster()
        children = self.children()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(alive(p) for p in [pid] + children), 30, 'end of a killed server\'s processes')
        # where nobody reaps it, its number stays taken: the lock files would seem to be in use
        for name in (f'{self.data}/postmaster.pid', f'{self.folder}/.s.PGSQL.{self.port}.lock'):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

    def running(self):
        pid = self.postmaster()
        return bool(pid and alive(pid))

    def remove_all(self):
        if self.running():
            try:
                self.stop('immediate', 20)
            except RuntimeError:
                self.kill()

    def _pg_ctl(self, action, *args):
        return subprocess.run([f'{self.bin}/pg_ctl', action, '-D', self.data, *args],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT if action != 'start' else subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, start_new_session=True)

    # ---- processes

    def postmaster(self):
        try:
            with open(os.path.join(self.data, 'postmaster.pid')) as f:
                return int(f.readline())
        except (FileNotFoundError, ValueError):
            return None

    def children(self):
        pid = self.postmaster()
        found = []
        for name in os.listdir('/proc'):
            if name.isdigit():
                with contextlib.suppress(OSError, IndexError):
                    with open(f'/proc/{name}/stat') as f:
                        if int(f.read().rsplit(')', 1)[1].split()[1]) == pid:
                            found.append(int(name))
        return found

    def pgsync_processes(self):
        """{pid: title} of launcher and workers, from the process titles."""
        found = {}
        for pid in self.children():
            with contextlib.suppress(OSError):
                with open(f'/proc/{pid}/cmdline') as f:
                    title = f.read().replace('\0', ' ').strip()
                if 'pgsync' in title:
                    found[pid] = title
        return found

    # ---- SQL

    def dsn(self, database='postgres'):
        return f'host={self.folder} port={self.port} user=postgres dbname={database}'

    def url(self, database='postgres'):
        return f'postgresql://postgres@127.0.0.1:{self.port}/{database}'

    def connect(self, database='postgres', autocommit=True, **options):
        c = psycopg2.connect(self.dsn(database), **options)
        c.autocommit = autocommit
        return c

    def sql(self, query, args=None, database='postgres'):
        with contextlib.closing(self.connect(database)) as c, c.cursor() as cursor:
            cursor.execute(query, args)
            return cursor.fetchall() if cursor.description else None

    def value(self, query, args=None, database='postgres'):
        return self.sql(query, args, database)[0][0]

    # ---- log

    def log(self, since=0):
        try:
            with open(self.log_file, errors='replace') as f:
                f.seek(since)
                return f.read()
        except FileNotFoundError:
            return ''

    def log_position(self):
        with contextlib.suppress(FileNotFoundError):
            return os.path.getsize(self.log_file)
        return 0

    def crashes(self, since=0):
        """Lines that tell of a crash of a server process."""
        return re.findall(r'.*(?:terminated by signal (?!9\b).*|PANIC.*|TRAP:.*)', self.log(since))
