#!/usr/bin/env python3
"""The harness tests itself: a toy replicator that is right passes the reader, and each of its broken forms is caught.

The toy takes the commits from the load's own memory and writes buckets by the
contract; it has nothing of pgsync.  A reader that never fails would prove
nothing, so every promise it guards has a mutant here.
"""
import os
import sys
import threading
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'lib'))

import json                                                     # noqa: E402

import bson                                                     # noqa: E402
from bson import Binary, Int64, ObjectId                        # noqa: E402

import oracle                                                   # noqa: E402
import pg_values                                                # noqa: E402
from load import Load, Reader, Violation                        # noqa: E402
from stand import Stand                                         # noqa: E402
from suite import Suite, check, equal, wait_until               # noqa: E402


class Toy(threading.Thread):
    """Writes stream 1 from the load's model.  mutant names the one thing it does wrong, at transaction `at`."""

    def __init__(self, load, db, mutant='', at=15):
        super().__init__(daemon=True)
        self.load, self.db, self.mutant, self.at = load, db, mutant, at
        self.op, self.k = 0, 0
        self.tables, self.stop_wanted = {}, threading.Event()
        self.state, self.kept = {}, None

    def identity(self, table, row_id):
        oid = self.tables.setdefault(table, ObjectId(bytes(12)[:11] + bytes([len(self.tables) + 1])))
        return oid, uuid.uuid5(uuid.NAMESPACE_OID, f'{table}/{row_id}')

    def document(self, key, value, wrong_sum=False):
        bucket, table, row_id = key
        self.op += 1
        oid, row = self.identity(table, row_id)
        subkey = f'{oid}/{row}'
        d = {'_id': {'g': 1, 'b': '1#' + bucket, 'o': Int64(self.op)}, 'op': 'PUT' if value else 'REMOVE',
             'source_table': oid, 'source_key': Binary(row.bytes, 4), 'subkey': subkey, 'table': table,
             'row_id': row_id, 'data': json.dumps(value) if value else None, 'target_op': None}
        total = oracle.put_checksum(table, row_id, d['data']) if value else oracle.remove_checksum(subkey)
        d['checksum'] = Int64(total + wrong_sum)
        return d

    def lookup(self, group, owner):
        self.op += 1
        oid, row = self.identity('groups', group)
        return {'_id': Int64(self.op), 'key': {'g': 1, 't': oid, 'k': Binary(row.bytes, 4)},
                'lookup': oracle.lookup_bytes('by_group', '1', owner), 'bucket_parameters': [{'grp': group}]}

    def write(self, documents, parameters):
        if documents:
            self.db.bucket_data.insert_many(documents)
        if parameters:
            self.db.bucket_parameters.insert_many(parameters)
        last = {}
        for d in documents:
            last[d['_id']['b']] = d['_id']['o']
        for bucket, o in last.items():
            self.db.bucket_state.replace_one({'_id': {'g': 1, 'b': bucket}},
                                             {'last_op': o, 'estimate_since_compact': {'count': 1, 'bytes': 1}}, True)
        self.db.op_id_sequence.update_one({'_id': 'main'}, {'$set': {'op_id': Int64(self.op)}}, True)

    def publish(self, op=None, position=None):
        position = self.k if position is None else position
        self.db.sync_rules.update_one({'_id': 1}, {'$set': {
            'last_checkpoint': Int64(self.op if op is None else op), 'state': 'ACTIVE', 'snapshot_done': True,
            'last_checkpoint_lsn': f'00000000/{position + 16:08X}'}})

    def run(self):
        model = self.load.model
        self.db.create_collection('checkpoint_events', capped=True, size=51200)
        self.db.sync_rules.insert_one({'_id': 1, 'state': 'PROCESSING', 'snapshot_done': False})
        self.owners = dict(model.base_owners)
        self.write([self.document(key, value) for key, value in model.base.items()],
                   [self.lookup(g, u) for g, u in self.owners.items()])
        while not self.stop_wanted.is_set():
            if self.k == model.committed:
                self.stop_wanted.wait(0.002)
                continue
            self.k += 1
            self.transaction(model.diffs[self.k], model.owners[self.k], self.mutant if self.k == self.at else '')

    def transaction(self, diff, owner, mutant):
        documents = [self.document(key, value, mutant == 'checksum' and i == 0)
                     for i, (key, value) in enumerate(diff.items())]
        parameters = []
        if owner and self.owners[owner[0]] != owner[1]:
            old = self.lookup(owner[0], self.owners[owner[0]])
            parameters = [{**old, 'bucket_parameters': []}, self.lookup(*owner)]
            self.owners[owner[0]] = owner[1]
        if mutant == 'half':                    # a checkpoint inside a transaction
            self.write(documents[:-1], [])
            self.publish(documents[-2]['_id']['o'])
            time.sleep(0.05)
            documents = documents[-1:]
        elif mutant == 'lost row':
            documents = [d for d in documents if d['table'] == 'ledger'] + documents[2:-1]
        elif mutant == 'lost transaction':
            documents, parameters = [], []
        elif mutant == 'late op':               # below a published checkpoint
            self.kept, documents = documents[0], documents[1:] + [self.document(
                next(iter(diff)), diff[next(iter(diff))])]
        elif mutant == 'phantom':
            documents.append(self.document(('by_group["g1"]', 'account', 'never'), {'id': 'never'}))
        elif mutant == 'lookup':
            parameters.append(self.lookup('g0', 'somebody'))
        elif mutant == 'int32':
            documents[0]['_id']['o'] = int(documents[0]['_id']['o'])
        self.write(documents, parameters)
        self.publish(position=self.k - 5 if mutant == 'back' else None)

    def add_late(self):
        """What the mutant kept back of a checkpoint that the reader has seen by now."""
        if self.kept:
            self.db.bucket_data.insert_one(self.kept)

    def stop(self):
        self.stop_wanted.set()
        self.join()


def run_toy(stand, number, mutant):
    name = f'toy{number}'
    stand.cluster.sql(f'CREATE DATABASE {name}')
    db = stand.client['ps_' + name]
    load = Load(lambda: stand.cluster.connect(name), seed=number, items=40, filler=200, rate=100)
    load.setup(stand.cluster.connect(name))
    reader = Reader(load, lambda: db)
    toy = Toy(load, db, mutant)
    toy.start()
    reader.start()
    load.start()
    try:
        wait_until(lambda: load.model.committed >= 40 or reader.violation, 60, '40 transactions')
        load.stop()
        wait_until(lambda: reader.violation or reader.k == load.model.committed, 60, 'the reader at the end')
        toy.add_late()
        if not reader.violation:
            reader.immutable(db)
    except Violation as error:
        reader.violation = error
    finally:
        load.stop()
        toy.stop()
        reader.stop()
        stand.client.drop_database('ps_' + name)
        stand.cluster.sql(f'DROP DATABASE {name} WITH (FORCE)')
    return reader, load


def right(stand):
    reader, load = run_toy(stand, 0, '')
    check(reader.violation is None, lambda: str(reader.violation))
    check(reader.checkpoints >= 40, lambda: f'{reader.checkpoints} checkpoints seen of {load.model.committed}')


def broken(stand, number, mutant, words):
    reader, _ = run_toy(stand, number, mutant)
    check(reader.violation is not None, 'the reader saw nothing wrong')
    check(words in str(reader.violation), lambda: f'seen for another reason: {reader.violation}')


def scenario():
    """The oracle's formulas against a known value each (contract 3.3, 3.4, 5)."""
    equal(oracle.put_checksum('todos', '1', '{"id":"1","description":"Buy milk","completed":0}'), 710650795)
    equal(oracle.remove_checksum('660000000000000000000001/fb4ea5f2-2436-5f83-85fd-df404de46a6d'), 3685912554)
    equal(oracle.signed32(2771198962 + 539534250 + 3685912554 + 1648535447 + 520335488), 575582109)
    equal(oracle.lookup_bytes('by_user', '1', 'u1').hex(),
          '2f000000046c00270000000230000800000062795f7573657200023100020000003100023200030000007531000000')
    equal(bson.decode(oracle.lookup_bytes('a', '1', 3))['l'][2], 3)


def printed_values():
    """The second reading of values, of what the contract gives examples for."""
    int4, text, timestamptz, box = (pg_values.Type(oid, name, 'b', 0, 0, 0, delimiter, True) for oid, name, delimiter in (
        (1, 'int4', ','), (2, 'text', ','), (3, 'timestamptz', ','), (4, 'box', ';')))
    types = {t.oid: t for t in (
        int4, text, timestamptz, box, pg_values.Type(5, '_int4', 'b', 1, 0, 0, ',', True),
        pg_values.Type(6, '_text', 'b', 2, 0, 0, ',', True), pg_values.Type(7, '_box', 'b', 4, 0, 0, ';', True),
        pg_values.Type(8, 'comp', 'c', 0, 0, 0, ',', False, [('a', 1), ('b', 2), ('t', 3), ('n', 5)]),
        pg_values.Type(9, 'range', 'r', 0, 0, 1, ',', True), pg_values.Type(10, 'multirange', 'm', 0, 0, 9, ',', True),
        pg_values.Type(11, 'domain', 'd', 0, 5, 0, ',', False))}
    off, on = (pg_values.Values(types, pg_values.Options(x, x)) for x in (False, True))
    comp = '(1,"x ""y""","2024-02-29 13:14:15.5+00","{1,2}")'
    for oid, printed, legacy, all_on in (
            (5, '[2:4]={7,NULL,9}', '[7,null,9]', '[7,null,9]'), (5, '{{1,2},{3,4}}', '[[1,2],[3,4]]', '[[1,2],[3,4]]'),
            (6, r'{"a,b",NULL,"NULL","\""}', r'["a,b",null,"NULL","\""]', r'["a,b",null,"NULL","\""]'),
            (7, '{(2,2),(0,0);(3,3),(1,1)}', '["(2","2)","(0","0);(3","3)","(1","1)"]', '[NaN,NaN]'),
            (3, '2024-02-29 13:14:15.5+00', '2024-02-29 13:14:15.5Z', '2024-02-29T13:14:15.500000Z'),
            (3, '-infinity', '0000-01-01 00:00:00Z', '0000-01-01T00:00:00.000000Z'), (3, '0044-03-15 01:02:03+00 BC', None, None),
            (8, comp, comp, r'{"a":1,"b":"x \"y\"","t":"2024-02-29T13:14:15.500000Z","n":[1,2]}'),
            (8, '(,"",,)', '(,"",,)', '{"a":null,"b":"","t":null,"n":null}'),
            (9, '[1,)', '[1,)', '{"lower":1,"upper":null,"lower_exclusive":0,"upper_exclusive":1}'), (9, 'empty', 'empty', 'empty'),
            (10, '{(,1),[5,7)}', '{(,1),[5,7)}', '[{"lower":null,"upper":1,"lower_exclusive":1,"upper_exclusive":1},'
             '{"lower":5,"upper":7,"lower_exclusive":0,"upper_exclusive":1}]'),
            (11, '{1}', '{1}', '[1]')):
        equal(off.column(oid, printed), legacy, printed)
        equal(on.column(oid, printed), all_on, printed)
    equal([pg_values.real_text(float(x)) for x in ('1', '-0', '0.1', '1e20', '1e21', '1e-6', '1.5e-7', '-123456.789', 'nan')],
          ['1.0', '0.0', '0.1', '100000000000000000000.0', '1e+21', '0.000001', '1.5e-7', '-123456.789', 'NaN'])
    equal(pg_values.parse_copy('a\\tb\t\\N\t\n\\\\N\tx\\ny\t1\n'), [['a\tb', None, ''], ['\\N', 'x\ny', '1']])


MUTANTS = [
    ('half', 'rows are not those of transaction'),
    ('lost row', 'rows are not those of transaction'),
    ('lost transaction', 'is visible, 15 is not'),
    ('late op', 'added later'),
    ('phantom', 'rows are not those of transaction'),
    ('lookup', 'lookups are not those of transaction'),
    ('checksum', 'by formula'),
    ('int32', 'no int64'),
    ('back', 'back in time'),
]

if __name__ == '__main__':
    suite = Suite('harness')
    suite.run('formulas', scenario)
    suite.run('printed values', printed_values)
    with Stand('harness', config={'shared_preload_libraries': "''"}) as stand:
        suite.run('a right replicator passes', right, stand)
        for number, (mutant, words) in enumerate(MUTANTS, 1):
            suite.run(f'caught: {mutant}', broken, stand, number, mutant, words)
    sys.exit(suite.end())
