#!/usr/bin/env python3
"""badinput: what is wrong is said with SQLSTATE, detail or hint; nothing half-made stays; once mended it works.

Wrong and unreachable URI, wrong password, standalone server, wal_level, no
free slot, no free worker, not preloaded, rules with errors, missing
publication, a URI file that others can read, a password in a setting.
"""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import psycopg2                                                 # noqa: E402

from campaign import arguments                                  # noqa: E402
from cluster import free_port                                   # noqa: E402
from stand import Stand                                         # noqa: E402
from storage import Storage                                     # noqa: E402
from suite import Suite, check, equal, wait_until               # noqa: E402

RULES = 'bucket_definitions:\n  global:\n    data:\n      - SELECT * FROM t\n'
TABLE = 'CREATE TABLE t (id text PRIMARY KEY)'


def refused(db, statement, args=None, words=(), state=None):
    """A statement that must fail, and say it well.  Returns the error."""
    try:
        db.sql(statement, args)
    except psycopg2.Error as error:
        d = error.diag
        text = ' '.join(filter(None, (d.message_primary, d.message_detail, d.message_hint)))
        print(f'    {d.sqlstate} {d.message_primary}\n        {d.message_detail}\n        {d.message_hint}', flush=True)
        check(d.sqlstate and d.sqlstate != 'XX000', f'SQLSTATE {d.sqlstate}: {text}')
        check(d.message_detail or d.message_hint, f'neither detail nor hint: {text}')
        for word in words:
            check(word.lower() in text.lower(), f'no "{word}" in: {text}')
        if state:
            equal(d.sqlstate, state)
        return error
    check(False, f'was not refused: {statement}')


def reported(db, words, timeout=60):
    """A worker that cannot go on must say so in status, with SQLSTATE, and be tried again."""
    def probe():
        return [s for s in db.status() if s['last_error'] and all(
            w.lower() in f"{s['last_error']} {s['hint']}".lower() for w in words)]
    found = wait_until(probe, timeout, lambda: f'{words} in status: {db.status()}', 0.05)[0]
    print(f"    {found['last_error_sqlstate']} {found['last_error']}\n        {found['hint']}", flush=True)
    check(found['last_error_sqlstate'] not in (None, 'XX000', '00000'), f'{found}')
    check(found['hint'] or len(found['last_error']) > 30, f'no hint: {found}')
    return found


def nothing_left(db):
    equal(db.slots(), [], 'slots')
    equal(db.cluster.value('SELECT count(*) FROM pg_prepared_xacts'), 0)


def works(db):
    """After it was mended, everything works, without a restart of the server."""
    stream = db.deploy(RULES)
    db.start()
    db.wait_served(stream)
    db.sql("INSERT INTO t VALUES ('mended')")
    db.wait()
    equal(len(db.reduced().all_rows()), 1)
    db.drop()


class Cases:
    def __init__(self, stand):
        self.stand, self.cluster = stand, stand.cluster
        self.number = 0

    def database(self, **options):
        self.number += 1
        return self.stand.database(f'bad{self.number}', **options).create(TABLE)

    def no_uri(self):
        db = self.stand.database('bad_none')
        self.cluster.sql('CREATE DATABASE bad_none')
        db.sql('CREATE EXTENSION pgsync')
        refused(db, 'SELECT pgsync_start()', words=['mongodb_uri_file'])
        refused(db, 'SELECT pgsync_deploy(%s)', (RULES,), words=['mongodb'])
        nothing_left(db)
        self.cluster.sql('DROP DATABASE bad_none')

    def wrong_uri(self):
        for uri in ('http://127.0.0.1/', 'mongodb://', 'nonsense', '', 'mongodb://127.0.0.1:27017/?replicaSet='):
            db = self.database(uri=uri)
            refused(db, 'SELECT pgsync_deploy(%s)', (RULES,))
            if uri:
                db.start()
                reported(db, ['uri'])
            else:
                refused(db, 'SELECT pgsync_start()', words=['empty'])
            nothing_left(db)
            if uri == 'nonsense':
                db.write_uri(self.stand.storage.uri)
                works(db)
            else:
                db.drop()

    def file_for_all(self):
        db = self.database()
        os.chmod(db.uri_file, 0o644)
        refused(db, 'SELECT pgsync_deploy(%s)', (RULES,), words=['file'])
        refused(db, 'SELECT pgsync_start()', words=['file', '0644'])
        nothing_left(db)
        os.chmod(db.uri_file, 0o600)
        works(db)

    def file_missing(self):
        db = self.database()
        os.unlink(db.uri_file)
        refused(db, 'SELECT pgsync_deploy(%s)', (RULES,), words=[db.uri_file])
        refused(db, 'SELECT pgsync_start()', words=[db.uri_file])
        nothing_left(db)
        db.write_uri(self.stand.storage.uri)
        works(db)

    def unreachable(self):
        port = free_port(27480)
        db = self.database(uri=f'mongodb://127.0.0.1:{port}/?replicaSet=rs0')
        db.configure(server_selection_timeout='1s', connect_timeout='1s')
        refused(db, 'SELECT pgsync_deploy(%s)', (RULES,), words=[f'127.0.0.1:{port}'])
        db.start()
        reported(db, [f'127.0.0.1:{port}'])
        nothing_left(db)
        db.write_uri(self.stand.storage.uri)
        works(db)

    def unknown_host(self):
        db = self.database(uri='mongodb://no-such-host.invalid:27017/?replicaSet=rs0')
        db.configure(server_selection_timeout='1s', connect_timeout='1s')
        refused(db, 'SELECT pgsync_deploy(%s)', (RULES,), words=['no-such-host.invalid'])
        nothing_left(db)
        db.drop()

    def wrong_password(self):
        """A server of its own, with a user."""
        storage = Storage(os.path.join(self.stand.folder, 'auth'), free_port(27480))
        storage.start()
        storage.client().admin.command('createUser', 'sync', pwd='right', roles=['root'])
        storage.stop()
        storage.options = ['--auth']
        storage.start()
        try:
            at = f'127.0.0.1:{storage.port}/?replicaSet=rs0'
            db = self.database(uri=f'mongodb://sync:canary-wrong@{at}')
            error = refused(db, 'SELECT pgsync_deploy(%s)', (RULES,), words=['authentic'])
            check('canary' not in str(error), 'the password is shown')
            db.start()
            found = reported(db, ['authentic'])
            check('canary' not in str(found), 'the password is shown')
            db.write_uri(f'mongodb://{at}')
            refused(db, 'SELECT pgsync_deploy(%s)', (RULES,), words=['auth'])
            db.write_uri(f'mongodb://sync:right@{at}')
            stream = db.deploy(RULES)
            db.start()
            wait_until(lambda: any(s['stream'] == stream and s['phase'] == 'streaming' for s in db.status()), 60,
                       lambda: db.status(), 0.1)
            db.sql("INSERT INTO t VALUES ('x')")
            db.wait()
            db.drop()
        finally:
            storage.remove_all()

    def standalone(self):
        storage = Storage(os.path.join(self.stand.folder, 'standalone'), free_port(27480), ['--standalone'])
        storage.start()
        try:
            db = self.database(uri=f'mongodb://127.0.0.1:{storage.port}/')
            refused(db, 'SELECT pgsync_deploy(%s)', (RULES,), words=['replica set'])
            db.start()
            reported(db, ['replica set'])
            nothing_left(db)
            db.write_uri(self.stand.storage.uri)
            works(db)
        finally:
            storage.remove_all()

    def rules(self):
        db = self.database()
        for rules, words in (('bucket_definitions: [', ['line']), ('', []), ('just text', []),
                             ('bucket_definitions:\n  a:\n    data:\n      - SELEC * FROM t\n', []),
                             ('bucket_definitions:\n  a:\n    data:\n      - SELECT * FROM t WHERE id = bucket.x\n', ['x'])):
            refused(db, 'SELECT pgsync_deploy(%s)', (rules,), words)
            found = db.sql('SELECT level, line, message FROM pgsync_validate(%s)', (rules,))
            check(any(level in ('fatal', 'error') for level, _, _ in found), f'pgsync_validate({rules!r}): {found}')
        check('sync_rules' not in db.mongo.list_collection_names() or not db.mongo.sync_rules.count_documents({}),
              'a stream document was left')
        nothing_left(db)
        works(db)

    def publication(self):
        db = self.stand.database('bad_publication').create(TABLE, publication=False)
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            cursor.execute('SELECT pgsync_deploy(%s)', (RULES,))
            check(any('WARNING' in n and 'powersync' in n for n in c.notices), f'{c.notices}')
        works(db)

    def no_slot(self):
        db = self.database()
        slots = int(self.cluster.value('SHOW max_replication_slots'))
        for i in range(slots):
            self.cluster.sql('SELECT pg_create_physical_replication_slot(%s)', (f'taken_{i}',))
        try:
            db.deploy(RULES)
            refused(db, 'SELECT pgsync_start()', words=['max_replication_slots'])
        finally:
            for i in range(slots):
                self.cluster.sql('SELECT pg_drop_replication_slot(%s)', (f'taken_{i}',))
        works(db)

    def password_setting(self):
        db = self.database()
        secret = 'mongodb://u:canary@127.0.0.1/?replicaSet=rs0'
        log = self.cluster.log_position()
        error = refused(db, f"ALTER DATABASE {db.name} SET pgsync.mongodb_uri = '{secret}'", words=['uri_file'])
        check('canary' not in str(error), 'the password is shown')
        equal(self.cluster.log(log).count('canary'), 0, 'the password in the log')
        db.drop()

    def not_the_owner(self):
        """An ordinary user may do nothing, and learns nothing."""
        db = self.database()
        db.sql('CREATE ROLE ordinary LOGIN')
        try:
            for call in ('pgsync_start()', 'pgsync_stop()', "pgsync_deploy('')", "pgsync_validate('')", 'pgsync_status()',
                         'pgsync_adopt()', 'pgsync_wait_for_lsn()'):
                with contextlib.closing(psycopg2.connect(db.cluster.dsn(db.name).replace('user=postgres', 'user=ordinary'))) as c:
                    try:
                        c.cursor().execute(f'SELECT {call}')
                    except psycopg2.errors.InsufficientPrivilege:
                        continue
                    check(False, f'{call} is allowed')
        finally:
            db.drop()
            self.cluster.sql('DROP ROLE ordinary')


def server(name, words, call='SELECT pgsync_start()', **config):
    """A server that is set up wrongly, then rightly."""
    with Stand('bad_server', config=config) as stand:
        db = stand.database('bad')
        stand.cluster.sql('CREATE DATABASE bad')
        try:
            db.sql('CREATE EXTENSION pgsync')
        except psycopg2.Error as error:
            check('preload' in str(error), str(error))
        for setting, value in (('mongodb_uri_file', db.uri_file), ('mongodb_database', db.storage_name)):
            stand.cluster.sql(f"ALTER DATABASE bad SET pgsync.{setting} = '{value}'")
        if db.sql("SELECT 1 FROM pg_extension WHERE extname = 'pgsync'"):
            refused(db, call, words=words)
        nothing_left(db)
        stand.cluster.write_config(wal_level='logical', shared_preload_libraries="'pgsync'", max_worker_processes='16',
                                   **({'pgsync.max_workers': '4'}))
        stand.cluster.restart()
        db.sql('CREATE EXTENSION IF NOT EXISTS pgsync')
        db.sql(TABLE + '; CREATE PUBLICATION powersync FOR ALL TABLES')
        works(db)


def workers_taken():
    with Stand('bad_workers', config={'pgsync.max_workers': '1'}) as stand:
        first = stand.database('first').create(TABLE)
        first.deploy(RULES)
        first.start()
        first.wait_served()
        second = stand.database('second').create(TABLE)
        second.deploy(RULES)
        refused(second, 'SELECT pgsync_start()', words=['max_workers'])
        nothing_left(second)
        first.drop()
        second.start()
        second.wait_served()


def main():
    arguments(__doc__, 1)
    suite = Suite('badinput')
    if os.environ.get('PGSYNC_MONGODB_URI'):
        suite.skip('all', 'needs test servers of its own')
        return suite.end()
    with Stand('badinput', config={'max_replication_slots': '6'}) as stand:
        cases = Cases(stand)
        for name in ('no_uri', 'wrong_uri', 'file_for_all', 'file_missing', 'unreachable', 'unknown_host', 'wrong_password',
                     'standalone', 'rules', 'publication', 'no_slot', 'password_setting', 'not_the_owner'):
            suite.run(name.replace('_', ' '), getattr(cases, name))
    suite.run('wal_level replica', lambda: server('wal_level', ['wal_level'], wal_level='replica'))
    suite.run('not preloaded', lambda: server('preload', ['shared_preload_libraries'], shared_preload_libraries="''"))
    suite.run('no free worker process', lambda: server('processes', ['max_worker_processes'],
                                                       **{'max_worker_processes': '2'}))
    suite.run('no free pgsync worker', workers_taken)
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
