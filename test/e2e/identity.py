"""identity.py - which row is meant: keys that are equal and not the same, or get another text, indexes made anew, partitions."""
import contextlib
import random
import threading

from frame import case, global_rules, select_all
from suite import equal
from transactions import T, numbered
from ways import Ways, both, settle, what_clients_see


@case('equal_keys: keys of types in which equal values have several texts')
def equal_keys(frame):
    def rows(table, *pairs):
        return {(table, i): {'id': i, 'k': k} for i, k in pairs}
    types = {'t': 'numeric', 'u': 'citext', 'v': 'interval', 'w': 'float8'}
    both(frame, 'CREATE EXTENSION citext; ' + '; '.join(f'CREATE TABLE {t} (k {type} PRIMARY KEY, id text)' for t, type in types.items()),
         select_all(*types),
         ["INSERT INTO t VALUES (1.0, 'a'), (2, 'b')", "INSERT INTO u VALUES ('A', 'a'), ('B', 'b')", "INSERT INTO v VALUES ('1 day', 'a')",
          "INSERT INTO w VALUES (-0.0::float8, 'a'), ('NaN', 'n')"],
         rows('t', ('c', '1.00'), ('b', '2')) | rows('u', ('a', 'a')) | rows('v', ('a', '24:00:00')) | rows('w', ('c', 0.0)),
         ['UPDATE t SET k = 1.00 WHERE k = 1', "UPDATE t SET id = 'c' WHERE k = 1", "UPDATE u SET k = 'a' WHERE k = 'A'",
          "DELETE FROM u WHERE k = 'b'", "UPDATE v SET k = '24 hours'", 'UPDATE w SET k = 0 WHERE k = 0', "UPDATE w SET id = 'c' WHERE k = 0",
          "DELETE FROM w WHERE k = 'NaN'"])


@case('enum_keys: labels that are part of a key get another name, also that of one before')
def enum_keys(frame):
    both(frame, "CREATE TYPE e AS ENUM ('a', 'b', 'c'); CREATE TABLE t (id e PRIMARY KEY, n int);"
         ' CREATE TABLE u (id e, k int, PRIMARY KEY (id, k))', select_all('t', 'u'),
         ["INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3)", "INSERT INTO u VALUES ('a', 1), ('a', 2)"],
         numbered(('x', 9), ('c', 2)) | {('u', 'x'): {'id': 'x', 'k': 2}},
         ["ALTER TYPE e RENAME VALUE 'a' TO 'x'", "UPDATE t SET n = 9 WHERE id = 'x'", 'DELETE FROM u WHERE k = 1',
          "ALTER TYPE e RENAME VALUE 'b' TO 'a'", "DELETE FROM t WHERE id = 'c'", "UPDATE t SET id = 'c' WHERE id = 'a'"])


def rounds(db):
    """How often tables were copied again."""
    return sum(d.get('copy_round', 0) for d in db.mongo.pgsync_tables.find())


@case('indexes_made_again: the identity\'s index is another one, and the identity the same: nothing is copied again')
def indexes_made_again(frame):
    ways = Ways(frame, T + '; CREATE TABLE u (id text PRIMARY KEY, n int NOT NULL); CREATE UNIQUE INDEX u_n ON u (n); ALTER TABLE u REPLICA IDENTITY'
                ' USING INDEX u_n', select_all('t', 'u'), ["INSERT INTO t VALUES ('1', 1), ('2', 2)", "INSERT INTO u VALUES ('1', 1), ('2', 2)"])
    for db in ways.dbs.values():
        db.sql('REINDEX TABLE CONCURRENTLY t')
        db.sql('REINDEX INDEX CONCURRENTLY u_n')
        db.sql("UPDATE t SET id = '3' WHERE n = 1")
        db.sql("UPDATE u SET n = 3 WHERE n = 1")
        db.sql('REINDEX TABLE t')
        db.sql('CREATE UNIQUE INDEX CONCURRENTLY t_other ON t (id)')
        db.sql('ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY USING INDEX t_other')
        db.sql('ALTER INDEX u_n RENAME TO u_nn')
        db.sql('DELETE FROM t WHERE n = 2')
        db.sql("UPDATE u SET n = 4, id = '4' WHERE n = 3")
        db.wait()
        equal(rounds(db), 0, 'copied again')
    ways.end(numbered(('3', 1)) | numbered(('4', 4), ('2', 2), table='u'))


PARTITIONS = """CREATE TABLE p (id text, k int, n int, PRIMARY KEY (id, k)) PARTITION BY LIST (k);
    CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p_2 PARTITION OF p FOR VALUES IN (2, 3) PARTITION BY LIST (k);
    CREATE TABLE p_2_2 PARTITION OF p_2 FOR VALUES IN (2); CREATE TABLE p_2_3 (n int, k int NOT NULL, id text NOT NULL);
    ALTER TABLE p_2 ATTACH PARTITION p_2_3 FOR VALUES IN (3); CREATE TABLE p_d PARTITION OF p DEFAULT"""


@case('partitions: of several levels: rows move, parts are truncated, detached, dropped, renamed, get a column')
def partitions(frame):
    def rows(*keys):
        return {('p', i): {'id': i, 'k': k, 'n': n} for i, k, n in keys}
    ways = Ways(frame, PARTITIONS, global_rules('SELECT id, k, n FROM "p_%" AS p'), ['INSERT INTO p SELECT k::text, k, k FROM generate_series(1, 5) k'])
    ways.sql('UPDATE p SET k = k % 4 + 1', 'TRUNCATE p_2')
    ways.expect(rows(('3', 4, 3), ('4', 1, 4)))
    ways.sql("INSERT INTO p VALUES ('a', 1, 1), ('b', 2, 2), ('c', 3, 3)", 'ALTER TABLE p DETACH PARTITION p_d', "INSERT INTO p_d VALUES ('z', 9, 9)",
             'DROP TABLE p_2_3')
    ways.expect(rows(('3', 4, 3), ('4', 1, 4), ('a', 1, 1), ('b', 2, 2), ('z', 9, 9)))
    ways.sql('TRUNCATE p', "INSERT INTO p VALUES ('e', 1, 1)", 'ALTER TABLE p_1 RENAME TO p_one', 'UPDATE p SET n = 5',
             'ALTER TABLE p ADD x int DEFAULT 3', 'ALTER TABLE p DETACH PARTITION p_one CONCURRENTLY', 'UPDATE p_one SET n = 6')
    ways.end(rows(('3', 4, 3), ('z', 9, 9), ('e', 1, 6)))


@case('published_again: a table comes and goes with its publication while three sessions write it')
def published_again(frame):
    seed = random.randrange(1000000)
    print(f'    seed {seed}', flush=True)
    db = frame.database(T + '; CREATE TABLE u (id text PRIMARY KEY, n int); CREATE PUBLICATION powersync FOR TABLE t', publication=False)
    db.deploy(select_all('t', 'u'))
    db.start()
    db.wait_served()
    ended = threading.Event()

    def write(number):
        rng = random.Random(seed * 10 + number)
        with contextlib.closing(db.connect(autocommit=False)) as c, c.cursor() as cursor:
            for i in range(1000000):
                if ended.is_set():
                    break
                cursor.execute('INSERT INTO u VALUES (%s, 0)', (f'{number}-{i}',))
                cursor.execute('UPDATE u SET n = n + 1 WHERE id = %s', (f'{number}-{rng.randint(0, i)}',))
                cursor.execute('DELETE FROM u WHERE id = %s', (f'{number}-{rng.randint(0, 3 * i)}',))
                cursor.execute('SELECT pg_sleep(%s)', (rng.choice((0, 0, 0.01)),))
                c.commit()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for t in threads:
        t.start()
    try:
        for i in range(8):
            db.sql('ALTER PUBLICATION powersync ADD TABLE u')
            if i % 3 == 2:
                settle(db)
            if i < 7:
                db.sql('ALTER PUBLICATION powersync DROP TABLE u')
    finally:
        ended.set()
        for t in threads:
            t.join()
    settle(db)
    seen = what_clients_see(db)
    equal({key[2]: rows[0]['n'] for key, rows in seen.items() if key != 'lookups'}, dict(db.sql('SELECT id, n FROM u')))
