"""order.py - what comes later must not be taken for what was there: keys that are used again, streams that are cleaned."""
import datetime
import os
import signal

import bson
from bson import Int64

from cluster import free_port
from frame import case, expect, global_rules
from hold import copy_held
from proxy import Proxy
from suite import check, equal, wait_until
from streams import deploy_as_api, stream_document
from tables import stopped

G = 'global[]'
TABLE = """CREATE TABLE hold (id text PRIMARY KEY);
CREATE TABLE t (id text PRIMARY KEY, n int, v text);
ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
CREATE FUNCTION long(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT repeat($1, 5000) $$;
"""
RULES = global_rules('SELECT id FROM hold', 'SELECT id, n, v FROM t')

# ---------------------------------------------------------------- keys that are used again

ROWS = "INSERT INTO t SELECT k, 1, long(left(k, 1)) FROM unnest(ARRAY['a1', 'b2', 'c3', 'd3', 'e4', 'f4']) k"
REUSED = [
    # by a new row, in the same transaction and in the next one
    "BEGIN; UPDATE t SET id = 'new1' WHERE id = 'a1'; INSERT INTO t VALUES ('a1', 2, long('x')); COMMIT",
    "UPDATE t SET id = 'new2' WHERE id = 'b2'",
    "INSERT INTO t VALUES ('b2', 2, long('y'))",
    # by a row that moves there with its value
    "BEGIN; UPDATE t SET id = 'new3' WHERE id = 'c3'; UPDATE t SET id = 'c3' WHERE id = 'd3'; COMMIT",
    "UPDATE t SET id = 'new4', n = 3 WHERE id = 'e4'",
    "UPDATE t SET id = 'e4' WHERE id = 'f4'",
]
AFTER = {'new1': (1, 'a'), 'a1': (2, 'x'), 'new2': (1, 'b'), 'b2': (2, 'y'), 'new3': (1, 'c'), 'c3': (1, 'd'),
         'new4': (3, 'e'), 'e4': (1, 'f')}


def expect_rows(db, rows, what):
    equal({i: (n, v) for i, n, v in db.sql('SELECT id, n, v FROM t')},
          {i: (n, letter * 5000) for i, (n, letter) in rows.items()}, 'the test itself')
    expect(db, {G: {('t', i): {'id': i, 'n': n, 'v': letter * 5000} for i, (n, letter) in rows.items()}}, what)


@case('a key that is used again before the fence of the copy: the value of the row that left it')
def key_used_again_in_copy(frame):
    db = frame.database(TABLE)
    db.sql(ROWS)

    def start():
        db.deploy(RULES)
        db.start()
    with copy_held(db, 'hold', start):
        for statement in REUSED:
            db.sql(statement)
    db.wait_served()
    db.wait()
    expect_rows(db, AFTER, 'copy')
    check(db.status()[0]['rereads'] > 0, lambda: f'the copied rows were trusted: {db.status()}')


@case('a key that is used again in the stream, and before the fence of a row that is read again')
def key_used_again_in_stream(frame):
    db = frame.replicating(TABLE, RULES, queue_size='1MB')
    db.sql(ROWS)
    for statement in REUSED:
        db.sql(statement)
    db.wait()
    expect_rows(db, AFTER, 'stream')
    equal(db.status()[0]['rereads'], 0, 'nothing had to be read again')

    # a row of which no copy is stored is read again, as it is later: that is another one by then
    db.sql('ALTER TABLE t REPLICA IDENTITY FULL')
    db.sql("DELETE FROM t")
    db.sql("INSERT INTO t VALUES ('k', 1, long('a'))")
    db.sql('ALTER TABLE t REPLICA IDENTITY DEFAULT')
    db.wait()
    stopped(db)
    db.sql("UPDATE t SET n = 2")
    # more than the worker's queue takes: it has read the row again before it gets to what follows
    for _ in range(2):
        db.sql('INSERT INTO hold SELECT repeat(gen_random_uuid()::text, 20) FROM generate_series(1, 2000)')
    db.sql("UPDATE t SET id = 'l'")
    db.sql("INSERT INTO t VALUES ('k', 5, long('b'))")
    db.sql('TRUNCATE hold')
    db.start()
    db.wait()
    expect_rows(db, {'l': (2, 'a'), 'k': (5, 'b')}, 'read again')

# ---------------------------------------------------------------- streams that are cleaned

CLEANED = """CREATE TABLE p (id text PRIMARY KEY, owner_id text);
CREATE TABLE t (id int PRIMARY KEY, p_id text);
INSERT INTO p SELECT i::text, 'u' FROM generate_series(1, 20) i;
INSERT INTO t SELECT i, (i % 20 + 1)::text FROM generate_series(1, 12000) i;
"""
BY_P = """# {}
bucket_definitions:
  by_p:
    parameters: SELECT id AS p_id FROM p WHERE owner_id = request.user_id()
    data:
      - SELECT id::text AS id, p_id FROM t WHERE p_id = bucket.p_id
"""
OF_STREAM = {'bucket_data': '_id.g', 'bucket_parameters': 'key.g', 'current_data': '_id.g', 'bucket_state': '_id.g',
             'source_tables': 'group_id', 'pgsync_tables': 'group_id', 'pgsync_streams': '_id'}


def left_of(db, stream):
    """{collection: documents} of one stream, the collection of its row state counted as one."""
    found = {name: db.mongo[name].count_documents({field: stream}) for name, field in OF_STREAM.items()}
    found['row state'] = int(f'pgsync_row_state_{stream}' in db.mongo.list_collection_names())
    return {name: count for name, count in found.items() if count}


def expect_cleaned(db, stream, slot):
    wait_until(lambda: stream_document(db, stream)['state'] == 'TERMINATED', 90,
               lambda: f'{stream_document(db, stream)}; {db.status()}', 0.05)
    equal(left_of(db, stream), {}, f'left of stream {stream}')
    document = stream_document(db, stream)
    check('lock' not in document and not document['snapshot_done'] and document['last_checkpoint'] is None
          and document['last_checkpoint_lsn'] is None and 'snapshot_lsn' not in document, document)
    check(slot not in db.slots(), lambda: f'slots: {db.slots()}')


def cleaner(db, stream):
    return next((s['pid'] for s in db.status() if s['stream'] == stream and s['phase'] == 'cleaning' and s['pid']), None)


def half_way(db, proxy, strike):
    """Deploys again, and strikes when the first part of the old stream's data is gone; (old stream, its slot, the new one)."""
    old = db.served().stream
    slot = stream_document(db, old)['slot_name']
    total = db.mongo.bucket_data.count_documents({'_id.g': old})
    new = db.deploy(BY_P.format('again'))
    wait_until(lambda: stream_document(db, old)['state'] == 'STOP', 90, lambda: db.status(), 0.005)
    check(set(left_of(db, old)) >= {'bucket_data', 'bucket_parameters', 'bucket_state', 'source_tables', 'pgsync_tables',
                                    'pgsync_streams', 'row state'}, lambda: left_of(db, old))
    proxy.delay(0.04)
    wait_until(lambda: db.mongo.bucket_data.count_documents({'_id.g': old}) < total, 90, lambda: db.status(), 0.01)
    strike(old)
    check(stream_document(db, old)['state'] == 'STOP' and left_of(db, old), 'the strike came too late')
    proxy.normal()
    return old, slot, new


@case('a stopped stream is cleaned, whatever happens half way')
def cleaned(frame):
    if not frame.stand.storage.own:
        return
    proxy = Proxy(free_port(frame.stand.storage.port + 1), frame.stand.storage.port).start()
    db = frame.database(CLEANED)
    db.write_uri(f'mongodb://127.0.0.1:{proxy.port}/?replicaSet=rs0')

    def cleaning_stuck(old):
        proxy.black_hole()
        return wait_until(lambda: cleaner(db, old), 30, lambda: db.status())

    def terminated(old):
        pid = cleaning_stuck(old)
        db.sql('SELECT pg_terminate_backend(%s)', (pid,))
        wait_until(lambda: not db.value('SELECT count(*) FROM pg_stat_activity WHERE pid = %s', (pid,)), 60,
                   f'process {pid} ends', 0.05)

    def killed(old):
        pid = cleaning_stuck(old)
        cluster = frame.stand.cluster
        log = cluster.log_position()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: 'ready to accept connections' in cluster.log(log), 60, 'the server has restarted', 0.05)

    def storage_away(old):
        proxy.refuse()
        proxy.cut()
        wait_until(lambda: [s for s in db.status() if s['stream'] == old and s['last_error']], 60, lambda: db.status(), 0.02)

    try:
        db.deploy(BY_P.format('first'))
        db.start()
        db.wait_served()
        for strike in (terminated, killed, storage_away):
            old, slot, new = half_way(db, proxy, strike)
            expect_cleaned(db, old, slot)
            db.wait_served(new)
            db.wait()
            equal(len(db.reduced().all_rows()), 12000, f'{strike.__name__}: rows of stream {new}')
        wait_until(lambda: len(db.slots()) == 1, 30, lambda: f'one slot is left: {db.slots()}', 0.05)
        equal([d['_id'] for d in db.mongo.pgsync_streams.find()], [db.served().stream], 'bindings')
    finally:
        proxy.normal()
        db.stop()
        proxy.stop()


@case('stopped streams of others: cleaned when nobody holds them, left alone when somebody does')
def others_cleaned(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY)', global_rules('SELECT id FROM t'))

    def stopped_stream(**fields):
        stream = deploy_as_api(db, global_rules('SELECT id FROM t'), state='STOP', **fields)
        table = bson.ObjectId()
        db.mongo.source_tables.insert_one({'_id': table, 'group_id': stream, 'relation_id': 4711})
        db.mongo.bucket_data.insert_many([{'_id': {'g': stream, 'b': f'{stream}#global[]', 'o': Int64(o)}, 'op': 'PUT',
                                           'checksum': Int64(1), 'data': '{}'} for o in range(1, 20)])
        return stream

    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    db.stop()
    wait_until(lambda: not any(s['pid'] for s in db.status()), 30, lambda: f'workers end: {db.status()}', 0.02)
    elsewhere = stopped_stream()
    binding = db.mongo.pgsync_streams.find_one({'_id': db.served().stream})
    db.mongo.pgsync_streams.insert_one({**binding, '_id': elsewhere, 'system_identifier': Int64(4711), 'lock_id': None})
    held = stopped_stream(lock={'id': '0123456789abcdef', 'expires_at': until})
    free = stopped_stream()
    slot = stream_document(db, free)['slot_name']
    db.sql("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
    try:
        before = {s: (stream_document(db, s), left_of(db, s)) for s in (elsewhere, held)}
        db.start()
        wait_until(lambda: stream_document(db, free)['state'] == 'TERMINATED', 60, lambda: db.status(), 0.05)
        equal(left_of(db, free), {}, 'left of the free one')
        check(slot in db.slots(), 'the slot of another output plugin was dropped')
        wait_until(lambda: [s for s in db.status() if s['stream'] == held and 'lock' in (s['last_error'] or '')], 60,
                   lambda: db.status(), 0.05)
        equal({s: (stream_document(db, s), left_of(db, s)) for s in before}, before, 'streams of others')
        check(not [s for s in db.status() if s['stream'] == elsewhere], lambda: db.status())
    finally:
        db.sql('SELECT pg_drop_replication_slot(%s)', (slot,))


@case('workers that had settled clean their streams one after the other')
def settled_cleaned(frame):
    if not frame.stand.storage.own:
        return
    proxy = Proxy(free_port(frame.stand.storage.port + 1), frame.stand.storage.port).start()
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY)')
    db.write_uri(f'mongodb://127.0.0.1:{proxy.port}/?replicaSet=rs0')
    try:
        db.deploy(global_rules('SELECT id FROM t'))
        db.start()
        db.wait_served()
        db.stop()
        wait_until(lambda: not any(s['pid'] for s in db.status()), 30, lambda: f'workers end: {db.status()}', 0.02)
        # pgsync refuses them
        refused = [deploy_as_api(db, global_rules('SELECT id FROM t'), storage_version=3) for _ in range(3)]
        select = {'_id': {'$in': refused}}
        db.mongo.sync_rules.update_many(select, {'$set': {'state': 'PROCESSING'}})
        db.start()
        wait_until(lambda: sum(s['stream'] in refused and s['phase'] == 'stopped' and not s['pid'] for s in db.status()) == 3,
                   60, lambda: db.status(), 0.05)
        proxy.delay(0.02)               # two that clean at once are seen to
        db.mongo.sync_rules.update_many(select, {'$set': {'state': 'STOP'}})
        at_once = []

        def all_gone():
            at_once.append(sum(s['stream'] in refused and s['pid'] is not None for s in db.status()))
            return not db.mongo.sync_rules.count_documents({**select, 'state': {'$ne': 'TERMINATED'}})

        wait_until(all_gone, 90, lambda: db.status(), 0.01)
        equal(max(at_once), 1, 'cleaners at once')
    finally:
        proxy.normal()
        db.stop()
        proxy.stop()
