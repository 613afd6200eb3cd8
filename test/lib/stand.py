"""stand.py - a test stand: one PostgreSQL cluster with pgsync preloaded, one storage, databases that replicate.

Puts cluster.py, storage.py and pgsync's own SQL calls together.  Waiting is
done by pgsync_wait_for_lsn() or by polling with a deadline.
"""
import contextlib
import os
import shutil
import sys
import tempfile

import psycopg2
import pymongo

import oracle
from cluster import Cluster
from storage import Storage
from suite import check, wait_until

WAIT = float(os.environ.get('PGSYNC_TEST_WAIT', 60))      # generous: a deadline, never a measurement


class Database:
    """One database of the cluster that replicates into one MongoDB database."""

    def __init__(self, stand, name, storage_name=None, uri=None):
        self.stand, self.cluster = stand, stand.cluster
        self.name = name
        self.storage_name = storage_name or f'{stand.prefix}{name}'
        self.uri_file = os.path.join(stand.folder, f'{name}.uri')
        self.write_uri(stand.storage.uri if uri is None else uri)

    def write_uri(self, uri):
        self.uri = uri
        with open(os.open(self.uri_file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), 'w') as f:
            f.write(uri + '\n')

    def create(self, schema='', publication=True, extension=True, server=None, **settings):
        """server: settings of PostgreSQL in this database; settings: those of pgsync."""
        if not self.stand.storage.own:
            self.mongo.client.drop_database(self.storage_name)      # of an earlier run, whose server is no more
        self.cluster.sql(f'CREATE DATABASE {self.name}')
        self.configure(mongodb_uri_file=self.uri_file, mongodb_database=self.storage_name, **settings)
        for name, value in (server or {}).items():
            self.cluster.sql(f'ALTER DATABASE {self.name} SET {name} = %s', (value,))
        if extension:
            self.sql('CREATE EXTENSION pgsync')
        if publication:
            self.sql('CREATE PUBLICATION powersync FOR ALL TABLES')
        if schema:
            self.sql(schema)
        return self

    def configure(self, **settings):
        for name, value in settings.items():
            self.cluster.sql(f'ALTER DATABASE {self.name} SET pgsync.{name} = %s', (str(value),))

    def drop(self):
        """Stop, drop the database and what is stored of it."""
        with contextlib.suppress(psycopg2.Error):
            self.sql('SELECT pgsync_stop(drop_slot => true)')
        self.cluster.sql(f'DROP DATABASE IF EXISTS {self.name} WITH (FORCE)')
        if self.stand.storage.own:
            # only room: the test server sometimes never answers this, when it has just been thawed
            with contextlib.suppress(pymongo.errors.PyMongoError), pymongo.timeout(15):
                self.mongo.client.drop_database(self.storage_name)

    # ---- SQL

    def connect(self, **options):
        return self.cluster.connect(self.name, **options)

    def sql(self, query, args=None):
        return self.cluster.sql(query, args, self.name)

    def value(self, query, args=None):
        return self.cluster.value(query, args, self.name)

    def deploy(self, rules):
        return self.value('SELECT pgsync_deploy(%s)', (rules,))

    def start(self):
        self.sql('SELECT pgsync_start()')

    def stop(self, drop_slot=False):
        return self.sql('SELECT pgsync_stop(drop_slot => %s)', (drop_slot,))

    def status(self):
        with contextlib.closing(self.connect()) as c, c.cursor() as cursor:
            cursor.execute('SELECT * FROM pgsync_status()')
            return [dict(zip([d.name for d in cursor.description], row)) for row in cursor.fetchall()]

    def slots(self):
        return [r[0] for r in self.cluster.sql('SELECT slot_name FROM pg_replication_slots WHERE database = %s',
                                               (self.name,))]

    # ---- waiting

    def wait(self, lsn=None, timeout=WAIT):
        """Until a checkpoint covers everything committed so far (or lsn)."""
        with contextlib.closing(self.connect()) as c, c.cursor() as cursor:
            if lsn is None:
                cursor.execute('SELECT pg_current_wal_insert_lsn()')
                lsn = cursor.fetchone()[0]
            cursor.execute('SELECT pgsync_wait_for_lsn(%s, make_interval(secs => %s))', (lsn, timeout))
            check(cursor.fetchone()[0] is True, lambda: f'no checkpoint covers {lsn}; status: {self.status()}')
        return lsn

    def wait_served(self, stream=None, timeout=WAIT):
        """Until the API would serve a stream (of this id)."""
        def probe():
            now = oracle.served(self.mongo)
            return now if now and (stream is None or now.stream == stream) else None
        return wait_until(probe, timeout, lambda: f'stream {stream or ""} served; status: {self.status()}', 0.05)

    def wait_phase(self, *phases, timeout=WAIT):
        return wait_until(lambda: [s for s in self.status() if s['phase'] in phases], timeout,
                          lambda: f'phase {phases}; status: {self.status()}')

    # ---- storage

    @property
    def mongo(self):
        return self.stand.client[self.storage_name]

    def served(self):
        return oracle.served(self.mongo)

    def ops(self, stream=None, upto=None):
        now = self.served()
        return oracle.read_ops(self.mongo, stream or now.stream, 0, upto if upto is not None else now.checkpoint)

    def reduced(self):
        return oracle.reduce(self.ops())


class Stand:
    def __init__(self, name, folder=None, config=None, storage_options=(), start=True):
        base = os.environ.get('PGSYNC_WORK') or tempfile.gettempdir()
        self.folder = folder or tempfile.mkdtemp(prefix=name + '.', dir=base)
        os.makedirs(self.folder, exist_ok=True)
        self.prefix = 'pgsync_test_' if os.environ.get('PGSYNC_MONGODB_URI') else 'ps_'
        self.storage = Storage(os.path.join(self.folder, 'storage'), options=storage_options)
        self.cluster = Cluster(os.path.join(self.folder, 'pg'), config=config)
        self._client = None
        self._proxy = None
        self.keep = bool(os.environ.get('PGSYNC_KEEP'))
        if start:
            self.start()

    def start(self):
        try:
            self.storage.start()
            self.cluster.create().start()
        except BaseException:
            self.end()
            raise

    @property
    def client(self):
        if self._client is None:
            self._client = self.storage.client(socketTimeoutMS=60000)
        return self._client

    def database(self, name, **options):
        return Database(self, name, **options)

    def end(self):
        """Stop what was started.  The folder goes away unless PGSYNC_KEEP is set."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self.cluster.remove_all()
        self.storage.remove_all()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            sys.stdout.flush()
        self.end()
