"""toast.py - values that are stored out of line: never lost, never a placeholder, whatever the change leaves out."""
import hashlib

from frame import case, expect, global_rules, settle
from suite import check
from tables import own_memory, restart_worker

BUCKET = 'global[]'
RULES = global_rules('SELECT id, k, n, big, list FROM t')
COLUMNS = 'id text NOT NULL, k int NOT NULL, n int, big text, list text[]'
IDENTITIES = {
    'default': ('PRIMARY KEY (id)', 'DEFAULT'),
    'two columns': ('PRIMARY KEY (k, id)', 'DEFAULT'),
    'index': ('PRIMARY KEY (id), CONSTRAINT other UNIQUE (k)', 'USING INDEX other'),
    'full with a key': ('PRIMARY KEY (id)', 'FULL'),
    'full without a key': ('CHECK (true)', 'FULL'),
}


def noise(seed, blocks=1000):
    """Text that does not compress, of 32 bytes a block."""
    return ''.join(hashlib.md5(f'{seed}.{i}'.encode()).hexdigest() for i in range(blocks))


def row(id, k, n, seed, list_seed=None):
    return {'id': id, 'k': k, 'n': n, 'big': noise(seed), 'list': f'["{noise(list_seed or seed)}"]'}


def buckets(*rows):
    return {BUCKET: {('t', r['id']): r for r in rows}}


@case('out-of-line values that a change leaves out, under every identity')
def unchanged(frame):
    for what, (constraint, identity) in IDENTITIES.items():
        frame.clean()
        print(f'    {what}')
        schema = (f'CREATE TABLE t ({COLUMNS}, {constraint}); ALTER TABLE t REPLICA IDENTITY {identity};'
                  ' ALTER TABLE t ALTER big SET STORAGE EXTERNAL, ALTER list SET STORAGE EXTERNAL')
        db = frame.database(schema)

        def insert(id, k):
            db.sql('INSERT INTO t VALUES (%s, %s, 0, %s, %s)', (id, k, noise(id), [noise(id)]))
        insert('a', 1)                                          # copied
        stream = db.deploy(RULES)
        db.start()
        db.wait_served(stream)
        insert('b', 2)                                          # streamed
        db.sql('UPDATE t SET n = n + 1')
        db.wait()
        expect(db, buckets(row('a', 1, 1, 'a'), row('b', 2, 1, 'b')), 'another column')
        db.sql("UPDATE t SET list = ARRAY[%s] WHERE id = 'a'", (noise('c'),))
        db.wait()
        expect(db, buckets(row('a', 1, 1, 'a', 'c'), row('b', 2, 1, 'b')), 'one of two')
        db.sql("BEGIN; UPDATE t SET id = 'x', k = 10 WHERE id = 'a'; UPDATE t SET id = 'a', k = 1 WHERE id = 'b';"
               " UPDATE t SET id = 'b', k = 2 WHERE id = 'x'; COMMIT")
        db.wait()
        expect(db, buckets(row('b', 2, 1, 'a', 'c'), row('a', 1, 1, 'b')), 'keys are swapped')
        db.sql('VACUUM FULL t')
        db.sql('UPDATE t SET n = 2')
        db.wait()
        expect(db, buckets(row('b', 2, 2, 'a', 'c'), row('a', 1, 2, 'b')), 'after VACUUM FULL')
        restart_worker(db)
        db.sql("BEGIN; UPDATE t SET n = 3 WHERE id = 'a'; SAVEPOINT s; UPDATE t SET big = 'gone'; ROLLBACK TO s;"
               " UPDATE t SET n = 4 WHERE id = 'a'; COMMIT")
        db.wait()
        expect(db, buckets(row('b', 2, 2, 'a', 'c'), row('a', 1, 4, 'b')), 'after a restart, with a rollback')
        db.sql("UPDATE t SET big = NULL, list = '{}' WHERE id = 'a'")
        db.sql("UPDATE t SET n = 5 WHERE id = 'a'")
        db.wait()
        expect(db, buckets(row('b', 2, 2, 'a', 'c'), {'id': 'a', 'k': 1, 'n': 5, 'big': None, 'list': '[]'}),
               'a null is a null')


@case('out-of-line values over a change of the replica identity and back')
def identity_there_and_back(frame):
    db = frame.replicating(f'CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id))', RULES)
    db.sql('INSERT INTO t VALUES (%s, 1, 0, %s, %s)', ('a', noise('a'), [noise('a')]))
    for n, identity in enumerate(('FULL', 'DEFAULT', 'FULL', 'DEFAULT'), 1):
        db.sql(f'ALTER TABLE t REPLICA IDENTITY {identity}')
        db.sql('UPDATE t SET n = %s', (n,))
        settle(db, buckets(row('a', 1, n, 'a')))
        db.sql('UPDATE t SET n = %s', (n + 10,))
        settle(db, buckets(row('a', 1, n + 10, 'a')))


@case('a value of nearly 1 GB is rejected unread, copied and streamed; its row comes back when it is smaller')
def huge_value(frame):
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, n int, big text)')
    db.sql("INSERT INTO t VALUES ('copied', 1, repeat('x', 1000000000)), ('ok', 1, 'small'), ('streamed', 1, 'small')")
    stream = db.deploy(global_rules('SELECT id, n, big FROM t'))

    def small(id, n):
        return {'id': id, 'n': n, 'big': 'small'}
    db.start()
    with own_memory(db, 300_000_000):
        db.wait_served(stream)
        expect(db, buckets(small('ok', 1), small('streamed', 1)), 'copied')
    # the server's decoding takes the value's whole size, whatever we do with it
    db.sql("UPDATE t SET big = (SELECT big FROM t WHERE id = 'copied') WHERE id = 'streamed'")
    db.wait()
    expect(db, buckets(small('ok', 1)), 'streamed')
    with own_memory(db, 300_000_000):
        db.sql('UPDATE t SET n = 2')                # leaves the large value out
        db.wait()
        expect(db, buckets(small('ok', 2)), 'left out')
    check(db.status()[0]['rejected_rows'] >= 2, lambda: db.status())
    db.sql("UPDATE t SET big = 'small'")
    db.wait()
    expect(db, buckets(*(small(id, 2) for id in ('copied', 'ok', 'streamed'))), 'smaller again')
