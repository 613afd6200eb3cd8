"""oracle.py - read the storage as the PowerSync API does, and say everything that is wrong with it.

Written from the storage contract alone; it shares no code with pgsync.  It
covers storage versions 1 and 2.  It never writes, except for one index that
makes its own reading fast (index_for_reading), and that only tests ask for.

Order: the fast test server sorts embedded-document _ids wrongly, so ops are
sorted here or by aggregate $sort, never by find().sort({_id}).
"""
import hashlib
import json
from collections import Counter, defaultdict

import bson
from bson import Binary, Int64, ObjectId

INT64_TYPES = (Int64,)


def lsn_number(text):
    high, low = text.split('/')
    return int(high, 16) << 32 | int(low, 16)


# ---------------------------------------------------------------- checkpoint

class Served:
    """What the API serves at one moment: a stream and its checkpoint."""

    def __init__(self, document):
        self.document = document
        self.stream = document['_id']
        self.checkpoint = int(document.get('last_checkpoint') or 0)
        self.lsn = document.get('last_checkpoint_lsn')

    def __repr__(self):
        return f'stream {self.stream} at checkpoint {self.checkpoint} ({self.lsn})'

    @property
    def position(self):
        return lsn_number(self.lsn) if self.lsn else 0


def choose_served(documents):
    """Among sync_rules documents the one the API serves, or None (contract 2 and 8.1)."""
    active = [d for d in documents if d.get('state') in ('ACTIVE', 'ERRORED')]
    if not active:
        return None
    newest = max(active, key=lambda d: d['_id'])
    return Served(newest) if newest.get('snapshot_done') else None


def served(db):
    return choose_served(db.sync_rules.find({'state': {'$in': ['ACTIVE', 'ERRORED']}}))


def index_for_reading(db):
    """The API asks per bucket; our readers ask for all buckets between two checkpoints."""
    db.bucket_data.create_index([('_id.g', 1), ('_id.o', 1)])


def read_ops(db, stream, after=0, upto=None):
    """All ops of a stream in (after, upto], by op id."""
    o = {'$gt': Int64(after)}
    if upto is not None:
        o['$lte'] = Int64(upto)
    return list(db.bucket_data.aggregate([{'$match': {'_id.g': stream, '_id.o': o}}, {'$sort': {'_id.o': 1}}],
                                         allowDiskUse=True))


# ---------------------------------------------------------------- ops

def le32(data):
    return int.from_bytes(hashlib.sha256(data).digest()[:4], 'little')


def put_checksum(table, row_id, data):
    return le32(f'put.{table}.{row_id}.{data}'.encode('utf-8', 'surrogatepass'))


def remove_checksum(subkey):
    return le32(f'delete.{subkey}'.encode())


def signed32(number):
    number &= 0xffffffff
    return number - (1 << 32) if number >= 1 << 31 else number


def bucket_checksum(ops):
    return signed32(sum(op['checksum'] for op in ops))


def subkey_of(op):
    if 'subkey' in op:
        return op['subkey']
    return f"{op['source_table']}/{op['source_key'].as_uuid() if hasattr(op['source_key'], 'as_uuid') else op['source_key']}"


def op_problems(op):
    """What is wrong with one bucket_data document, as a list of words."""
    wrong = []
    key = op['_id']
    where = f"op {key.get('o')} in {key.get('b')}: "
    if list(key) != ['g', 'b', 'o']:
        wrong.append(f'_id has the fields {list(key)}')
    if not isinstance(key['o'], Int64):
        wrong.append('_id.o is no int64')
    if isinstance(key['g'], Int64) or not isinstance(key['g'], int):
        wrong.append('_id.g is no int32')
    if not isinstance(op.get('checksum'), Int64):
        wrong.append('checksum is no int64')
    if op['op'] in ('PUT', 'REMOVE'):
        if not isinstance(op.get('source_table'), ObjectId):
            wrong.append('source_table is no ObjectId')
        source_key = op.get('source_key')
        if not isinstance(source_key, Binary) or source_key.subtype != 4 or len(source_key) != 16:
            wrong.append('source_key is no binary of subtype 4')
        else:
            subkey = f"{op['source_table']}/{source_key.as_uuid()}"
            if op.get('subkey', subkey) != subkey:
                wrong.append(f"subkey {op['subkey']} does not follow from source_table and source_key")
        for field in ('table', 'row_id'):
            if not isinstance(op.get(field), str):
                wrong.append(f'{field} is no string')
        if op['op'] == 'PUT':
            expected = put_checksum(op['table'], op['row_id'], op['data'])
            try:
                json.loads(op['data'])          # which takes NaN and Infinity, bare as the service writes them, too
            except ValueError as error:
                wrong.append(f'data is not JSON: {error}')
        else:
            expected = remove_checksum(op['subkey'])
            if op.get('data') is not None:
                wrong.append('REMOVE with data')
        if op['checksum'] != expected:
            wrong.append(f"checksum {op['checksum']}, by formula {expected}")
    elif op['op'] not in ('MOVE', 'CLEAR'):
        wrong.append(f"unknown op {op['op']}")
    return [where + w for w in wrong]


def short_bucket(name):
    """Bucket name without the version prefix of storage version 2."""
    head, sharp, rest = name.partition('#')
    return rest if sharp and head.isdigit() else name


class Reduced:
    """The client's state: what is left of a series of ops.

    A client keys its ops by (table, row id, subkey): the last one wins; a
    CLEAR forgets what came before it in its bucket.
    """

    def __init__(self):
        self.buckets = defaultdict(dict)        # bucket -> (table, row id) -> subkey -> JSON text, in op order

    def apply(self, op):
        """Returns the rows that changed: [(bucket, table, row id)]."""
        name = short_bucket(op['_id']['b'])
        bucket = self.buckets[name]
        if op['op'] == 'CLEAR':
            changed = [(name, *row) for row in bucket]
            bucket.clear()
            return changed
        if op['op'] == 'MOVE':
            return []
        row = (op['table'], op['row_id'])
        subkeys = bucket.setdefault(row, {})
        subkeys.pop(op['subkey'], None)         # so that the order is that of the ops
        if op['op'] == 'PUT':
            subkeys[op['subkey']] = op['data']
        if not subkeys:
            del bucket[row]
        return [(name, *row)]

    def row(self, bucket, table, row_id):
        """JSON text of a visible row, or None; of two source rows with one id the later op shows."""
        subkeys = self.buckets[bucket].get((table, row_id)) if bucket in self.buckets else None
        return next(reversed(subkeys.values())) if subkeys else None

    def rows(self, bucket):
        """{(table, id): JSON text}"""
        return {row: next(reversed(subkeys.values())) for row, subkeys in self.buckets.get(bucket, {}).items()}

    def all_rows(self):
        return {(bucket, *row): data for bucket in self.buckets for row, data in self.rows(bucket).items()}


def reduce(ops):
    state = Reduced()
    for op in ops:
        state.apply(op)
    return state


# ---------------------------------------------------------------- lookups

def lookup_bytes(name, query, *values):
    """contract 5; integral numbers are int64"""
    values = [Int64(v) if isinstance(v, int) else v for v in values]
    return bson.encode({'l': [name, query, *values]})


def read_lookups(db, stream, upto):
    """{lookup bytes: sorted list of parameter documents as JSON} at a checkpoint (contract 5)."""
    newest = {}
    for d in db.bucket_parameters.find({'key.g': stream}):
        if d['_id'] <= upto:
            key = (bson.encode(d['key']), bytes(d['lookup']))
            if key not in newest or newest[key]['_id'] < d['_id']:
                newest[key] = d
    found = defaultdict(list)
    for (_, lookup), d in newest.items():
        for parameters in d['bucket_parameters']:
            found[lookup].append(json.dumps(parameters, sort_keys=True, default=str))
    return {k: sorted(v) for k, v in found.items()}


def parameter_problems(d):
    wrong = []
    if not isinstance(d['_id'], Int64):
        wrong.append('_id is no int64')
    if list(d['key']) != ['g', 't', 'k']:
        wrong.append(f"key has the fields {list(d['key'])}")
    if not isinstance(d['lookup'], bytes) or bson.encode(bson.decode(d['lookup'])) != bytes(d['lookup']):
        wrong.append('lookup is not plain BSON in a binary of subtype 0')
    return [f"parameter {d['_id']}: {w}" for w in wrong]


# ---------------------------------------------------------------- the whole storage

def problems(db, stream=None):
    """Everything that breaks the contract, whatever the rules are: op form, checksums, unique op ids, bucket_state,
    checkpoint bounds.  [] when all is well.  The storage must be quiet."""
    wrong = []
    streams = {d['_id']: d for d in db.sync_rules.find()}
    sequence = {d['_id']: d['op_id'] for d in db.op_id_sequence.find()}
    head = sequence.get('main', 0)
    for name, value in sequence.items():
        if not isinstance(value, Int64):
            wrong.append(f'op_id_sequence.{name} is no int64')
    seen = Counter()
    last = defaultdict(int)
    for op in db.bucket_data.find({'_id.g': stream} if stream is not None else {}):
        wrong += op_problems(op)
        seen[int(op['_id']['o'])] += 1
        key = (op['_id']['g'], op['_id']['b'])
        last[key] = max(last[key], int(op['_id']['o']))
        if op['_id']['o'] > head:
            wrong.append(f"op {op['_id']['o']} is above op_id_sequence.main {head}")
    for d in db.bucket_parameters.find({'key.g': stream} if stream is not None else {}):
        wrong += parameter_problems(d)
        seen[int(d['_id'])] += 1
        if d['_id'] > head:
            wrong.append(f"parameter {d['_id']} is above op_id_sequence.main {head}")
    wrong += [f'op id {o} was used {n} times' for o, n in seen.items() if n > 1]

    states = {}
    for d in db.bucket_state.find({'_id.g': stream} if stream is not None else {}):
        if list(d['_id']) != ['g', 'b']:
            wrong.append(f"bucket_state _id has the fields {list(d['_id'])}")
        states[(d['_id']['g'], d['_id']['b'])] = d
    for key, o in last.items():
        if key not in states:
            wrong.append(f'no bucket_state of {key}')
        elif states[key]['last_op'] != o or not isinstance(states[key]['last_op'], Int64):
            wrong.append(f"bucket_state of {key} says {states[key]['last_op']!r}, the last op is {o}")
    for key in states:
        if key not in last:
            wrong.append(f'bucket_state of {key}, which has no op')

    for g, d in streams.items():
        if stream is not None and g != stream:
            continue
        checkpoint = d.get('last_checkpoint')
        if checkpoint is not None:
            if not isinstance(checkpoint, Int64):
                wrong.append(f'stream {g}: last_checkpoint is no int64')
            if checkpoint > head:
                wrong.append(f'stream {g}: last_checkpoint {checkpoint} is above op_id_sequence.main {head}')
        for field in ('last_checkpoint_lsn', 'no_checkpoint_before', 'snapshot_lsn'):
            text = d.get(field)
            if text is not None and not (len(text) == 17 and text[8] == '/' and text == text.upper()):
                wrong.append(f'stream {g}: {field} is {text!r}')
        if isinstance(g, Int64) or not isinstance(g, int):
            wrong.append(f'stream {g}: _id is no int32')
    events = db.command('listCollections', filter={'name': 'checkpoint_events'})['cursor']['firstBatch']
    if not events or not events[0].get('options', {}).get('capped'):
        wrong.append('checkpoint_events is not capped')
    active = [g for g, d in streams.items() if d['state'] in ('ACTIVE', 'ERRORED')]
    if len(active) > 1:
        wrong.append(f'several served streams: {active}')
    return wrong


def compare_rows(state, expected):
    """Rows of a Reduced against {bucket: {(table, id): dict}}; a bucket that is expected empty may be absent.
    Returns got and expected as flat dicts of parsed JSON, for equal() or difference()."""
    got = {key: json.loads(data) for key, data in state.all_rows().items()}
    flat = {(bucket, *key): value for bucket, rows in expected.items() for key, value in rows.items()}
    return got, flat


def expected_from_sql(connection, queries):
    """{bucket: {(table, id): dict}} from queries that give bucket, table, id, json."""
    found = defaultdict(dict)
    with connection.cursor() as cursor:
        for query in queries:
            cursor.execute(query)
            for bucket, table, row_id, value in cursor.fetchall():
                found[bucket][(table, row_id)] = value
    return dict(found)
