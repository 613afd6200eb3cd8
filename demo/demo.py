"""The demo itself: one cluster, one storage, a small application, and every bucket shown and checked after each step.

What is right is computed from the tables with SQL, by the meaning of
rules.yaml, and never from what pgsync says.  Run it through demo/run.
"""
import json
import os
import pwd
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, '..', 'test', 'lib'))

import psycopg2                         # noqa: E402

import oracle                           # noqa: E402
from cluster import lsn_number          # noqa: E402
from stand import Stand                 # noqa: E402
from suite import difference            # noqa: E402

COLOR = sys.stdout.isatty() and 'NO_COLOR' not in os.environ
PEOPLE = ('ada', 'ben', 'cleo')

# What must be in the buckets: bucket, table, id, row. The same meaning as rules.yaml, said in SQL.
EXPECTED = [
    """SELECT 'announcements[]', 'announcements', id::text, json_build_object('id', id, 'title', title)
        FROM announcements WHERE published""",
    """SELECT format('list["%s"]', id), 'lists', id::text,
        json_build_object('id', id, 'name', name, 'owner_id', owner_id) FROM lists""",
    """SELECT format('list["%s"]', list_id), 'todos', id::text,
        json_build_object('id', id, 'list_id', list_id, 'title', title, 'done', done::int, 'priority', priority,
            'due', due::text, 'price', price::text,
            'seen', to_char(seen AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || 'Z') FROM todos""",
    """SELECT format('profile["%s"]', id), 'people', id, json_build_object('id', id, 'name', name) FROM people""",
]
# Who gets which list.
EXPECTED_LISTS = """SELECT owner_id, id::text FROM lists UNION SELECT user_id, list_id::text FROM members"""

STEPS = [
    ('Ada adds to her groceries',
     ["INSERT INTO todos (id, list_id, title, priority) VALUES (u(13), u(1), 'Olive oil', 3)"]),
    ('She ticks the milk off, and finds the coffee cheaper',
     ["UPDATE todos SET done = true WHERE title = 'Milk'", "UPDATE todos SET price = 6.95, seen = '2026-03-01 12:30+01' WHERE title = 'Coffee'"]),
    ('One todo moves to another list: out of one bucket, into another, at the same checkpoint',
     ["UPDATE todos SET list_id = u(2) WHERE title = 'Olive oil'"]),
    ('Ada shares her groceries with Ben: no row moves, Ben\'s devices learn of one more bucket',
     ['INSERT INTO members VALUES (u(91), u(1), \'ben\')']),
    ('A transaction that rolls back, with a savepoint that does not',
     ["SAVEPOINT s", "DELETE FROM todos", 'ROLLBACK TO s', "UPDATE todos SET priority = 9 WHERE title = 'New strings'"]),
    ('An announcement is published, another withdrawn, in one transaction',
     ["UPDATE announcements SET published = NOT published"]),
    ('3,000 todos are imported in one transaction: several writes to MongoDB, one checkpoint',
     ["INSERT INTO todos (id, list_id, title) SELECT u(1000 + i), u(3), 'Song ' || i FROM generate_series(1, 3000) i"]),
    ('Ben tidies up: the import is gone, and a todo gets another id',
     ["DELETE FROM todos WHERE title LIKE 'Song %'", "UPDATE todos SET id = u(32) WHERE title = 'New strings'"]),
    ('Ada deletes her garden list with all that is in it',
     ["DELETE FROM lists WHERE name = 'Garden'"]),
]


def paint(code, text):
    return f'\033[{code}m{text}\033[0m' if COLOR else text


def bold(text):
    return paint('1', text)


def dim(text):
    return paint('2', text)


class Demo:
    def __init__(self, stand):
        self.stand = stand
        self.db = stand.database('demo')
        self.wrong = 0
        self.times = []
        self.shown = {}

    # ---- set-up

    def begin(self):
        with open(os.path.join(here, 'schema.sql')) as f:
            schema = f.read()
        with open(os.path.join(here, 'rules.yaml')) as f:
            self.rules = f.read()
        self.db.create(schema, publication=False)
        self.connection = psycopg2.connect(self.stand.cluster.dsn('demo'))
        start = time.perf_counter()
        stream = self.db.deploy(self.rules)
        self.db.start()
        self.db.wait_served(stream)
        self.title('Rules deployed, replication started: the tables as they were are copied')
        for line in self.rules.rstrip().split('\n'):
            print(dim('    ' + line))
        print(f'\n  replication stream {stream} is served {1000 * (time.perf_counter() - start):.0f} ms after its deployment')
        self.show()

    @staticmethod
    def title(text):
        print('\n' + bold(text))

    # ---- one step: commit, and wait for the checkpoint that covers it

    def step(self, number, text, statements):
        self.title(f'{number}. {text}')
        before = self.db.served()
        with self.connection.cursor() as cursor:
            for statement in statements:
                print(dim('    ' + ' '.join(statement.split())))
                cursor.execute(statement)
            cursor.execute('SELECT pg_current_wal_insert_lsn()')
            target = lsn_number(cursor.fetchone()[0])
        self.connection.commit()
        committed = time.perf_counter()
        now = before
        while now.position < target or now.checkpoint <= before.checkpoint:
            if time.perf_counter() - committed > 60:
                raise RuntimeError(f'no checkpoint covers the commit after 60 s: {now}; {self.db.status()}')
            now = self.db.served()
        ms = 1000 * (time.perf_counter() - committed)
        self.times.append(ms)
        print(f'  checkpoint {bold(now.checkpoint)} at {now.lsn}, {bold(f"{ms:.1f} ms")} after the commit')
        self.show(now)

    # ---- what is stored, read as the API reads it

    def show(self, now=None):
        now = now or self.db.served()
        ops = oracle.read_ops(self.db.mongo, now.stream, 0, now.checkpoint)
        state = oracle.reduce(ops)
        names = self.names(state)
        for bucket in sorted(state.buckets):
            rows = state.rows(bucket)
            mine = [op for op in ops if oracle.short_bucket(op['_id']['b']) == bucket]
            changes = self.changes(self.shown.get(bucket, {}), rows)
            line = f'  {self.short(bucket)} {names.get(bucket, "")}'
            figures = f'{len(rows)} rows, {len(mine)} ops, checksum {oracle.bucket_checksum(mine)}'
            print(f'{line:<44}{figures}' if changes else dim(f'{line:<44}{figures}'))
            for change in changes[:4]:
                print(change)
            if len(changes) > 4:
                print(dim(f'      ... and {len(changes) - 4} more'))
            self.shown[bucket] = rows
        self.check(now, state)

    def changes(self, before, after):
        lines = []
        for key in before.keys() | after.keys():
            if before.get(key) == after.get(key):
                continue
            sign, code, data = ('-', '31', before[key]) if key not in after else \
                ('+', '32', after[key]) if key not in before else ('~', '33', after[key])
            text = f'    {sign} {key[0]} {self.short(data)}'
            lines.append((key, paint(code, text if len(text) <= 150 else text[:149] + '…')))
        return [text for _, text in sorted(lines)]

    @staticmethod
    def short(text):
        return text.replace('0000-0000-4000-8000-000000000000', '…')

    @staticmethod
    def names(state):
        found = {}
        for bucket in state.buckets:
            for (table, _), data in state.rows(bucket).items():
                if table == 'lists':
                    found[bucket] = json.loads(data)['name']
        return found

    def user_lists(self, now):
        """{person: list ids} by the lookups that the API would ask for."""
        stored = oracle.read_lookups(self.db.mongo, now.stream, now.checkpoint)
        found = {}
        for person in PEOPLE:
            parameters = [p for query in ('1', '2') for p in stored.get(oracle.lookup_bytes('list', query, person), [])]
            found[person] = sorted({p.split('"')[3] for p in parameters})
        return found

    # ---- right or wrong

    def check(self, now, state):
        with self.connection.cursor() as cursor:
            cursor.execute(EXPECTED_LISTS)
            lists = {person: [] for person in PEOPLE}
            for person, list_id in cursor.fetchall():
                lists[person].append(list_id)
        expected = oracle.expected_from_sql(self.connection, EXPECTED)
        self.connection.rollback()
        got, flat = oracle.compare_rows(state, expected)
        problems = [] if got == flat else [difference(got, flat)]
        users = self.user_lists(now)
        for person in PEOPLE:
            if users[person] != sorted(lists[person]):
                problems.append(f'{person} gets the lists {users[person]}, should get {sorted(lists[person])}')
        problems += oracle.problems(self.db.mongo)
        names = {bucket.split('"')[1]: name for bucket, name in self.names(state).items()}
        print('  lists of ' + '; '.join(f'{p}: {", ".join(names.get(i, i) for i in users[p])}' for p in PEOPLE))
        if problems:
            self.wrong += 1
            print(paint('31', '  WRONG: ' + '\n  '.join(problems)))
        else:
            print(paint('32', f'  all {len(flat)} rows are what SQL says'))


def keep(stand, db):
    python_pid = stand.storage.pid if stand.storage.own else None
    cluster = stand.cluster
    # demo/run started by root works as user postgres
    user = pwd.getpwuid(os.getuid()).pw_name
    as_owner = f'runuser -u {user} -- ' if user == 'postgres' else ''
    print(f"""
{bold('Left running')}

  PostgreSQL   psql -h {cluster.folder} -p {cluster.port} -U postgres demo
  status       SELECT * FROM pgsync_status();
  storage      {stand.storage.uri} database {db.storage_name}

  A PowerSync API serves from it (start -r api) with, in its configuration:

    replication:
      connections:
        - type: postgresql
          uri: {cluster.url('demo')}
          sslmode: disable
          slot_name_prefix: powersync_      # as pgsync.slot_prefix
    storage:
      type: mongodb
      uri: {stand.storage.uri}
      database: {db.storage_name}
    client_auth: ...                        # your keys; request.user_id() is the token's sub
    # no sync_config / sync_rules: pgsync_deploy() and the API's deploy endpoint are where rules come from

  Stop it:
    {as_owner}{cluster.bin}/pg_ctl -D {cluster.data} -m fast stop""")
    if python_pid:
        print(f'    kill {python_pid}')
    print(f'    rm -r {os.environ.get("PGSYNC_WORK", stand.folder)}')


def main():
    keeping = '--keep' in sys.argv[1:]
    print(bold('pgsync demo') + ': a row committed in PostgreSQL reaches the buckets of PowerSync clients')
    stand = Stand('demo')
    ended = False
    try:
        demo = Demo(stand)
        demo.begin()
        for number, (text, statements) in enumerate(STEPS, 1):
            demo.step(number, text, statements)
        demo.connection.close()
        small = [ms for n, ms in enumerate(demo.times) if n not in (6, 7)]
        print(f'\n{len(STEPS)} steps; commit to checkpoint {min(small):.1f} to {max(small):.1f} ms, '
              f'with 3,000 rows {max(demo.times[6:8]):.0f} ms at most')
        if demo.wrong:
            print(paint('31', f'{demo.wrong} of {len(STEPS) + 1} comparisons with SQL failed'))
            return 1
        print(paint('32', f'all {len(STEPS) + 1} comparisons with SQL hold'))
        if keeping:
            keep(stand, demo.db)
            ended = True
        return 0
    finally:
        if not ended:
            stand.end()


if __name__ == '__main__':
    sys.exit(main())
