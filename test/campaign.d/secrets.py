#!/usr/bin/env python3
"""secrets: a canary password in the URI file appears in no log at DEBUG5, view, error, or process title.

Success, wrong password, an unreachable server, cut connections, a killed
storage, errors of deploy: then everything that a user or an administrator can
read is searched, also for the password percent-encoded and base64-encoded.
"""
import base64
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))

import psycopg2                                                 # noqa: E402

from campaign import arguments                                  # noqa: E402
from cluster import free_port                                   # noqa: E402
from proxy import Proxy                                         # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Suite, check, wait_until                      # noqa: E402

CANARY = 'kanarienvogel/7:x'
RULES = 'bucket_definitions:\n  global:\n    data:\n      - SELECT * FROM t\n'


def forms(secret):
    quoted = urllib.parse.quote(secret, safe='')
    return {secret, quoted, quoted.lower(), secret.split('/')[0], base64.b64encode(secret.encode()).decode()}


def titles(pids):
    found = []
    for pid in pids:
        for name in ('cmdline', 'environ', 'comm'):
            try:
                with open(f'/proc/{pid}/{name}', 'rb') as f:
                    found.append(f.read().decode(errors='replace'))
            except OSError:
                pass
    return found


VIEWS = ['pg_stat_activity', 'pg_settings', 'pg_file_settings', 'pg_db_role_setting', 'pg_replication_slots', 'pg_seclabels',
         'pg_shseclabel', 'pg_stat_replication_slots', 'pg_prepared_statements', 'pg_locks']


class Search:
    def __init__(self, stand, db):
        self.stand, self.db = stand, db
        self.errors = []

    def attempt(self, statement, args=None):
        try:
            self.db.sql(statement, args)
        except psycopg2.Error as error:
            self.errors.append(str(error) + str([getattr(error.diag, a) for a in dir(error.diag) if not a.startswith('_')]))

    def look(self, what):
        texts = {'log': self.stand.cluster.log(), 'errors': '\n'.join(self.errors),
                 'titles': '\n'.join(titles(self.stand.cluster.children()))}
        for view in VIEWS:
            texts[view] = str(self.db.sql(f'SELECT * FROM {view}'))
        texts['status'] = str(self.db.status())
        for name in self.db.mongo_documents():
            texts[name] = self.db.mongo_documents()[name]
        for place, text in texts.items():
            for form in forms(CANARY):
                at = text.find(form)
                check(at < 0, lambda: f'{what}: the password is in {place}: ...{text[max(0, at - 200):at + 60]!r}')
        return sum(len(t) for t in texts.values())


def main():
    arguments(__doc__, 1)
    suite = Suite('secrets')
    if os.environ.get('PGSYNC_MONGODB_URI'):
        suite.skip('all', 'needs a test server of its own')
        return suite.end()
    stand = Stand('secrets', start=False, config={
        'log_min_messages': 'debug5', 'log_min_error_statement': 'debug5', 'log_statement': "'all'",
        'log_connections': 'on', 'debug_print_plan': 'off'})
    with stand:
        stand.storage.start()
        stand.client.admin.command('createUser', 'sync', pwd=CANARY, roles=['root'])
        stand._client.close()
        stand._client = None
        stand.storage.stop()
        stand.storage.options = ['--auth']
        stand.storage.start()
        stand.cluster.create().start()
        proxy = Proxy(free_port(stand.storage.port + 1), stand.storage.port).start()
        quoted = urllib.parse.quote(CANARY, safe='')
        good = f'mongodb://sync:{quoted}@127.0.0.1:{proxy.port}/?replicaSet=rs0'
        db = stand.database('secret', uri=good).create('CREATE TABLE t (id text PRIMARY KEY)',
                                                       server_selection_timeout='1s', connect_timeout='1s')
        client = stand.storage.client(username='sync', password=CANARY)
        stand._client = client
        db.mongo_documents = lambda: {name: str(list(client[db.storage_name][name].find().limit(100)))
                                      for name in ('sync_rules', 'source_tables', 'op_id_sequence')}
        search = Search(stand, db)

        def success():
            stream = db.deploy(RULES)
            db.start()
            db.wait_served(stream)
            db.sql("INSERT INTO t VALUES ('a')")
            db.wait()
            size = search.look('success')
            print(f'    searched {size} characters', flush=True)

        def wrong_password():
            db.write_uri(good.replace('sync:', 'other:'))
            search.attempt('SELECT pgsync_deploy(%s)', (RULES,))
            db.stop()
            db.start()
            wait_until(lambda: any(s['last_error'] for s in db.status()), 60, lambda: db.status(), 0.1)
            search.look('wrong password')

        def broken_uris():
            for uri in (good.replace('mongodb://', 'mongodbx://'), good.replace('%2F', '/'), good + '&nosuch=1',
                        good.replace(str(proxy.port), '99999'), good.replace('@127', '@@127'), good + '&tlsInsecure=true',
                        good.replace('127.0.0.1', 'no-such-host.invalid')):
                db.write_uri(uri)
                search.attempt('SELECT pgsync_deploy(%s)', (RULES,))
                search.attempt('SELECT pgsync_adopt()')
            db.stop()
            db.start()
            wait_until(lambda: any(s['last_error'] for s in db.status()), 60, lambda: db.status(), 0.1)
            search.look('broken URIs')

        def network():
            db.write_uri(good)
            db.stop()
            db.start()
            wait_until(lambda: any(s['phase'] == 'streaming' for s in db.status()), 60, lambda: db.status(), 0.1)
            proxy.cut()
            db.sql("INSERT INTO t VALUES ('b')")
            db.wait()
            proxy.refuse()
            proxy.cut()
            db.sql("INSERT INTO t VALUES ('c')")
            search.attempt('SELECT pgsync_deploy(%s)', (RULES,))
            wait_until(lambda: any(s['last_error'] for s in db.status()), 60, lambda: db.status(), 0.1)
            proxy.normal()
            db.wait()
            search.look('cut connections')

        def crash():
            stand.cluster.stop('immediate')
            stand.cluster.start()
            db.sql("INSERT INTO t VALUES ('d')")
            db.wait()
            db.sql('DROP EXTENSION pgsync')
            texts = stand.cluster.log()
            check(not any(form in texts for form in forms(CANARY)), 'the password is in the log')

        for name, function in (('success', success), ('wrong password', wrong_password), ('broken URIs', broken_uris),
                               ('network', network), ('crash', crash)):
            suite.run(name, function)
    return suite.end()


if __name__ == '__main__':
    sys.exit(main())
