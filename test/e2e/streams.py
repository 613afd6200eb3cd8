"""streams.py - the life of replication streams: deploy, replace, take over, lose; and the documents that the API reads."""
import contextlib
import datetime
import json
import os

import bson
import psycopg2
import pymongo
from bson import Int64, json_util
from bson.binary import UuidRepresentation

import oracle
from cluster import lsn_number
from frame import case, expect, expect_lookups, ops_of, select_all
from suite import check, difference, equal, wait_until

G = 'global[]'
T = 'CREATE TABLE t (id text PRIMARY KEY, n int)'

MIGRATIONS = """1684951997326-init 1688556755264-initial-sync-rules 1702295701188-sync-rule-state
1711543888062-write-checkpoint-index 1727099539247-custom-write-checkpoint-index 1741697235857-bucket-state-index
1749720702136-checkpoint-events 1752661449910-connection-reporting 1760433882550-bucket-state-index2
1762790715147-connection-reporting2 1770213298299-storage-version 1782950400000-checkpoint-requested-at-index""".split()

INDEXES = {
    'bucket_parameters': {'lookup1': ['key.g', 'lookup', '_id']},
    'bucket_state': {'bucket_updates': ['_id.g', 'last_op'], 'dirty_count': ['_id.g', 'estimate_since_compact.count']},
    'write_checkpoints': {'user_id': ['user_id'], 'processed_at_lsn': ['processed_at_lsn'],
                          'checkpoint_requested_at': ['checkpoint_requested_at']},
    'custom_write_checkpoints': {'user_sync_rule_unique': ['user_id', 'sync_rules_id'], 'op_id': ['op_id'],
                                 'checkpoint_requested_at': ['checkpoint_requested_at']},
    'connection_report_events': {'connection_list_index': ['connected_at', 'jwt_exp', 'disconnected_at'],
                                 'connection_user_id_index': ['user_id'], 'connection_client_id_index': ['client_id'],
                                 'connection_index': ['sdk']},
}
UNIQUE = {('bucket_state', 'bucket_updates'), ('custom_write_checkpoints', 'user_sync_rule_unique')}

STREAM_FIELDS = {
    '_id', 'storage_version', 'content', 'serialized_plan', 'last_checkpoint', 'last_checkpoint_lsn',
    'no_checkpoint_before', 'keepalive_op', 'snapshot_done', 'snapshot_lsn', 'state', 'slot_name', 'last_checkpoint_ts',
    'last_fatal_error', 'last_fatal_error_ts', 'last_keepalive_ts', 'parameter_compaction'}


def stream_document(db, stream):
    return db.mongo.sync_rules.find_one({'_id': stream})


def deploy_as_api(db, rules, state='PROCESSING', storage_version=2, **fields):
    """What the API's deploy endpoint leaves behind (contract 2)."""
    m = db.mongo
    m.sync_rules.update_many({'state': 'PROCESSING'}, {'$set': {'state': 'STOP'}})
    sequence = m.op_id_sequence.find_one_and_update({'_id': 'sync_rules'}, {'$inc': {'op_id': Int64(1)}}, upsert=True,
                                                    return_document=True)
    stream = int(sequence['op_id'])
    main = m.op_id_sequence.find_one({'_id': 'main'})
    m.sync_rules.insert_one({
        '_id': stream, 'storage_version': storage_version, 'content': rules, 'serialized_plan': None,
        'last_checkpoint': None, 'last_checkpoint_lsn': None, 'no_checkpoint_before': None, 'keepalive_op': None,
        'snapshot_done': False, 'snapshot_lsn': None, 'state': state, 'slot_name': f'powersync_{stream}_{os.urandom(2).hex()}',
        'last_checkpoint_ts': None, 'last_fatal_error': None, 'last_fatal_error_ts': None, 'last_keepalive_ts': None,
        'parameter_compaction': {'compacted_before': Int64(main['op_id'] if main else 0)}, **fields})
    # it is there, or a worker makes it at this moment: the driver and the server say so in their own ways
    with contextlib.suppress(pymongo.errors.CollectionInvalid, pymongo.errors.OperationFailure):
        m.create_collection('checkpoint_events', capped=True, size=51200, max=50)
    m.checkpoint_events.insert_one({})
    return stream


@case('what deploy leaves: collections, indexes, migrations, the stream document')
def documents(frame):
    db = frame.database(T)
    stream = db.deploy(select_all('t'))
    m = db.mongo
    d = stream_document(db, stream)
    equal(set(d) - {'lock'}, STREAM_FIELDS, 'fields of the stream document')
    equal((d['state'], d['snapshot_done'], d['storage_version'], d['serialized_plan']), ('PROCESSING', False, 2, None))
    equal(d['content'], select_all('t'))
    check(d['slot_name'].startswith(f'powersync_{stream}_') and len(d['slot_name'].split('_')[-1]) == 4, d['slot_name'])
    equal(m.op_id_sequence.find_one({'_id': 'sync_rules'})['op_id'], stream)
    for name, indexes in INDEXES.items():
        found = m[name].index_information()
        for index, keys in indexes.items():
            check(index in found, lambda: f'{name} has no index {index}: {sorted(found)}')
            equal([k for k, _ in found[index]['key']], keys, f'{name}.{index}')
            equal(bool(found[index].get('unique')), (name, index) in UNIQUE, f'{name}.{index} unique')
    events = m.command('listCollections', filter={'name': 'checkpoint_events'})['cursor']['firstBatch'][0]['options']
    equal((events.get('capped'), events.get('size'), events.get('max')), (True, 51200, 50))
    check(m.checkpoint_events.count_documents({}) >= 1, 'no checkpoint event')
    migrations = list(m.migrations.find())
    equal(len(migrations), 1)
    equal([e['name'] for e in migrations[0]['log']], MIGRATIONS)
    equal(migrations[0]['last_run'], MIGRATIONS[-1])
    db.start()
    db.wait_served(stream)
    d = stream_document(db, stream)
    equal((d['state'], d['snapshot_done'], d['keepalive_op'], d['last_fatal_error']), ('ACTIVE', True, None, None))
    table = m.source_tables.find_one({'group_id': stream})
    equal((table['schema_name'], table['table_name'], table['snapshot_done']), ('public', 't', True))
    equal([c['name'] for c in table['replica_id_columns2']], ['id'])


def scenario(name):
    folder = os.environ.get('PGSYNC_CONFORMANCE')
    with open(os.path.join(folder, 'storage', name)) as f:
        return json.load(f)


@case('the same steps as the recorded scenario give the same ops, order and checksums')
def recorded(frame):
    if not os.environ.get('PGSYNC_CONFORMANCE'):
        print('    no vectors (PGSYNC_CONFORMANCE): not compared', flush=True)
        return
    known = scenario('scenario_v2_legacy.json')
    db = frame.database("""
        CREATE TABLE items (id text PRIMARY KEY, name text, group_id text, amount float8, big int8, bin bytea);
        ALTER TABLE items ALTER big SET STORAGE PLAIN;
        CREATE TABLE memberships (id text PRIMARY KEY, group_id text, user_id text, level int);
        INSERT INTO items VALUES ('a1', 'First "q"', 'g1', 1.5, 9007199254740993, '\\x0102'), ('a2', 'Second', 'g1', 2, 5, NULL);
        INSERT INTO memberships VALUES ('m1', 'g1', 'u1', 3);""")
    stream = db.deploy(known['sync_config_yaml'])
    db.start()
    db.wait_served(stream)
    compare_with_recorded(db, known['after_keepalive'], 'after the copy')
    with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
        cursor.execute("""BEGIN; UPDATE items SET name = 'Renamed', group_id = 'g2' WHERE id = 'a1';
            DELETE FROM items WHERE id = 'a2'; DELETE FROM memberships; COMMIT""")
    db.wait()
    compare_with_recorded(db, known['after_update'], 'after the update')
    db.sql("UPDATE items SET id = 'a9', name = 'First \"q\"', group_id = 'g1' WHERE id = 'a1'")
    db.wait()
    compare_with_recorded(db, known['after_keychange'], 'after the key change')


def compare_with_recorded(db, step, what):
    options = json_util.JSONOptions(json_mode=json_util.JSONMode.CANONICAL,
                                    uuid_representation=UuidRepresentation.UNSPECIFIED)
    step = json_util.loads(json.dumps(step), json_options=options)
    theirs, ours = {}, {}
    for ops, into in ((step['bucket_data'], theirs), (db.ops(), ours)):
        for op in sorted(ops, key=lambda op: op['_id']['o']):
            into.setdefault(oracle.short_bucket(op['_id']['b']), []).append(
                # a REMOVE's checksum follows from the source table's id, which is another one here
                (op['op'], op['table'], op['row_id'], op['data'], int(op['checksum']) if op['op'] == 'PUT' else None))
    equal(sorted(op['_id']['b'] for op in db.ops())[:1], sorted(op['_id']['b'] for op in step['bucket_data'])[:1], what)
    check(ours == theirs, lambda: f'{what}:\n{difference(ours, theirs)}')
    current = {}
    for d in step['bucket_parameters']:
        current[(bson.encode(d['key']), bytes(d['lookup']))] = d
    expected = {}
    for (_, lookup), d in current.items():
        for p in d['bucket_parameters']:
            expected.setdefault(lookup, []).append(json.dumps(p, sort_keys=True))
    now = db.served()
    equal(oracle.read_lookups(db.mongo, now.stream, now.checkpoint), expected, f'{what}: lookups')


@case('a second deployment: the first serves until it is replaced, then it is cleaned and its slot dropped')
def redeploy(frame):
    db = frame.replicating(T + "; INSERT INTO t SELECT i::text, i FROM generate_series(1, 3000) i", select_all('t'))
    first = db.served()
    second = db.deploy('bucket_definitions:\n  all_of_t:\n    data:\n      - SELECT id, n FROM t\n')
    check(second > first.stream, 'stream ids grow')
    db.sql("INSERT INTO t VALUES ('new', 1)")
    now = db.wait_served(second)
    check(now.checkpoint >= first.checkpoint, 'checkpoint numbers go on')
    check(now.position >= first.position, 'positions go on')
    db.wait()
    equal(len(db.reduced().rows('all_of_t[]')), 3001)
    wait_until(lambda: stream_document(db, first.stream)['state'] == 'TERMINATED', 60,
               lambda: f"stream {first.stream} cleaned: {stream_document(db, first.stream)['state']}, {db.status()}", 0.1)
    for name, field in (('bucket_data', '_id.g'), ('bucket_parameters', 'key.g'), ('bucket_state', '_id.g'),
                        ('source_tables', 'group_id'), ('current_data', '_id.g')):
        equal(db.mongo[name].count_documents({field: first.stream}), 0, f'{name} of the old stream')
    wait_until(lambda: len(db.slots()) == 1, 60, lambda: f'one slot left: {db.slots()}', 0.1)
    equal(stream_document(db, first.stream)['content'], select_all('t'), 'the old document is kept')


@case('a deployment over one that is still copying replaces it')
def redeploy_at_once(frame):
    db = frame.database(T + '; INSERT INTO t SELECT i::text, i FROM generate_series(1, 20000) i')
    first = db.deploy(select_all('t'))
    db.start()
    second = db.deploy(select_all('t') + '# again\n')
    db.wait_served(second)
    wait_until(lambda: stream_document(db, first)['state'] == 'TERMINATED', 60, lambda: stream_document(db, first), 0.1)
    equal(len(db.reduced().rows(G)), 20000)
    wait_until(lambda: len(db.slots()) == 1, 60, lambda: f'one slot left: {db.slots()}', 0.1)


@case('rules with errors change nothing')
def bad_rules(frame):
    db = frame.database(T)
    stream = db.deploy(select_all('t'))
    before = list(db.mongo.sync_rules.find())
    for rules in ('bucket_definitions: [', 'bucket_definitions:\n  g:\n    data:\n      - SELEC 1\n', 'nothing: 1\n',
                  'bucket_definitions:\n  g:\n    data:\n      - SELECT * FROM t WHERE nosuch(n) = bucket.x\n'):
        try:
            db.deploy(rules)
        except psycopg2.Error as error:
            check(error.pgcode != 'XX000', lambda: f'an internal error: {error}')
            check(error.diag.message_detail or error.diag.message_hint or 'line' in str(error),
                  lambda: f'no word about where: {error}')
        else:
            check(False, f'was deployed: {rules!r}')
    equal(list(db.mongo.sync_rules.find()), before, 'stream documents')
    db.start()
    db.wait_served(stream)


@case('rules deployed through the API are picked up')
def api_deploy(frame):
    db = frame.database(T + "; INSERT INTO t VALUES ('a', 1)")
    db.start()
    stream = deploy_as_api(db, select_all('t'))
    db.wait_served(stream)
    db.wait()
    expect(db, {G: {('t', 'a'): {'id': 'a', 'n': 1}}})
    second = deploy_as_api(db, 'bucket_definitions:\n  g2:\n    data:\n      - SELECT * FROM t\n')
    db.wait_served(second)
    expect_ids(db, 'g2[]', ['a'])


def expect_ids(db, bucket, ids):
    equal(sorted(r for _, r in db.reduced().rows(bucket)), sorted(ids), bucket)


@case('a stream of another replicator is copied, not continued')
def foreign_stream(frame):
    db = frame.database(T + "; INSERT INTO t VALUES ('a', 1)")
    old = deploy_as_api(db, select_all('t'))
    # as if PowerSync's process had copied, activated and stopped
    table = bson.ObjectId()
    db.mongo.op_id_sequence.update_one({'_id': 'main'}, {'$set': {'op_id': Int64(7)}}, upsert=True)
    db.mongo.source_tables.insert_one({'_id': table, 'group_id': old, 'connection_id': 1, 'relation_id': 4711,
                                       'schema_name': 'public', 'table_name': 't', 'replica_id_columns': None,
                                       'replica_id_columns2': [], 'snapshot_done': True, 'snapshot_status': None,
                                       'source_metadata': None})
    db.mongo.sync_rules.update_one({'_id': old}, {'$set': {
        'state': 'ACTIVE', 'snapshot_done': True, 'last_checkpoint': Int64(7), 'last_checkpoint_lsn': '00000000/00000010'}})
    db.start()
    now = wait_until(lambda: (lambda s: s if s and s.stream > old else None)(db.served()), 60,
                     lambda: f'a copy of stream {old}: {db.status()}', 0.1)
    check(now.checkpoint >= 7, 'checkpoint numbers go on')
    equal(stream_document(db, now.stream)['content'], select_all('t'))
    db.wait()
    expect_ids(db, G, ['a'])


@case('a stream that is behind the served one is not activated, and status says what it waits for')
def behind(frame):
    db = frame.database(T + "; ALTER TABLE t ADD c text; INSERT INTO t VALUES ('a', 1, NULL), ('b', 2, repeat('x', 200000))")
    db.configure(row_limit='100kB')
    old = deploy_as_api(db, select_all('t'))
    ahead = lsn_number(db.value('SELECT pg_current_wal_lsn()')) + (40 << 20)
    db.mongo.op_id_sequence.update_one({'_id': 'main'}, {'$set': {'op_id': Int64(7)}}, upsert=True)
    db.mongo.sync_rules.update_one({'_id': old}, {'$set': {
        'state': 'ACTIVE', 'snapshot_done': True, 'last_checkpoint': Int64(7),
        'last_checkpoint_lsn': f'{ahead >> 32:08X}/{ahead & 0xffffffff:08X}'}})
    db.start()
    found = wait_until(lambda: [s for s in db.status() if s['waits_for'] and s['rejected_rows']], 60, lambda: db.status(), 0.05)
    check(found[0]['phase'] == 'catching up' and f'stream {old} ' in found[0]['waits_for'] and
          f'{ahead >> 32:X}/{ahead & 0xffffffff:X}' in found[0]['waits_for'], found)
    check('got as far' in found[0]['hint'], 'a row that was left out hides what it waits for')
    equal(db.served().stream, old)
    while lsn_number(db.value('SELECT pg_current_wal_lsn()')) <= ahead:
        db.sql("SELECT pg_logical_emit_message(false, 'other', 'x'), pg_switch_wal()")
    wait_until(lambda: db.served().stream > old, 60, lambda: db.status(), 0.05)
    wait_until(lambda: not any(s['waits_for'] for s in db.status()), 60, lambda: db.status(), 0.05)
    db.wait()
    expect_ids(db, G, ['a'])


@case('a stream that pgsync cannot run is refused where the API and the operator look')
def refused(frame):
    db = frame.database(T)
    db.start()
    stream = deploy_as_api(db, select_all('t'), storage_version=3)
    wait_until(lambda: stream_document(db, stream).get('last_fatal_error'), 60, lambda: stream_document(db, stream), 0.1)
    check('version' in stream_document(db, stream)['last_fatal_error'], stream_document(db, stream)['last_fatal_error'])
    wait_until(lambda: [s for s in db.status() if s['last_error'] and 'version' in s['last_error']], 60,
               lambda: db.status(), 0.1)
    check(not db.served(), 'it is served')


@case('write checkpoints are marked before the checkpoint that covers them; a ping is enough')
def write_checkpoints(frame):
    db = frame.replicating(T, select_all('t'))
    m = db.mongo
    for i in range(3):
        head = db.value('SELECT pg_current_wal_lsn()')
        padded = '%08X/%08X' % (lsn_number(head) >> 32, lsn_number(head) & 0xffffffff)
        m.write_checkpoints.update_one({'user_id': 'u/c'}, {
            '$set': {'lsns': {'1': padded}, 'processed_at_lsn': None}, '$inc': {'client_id': Int64(1)}}, upsert=True)
        db.sql("SELECT pg_logical_emit_message(false, 'powersync', 'ping')")

        def marked():
            d = m.write_checkpoints.find_one({'user_id': 'u/c'})
            return d['processed_at_lsn'] and d
        d = wait_until(marked, 60, lambda: f'write checkpoint marked: {db.status()}')
        wait_until(lambda: db.served().lsn >= d['processed_at_lsn'], 60, 'the checkpoint at it')
        check(padded <= d['processed_at_lsn'], f'{d}')


@case('a ping inside a transaction that rolls back is no commit; one outside moves the checkpoint at once')
def pings(frame):
    db = frame.replicating(T, select_all('t'))
    events = db.mongo.checkpoint_events.count_documents({})
    head = lsn_number(db.value('SELECT pg_current_wal_lsn()'))
    db.sql("SELECT pg_logical_emit_message(false, 'powersync', 'ping')")
    wait_until(lambda: db.served().position >= head, 60, lambda: f'a checkpoint at {head:X}: {db.status()}')
    wait_until(lambda: db.mongo.checkpoint_events.count_documents({}) > events
               or db.mongo.checkpoint_events.count_documents({}) >= 50, 60, 'an event')


@case('stop and start, a restart of the server: it goes on where it was')
def stop_start(frame):
    db = frame.replicating(T, select_all('t'))
    db.sql("INSERT INTO t VALUES ('1', 1)")
    db.wait()
    text = db.stop()[0][0]
    check('WAL' in text and 'powersync_' in text, text)
    db.sql("INSERT INTO t VALUES ('2', 1)")
    wait_until(lambda: not any(s['pid'] for s in db.status()), 60, lambda: f'workers ended: {db.status()}')
    frame.cluster.restart()
    db.sql("INSERT INTO t VALUES ('3', 1)")
    check(not any(s['pid'] for s in db.status()), 'a stopped database does not start by itself')
    db.start()
    db.wait()
    expect_ids(db, G, ['1', '2', '3'])
    frame.cluster.restart()
    db.sql("INSERT INTO t VALUES ('4', 1)")
    db.wait()
    expect_ids(db, G, ['1', '2', '3', '4'])
    equal(ops_of(db, G), [('PUT', str(i), {'id': str(i), 'n': 1}) for i in (1, 2, 3, 4)], 'nothing twice after clean stops')
    equal(db.served().stream, 1)


@case('the slot is lost: a new stream by itself, the old data stays served meanwhile')
def slot_lost(frame):
    db = frame.replicating(T + "; INSERT INTO t VALUES ('a', 1)", select_all('t'))
    first = db.served()
    db.stop()
    wait_until(lambda: not any(s['pid'] for s in db.status()), 60, lambda: f'workers ended: {db.status()}')
    for slot in db.slots():
        frame.cluster.sql('SELECT pg_drop_replication_slot(%s)', (slot,))
    db.sql("DELETE FROM t; INSERT INTO t VALUES ('b', 2)")
    check(db.served().stream == first.stream, 'the old stream is no longer served')
    db.start()
    now = wait_until(lambda: (lambda s: s if s and s.stream > first.stream else None)(db.served()), 60,
                     lambda: f'a new stream: {db.status()}', 0.1)
    check(now.position >= first.position and now.checkpoint >= first.checkpoint, f'{first} {now}')
    db.wait()
    expect_ids(db, G, ['b'])


def stopped(db, **options):
    db.stop(**options)
    wait_until(lambda: not any(s['pid'] for s in db.status()), 60, lambda: f'workers ended: {db.status()}')


def goes_on_anew(db, i):
    """The database starts without its slot: a new stream takes over, with what changed meanwhile."""
    old = db.served().stream
    db.sql('INSERT INTO t VALUES (%s, 1)', (str(i),))
    db.start()
    wait_until(lambda: db.served().stream > old, 60, lambda: f'a new stream: {db.status()}', 0.05)
    db.wait()
    expect_ids(db, G, [str(j) for j in range(i + 1)])


def refused_third(db, word):
    db.start()
    found = wait_until(lambda: [s for s in db.status() if s['phase'] == 'stopped' and s['last_error']], 60,
                       lambda: db.status(), 0.05)
    check('24 hours' in found[0]['last_error'] and word in found[0]['hint'], found)
    return found[0]


@case('a slot dropped by pgsync_stop() or DROP EXTENSION is not lost; lost ones count, and the hint names the cause')
def dropped_on_order(frame):
    db = frame.replicating(T, select_all('t'))

    def lost_slots():
        return db.mongo.pgsync_streams.count_documents({'slot_lost': True})
    for i in range(4):
        if i == 2:
            db.sql('DROP EXTENSION pgsync')
            db.sql('CREATE EXTENSION pgsync')
        else:
            db.stop(drop_slot=True)
        wait_until(lambda: not db.slots(), 60, lambda: f'slots: {db.slots()}', 0.05)
        goes_on_anew(db, i)
    equal(lost_slots(), 0, 'slots counted as lost')
    for i in range(3):
        stopped(db)
        for slot in db.slots():
            frame.cluster.sql('SELECT pg_drop_replication_slot(%s)', (slot,))
        if i < 2:
            goes_on_anew(db, 4 + i)
            equal(lost_slots(), i + 1, 'slots counted as lost')
    status = refused_third(db, 'pg_drop_replication_slot()')
    check('max_slot_wal_keep_size' not in status['hint'], status)

    # a new deployment has a count of its own
    stream = db.deploy(select_all('t'))
    db.wait_served(stream)
    db.mongo.pgsync_streams.update_many({'slot_lost': True}, {'$set': {'lineage': stream}})
    stopped(db)
    frame.cluster.sql("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    try:
        frame.cluster.sql('SELECT pg_reload_conf()')

        def invalidated():
            db.sql("SELECT pg_logical_emit_message(false, 'other', 'x'), pg_switch_wal()")
            frame.cluster.sql('CHECKPOINT')
            return db.value("SELECT bool_and(wal_status = 'lost') FROM pg_replication_slots WHERE database = current_database()")
        wait_until(invalidated, 60, 'the slot loses its WAL', 0.05)
    finally:
        frame.cluster.sql('ALTER SYSTEM RESET max_slot_wal_keep_size')
        frame.cluster.sql('SELECT pg_reload_conf()')
    status = refused_third(db, 'max_slot_wal_keep_size')
    check('max_slot_wal_keep_size' in status['last_error'], status)


@case('the stored position is not of this history: nothing is written until somebody decides')
def history(frame):
    db = frame.replicating(T + "; INSERT INTO t VALUES ('a', 1)", select_all('t'))
    db.stop()
    wait_until(lambda: not any(s['pid'] for s in db.status()), 60, lambda: f'workers ended: {db.status()}')
    stream = db.served().stream
    db.mongo.sync_rules.update_one({'_id': stream}, {'$set': {'last_checkpoint_lsn': '0000FFFF/00000000'}})
    before = db.mongo.bucket_data.count_documents({})
    db.sql("INSERT INTO t VALUES ('b', 1)")
    db.start()
    found = wait_until(lambda: [s for s in db.status() if s['phase'] == 'history_changed'], 60, lambda: db.status(), 0.1)
    check(found[0]['hint'] and 'pgsync_' in found[0]['hint'], found)
    equal(db.mongo.bucket_data.count_documents({}), before, 'ops')


@case('somebody else holds the stream: named, and nothing is written')
def foreign_lock(frame):
    db = frame.database(T)
    db.start()
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    stream = deploy_as_api(db, select_all('t'), lock={'id': '0123456789abcdef', 'expires_at': until})
    wait_until(lambda: [s for s in db.status() if s['last_error'] and 'lock' in s['last_error'].lower()
                        or s['hint'] and 'replicat' in s['hint'].lower()], 60, lambda: db.status(), 0.1)
    equal(stream_document(db, stream)['lock']['id'], '0123456789abcdef')
    equal(db.mongo.bucket_data.count_documents({}), 0)


@case('two databases of one server replicate side by side')
def two(frame):
    a = frame.replicating(T, select_all('t'))
    b = frame.replicating(T, select_all('t'))
    a.sql("INSERT INTO t VALUES ('a', 1)")
    b.sql("INSERT INTO t VALUES ('b', 1)")
    a.wait()
    b.wait()
    expect_ids(a, G, ['a'])
    expect_ids(b, G, ['b'])
    equal(len(a.status()), 1)


@case('without a publication all tables of the rules are replicated, with a warning')
def no_publication(frame):
    db = frame.database(T, publication=False)
    with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
        cursor.execute('SELECT pgsync_deploy(%s)', (select_all('t'),))
        stream = cursor.fetchone()[0]
        check(any('publication' in n for n in c.notices), lambda: f'no warning: {c.notices}')
    db.start()
    db.wait_served(stream)
    db.sql("INSERT INTO t VALUES ('a', 1)")
    db.wait()
    expect_ids(db, G, ['a'])
    check(any(s['hint'] and 'publication' in s['hint'] for s in db.status()), lambda: db.status())


@case('pgsync_deploy() shows what pgsync_validate() finds, and is not stopped by it')
def deploy_warns(frame):
    db = frame.database(T)
    rules = 'bucket_definitions:\n  global:\n    data:\n      - SELECT id, nosuch FROM t\n      - SELECT * FROM later\n'
    with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
        cursor.execute('SELECT line, message FROM pgsync_validate(%s)', (rules,))
        found = cursor.fetchall()
        equal([line for line, _ in found], [4, 5])
        cursor.execute('SELECT pgsync_deploy(%s)', (rules,))
        stream = cursor.fetchone()[0]
        for line, message in found:
            check(any(message in n and f'Line {line}, ' in n for n in c.notices), lambda: f'{message}: {c.notices}')
    db.start()
    db.wait_served(stream)
    db.sql("INSERT INTO t VALUES ('a', 1)")
    db.wait()
    expect_ids(db, G, ['a'])


@case('a publication of some tables: others of the rules are not replicated')
def publication(frame):
    db = frame.database(T + '; CREATE TABLE s (id text PRIMARY KEY); CREATE PUBLICATION powersync FOR TABLE t',
                        publication=False)
    stream = db.deploy(select_all('t', 's'))
    db.start()
    db.wait_served(stream)
    db.sql("INSERT INTO t VALUES ('a', 1); INSERT INTO s VALUES ('b')")
    db.wait()
    expect(db, {G: {('t', 'a'): {'id': 'a', 'n': 1}}})


@case('custom parameters of the request beside the user id')
def parameters(frame):
    schema = 'CREATE TABLE m (id text PRIMARY KEY, user_id text, level int, grp text); CREATE TABLE d (id text PRIMARY KEY, grp text)'
    rules = """
bucket_definitions:
  by_grp:
    parameters:
      - SELECT grp FROM m WHERE user_id = request.user_id() AND level = request.parameters() ->> 'level'
      - SELECT grp FROM m WHERE user_id = request.jwt() ->> 'other'
    data:
      - SELECT * FROM d WHERE grp = bucket.grp
"""
    db = frame.replicating(schema, rules)
    db.sql("INSERT INTO m VALUES ('1', 'u', 3, 'g'); INSERT INTO d VALUES ('x', 'g')")
    db.wait()
    expect(db, {'by_grp["g"]': {('d', 'x'): {'id': 'x', 'grp': 'g'}}})
    expect_lookups(db, {('by_grp', '1', 'u', 3): [{'grp': 'g'}], ('by_grp', '2', 'u'): [{'grp': 'g'}]})
