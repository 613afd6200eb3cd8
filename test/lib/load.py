"""load.py - a load whose every commit is known, and a reader that holds each checkpoint against it.

Load: several writers change rows of their own in two tables and two or more
buckets, and, under one lock, add the next row to a ledger and commit.  So the
commits have an order that we know, and transaction k is exactly the changes
that we kept for k.  Some transactions are larger than a flush; some roll back,
wholly or to a savepoint; rows move between buckets, change their key, are
deleted and come back, keep a TOAST value unchanged.

Reader: a change stream on sync_rules tells it every checkpoint that was ever
published.  At each it reads the new ops and demands: the ledger rows that are
visible are 1..k without a gap, never fewer than before, and everything else
that is visible is the state after transaction k, no more and no less.
"""
import contextlib
import hashlib
import json
import random
import threading
import time

import psycopg2
from bson import Int64
from pymongo.errors import PyMongoError

import oracle
from suite import difference

SCHEMA = """
CREATE TABLE ledger (id text PRIMARY KEY, k bigint NOT NULL, hash text NOT NULL);
CREATE TABLE filler (id text PRIMARY KEY, label text NOT NULL);
CREATE TABLE groups (id text PRIMARY KEY, owner_id text NOT NULL);
CREATE TABLE account (id text PRIMARY KEY, grp text NOT NULL, v bigint NOT NULL, note text);
CREATE TABLE item (id text PRIMARY KEY, grp text NOT NULL, writer int NOT NULL, qty bigint NOT NULL, big text);
CREATE TABLE scratch (id text PRIMARY KEY, t text);
CREATE INDEX ON item (writer);
ALTER TABLE item ALTER big SET STORAGE EXTERNAL;
"""

RULES = """
# deployment {tag}
bucket_definitions:
  everyone:
    data:
      - SELECT id, k, hash FROM ledger
      - SELECT id, label FROM filler
      - SELECT id, t FROM scratch
  by_group:
    parameters: SELECT id AS grp FROM groups WHERE owner_id = request.user_id()
    data:
      - SELECT id, grp, v, note FROM account WHERE grp = bucket.grp
      - SELECT id, grp, qty, big FROM item WHERE grp = bucket.grp
"""

GROUPS = 6
GENESIS = '0' * 64


def rules(tag=''):
    return RULES.format(tag=tag)


def bucket_of(group):
    return f'by_group["{group}"]'


EVERYONE = 'everyone[]'


class Violation(Exception):
    """A promise was broken."""


class Model:
    """The commits, in order, as changes of what clients see: {(bucket, table, id): dict or None}."""

    def __init__(self):
        self.lock = threading.Lock()
        self.base = {}                  # state before transaction 1
        self.diffs = {}                 # k -> changes
        self.hashes = {}                # k -> ledger hash
        self.committed = 0              # the highest k known to be committed
        self.pending = None             # k whose COMMIT was sent, answer not seen
        self.owners = {}                # (k) -> changes of groups: {group: owner}
        self.base_owners = {}

    def known(self, k):
        with self.lock:
            return k <= self.committed or k == self.pending


FAR_AHEAD = 400                 # transactions


class Writer(threading.Thread):
    def __init__(self, load, number):
        super().__init__(daemon=True, name=f'writer{number}')
        self.load, self.number = load, number
        self.random = random.Random(f'{load.seed}/{number}')
        self.accounts, self.items, self.groups, self.scratch = {}, {}, {}, {}
        self.serial = 0
        self.connection = None
        self.busy = threading.Lock()
        self.diff, self.undo, self.owner = {}, [], None
        self.transactions = self.rollbacks = self.large = 0

    # ---- rows

    def fresh_id(self, kind):
        self.serial += 1
        return f'{kind}{self.number}-{self.serial}'

    def group(self):
        return f'g{self.random.randrange(GROUPS)}'

    def big_text(self):
        if self.random.random() < 0.05:
            return hashlib.sha256(str(self.random.random()).encode()).hexdigest() * self.random.randrange(40, 120)
        return self.random.choice([None, 'small', 'é"\\\n\t'])

    def setup(self, cursor, items):
        """Rows before the load starts; they are the model's base."""
        for _ in range(60):
            row = {'id': self.fresh_id('a'), 'grp': self.group(), 'v': self.random.randrange(1000), 'note': None}
            self.accounts[row['id']] = row
        for _ in range(items):
            row = {'id': self.fresh_id('i'), 'grp': self.group(), 'qty': 0, 'big': self.big_text()}
            self.items[row['id']] = row
        cursor.executemany('INSERT INTO account VALUES (%(id)s, %(grp)s, %(v)s, %(note)s)', list(self.accounts.values()))
        values = b','.join(cursor.mogrify('(%s,%s,%s,%s,%s)', (r['id'], r['grp'], self.number, r['qty'], r['big']))
                           for r in self.items.values())
        cursor.execute(b'INSERT INTO item VALUES ' + values)
        for row in self.accounts.values():
            self.load.model.base[(bucket_of(row['grp']), 'account', row['id'])] = row
        for row in self.items.values():
            self.load.model.base[(bucket_of(row['grp']), 'item', row['id'])] = row

    # ---- one transaction; changes are collected in self.diff, undone in self.undo

    def put(self, table, rows, old, new):
        """Row old (or None) of our rows becomes new (or None)."""
        if old:
            del rows[old['id']]
            self.undo.append((rows, old['id'], old))
            self.diff[self.key(table, old)] = None
        if new:
            if not old or old['id'] != new['id']:
                self.undo.append((rows, new['id'], None))
            rows[new['id']] = new
            self.diff[self.key(table, new)] = new

    @staticmethod
    def key(table, row):
        return (EVERYONE if table == 'scratch' else bucket_of(row['grp']), table, row['id'])

    def roll_back(self, mark=0, diff=None):
        while len(self.undo) > mark:
            rows, row_id, old = self.undo.pop()
            if old is None:
                rows.pop(row_id, None)
            else:
                rows[row_id] = old
        self.diff = diff if diff is not None else {}

    def change_account(self, cursor):
        r = self.random.random()
        row = self.random.choice(list(self.accounts.values())) if self.accounts else None
        if row is None or r < 0.2:
            new = {'id': self.fresh_id('a'), 'grp': self.group(), 'v': self.random.randrange(1000), 'note': 'n'}
            cursor.execute('INSERT INTO account VALUES (%(id)s, %(grp)s, %(v)s, %(note)s)', new)
            self.put('account', self.accounts, None, new)
        elif r < 0.3:
            cursor.execute('DELETE FROM account WHERE id = %(id)s', row)
            self.put('account', self.accounts, row, None)
        elif r < 0.4:                   # delete and insert again
            new = {**row, 'v': row['v'] + 1, 'grp': self.group()}
            cursor.execute('DELETE FROM account WHERE id = %(id)s', row)
            cursor.execute('INSERT INTO account VALUES (%(id)s, %(grp)s, %(v)s, %(note)s)', new)
            self.put('account', self.accounts, row, new)
        elif r < 0.5:                   # another key
            new = {**row, 'id': self.fresh_id('a')}
            cursor.execute('UPDATE account SET id = %s WHERE id = %s', (new['id'], row['id']))
            self.put('account', self.accounts, row, new)
        elif r < 0.7:                   # another bucket
            new = {**row, 'grp': self.group()}
            cursor.execute('UPDATE account SET grp = %s WHERE id = %s', (new['grp'], row['id']))
            self.put('account', self.accounts, row, new)
        else:
            new = {**row, 'v': row['v'] + 1, 'note': self.random.choice([None, 'ü', 'x' * 50])}
            cursor.execute('UPDATE account SET v = v + 1, note = %s WHERE id = %s', (new['note'], row['id']))
            self.put('account', self.accounts, row, new)

    def change_item(self, cursor):
        r = self.random.random()
        row = self.random.choice(list(self.items.values()))
        if r < 0.6:                     # a TOAST value, where there is one, stays as it is
            new = {**row, 'qty': row['qty'] + 1}
            cursor.execute('UPDATE item SET qty = qty + 1 WHERE id = %s', (row['id'],))
        elif r < 0.8:
            new = {**row, 'grp': self.group()}
            cursor.execute('UPDATE item SET grp = %s WHERE id = %s', (new['grp'], row['id']))
        else:
            new = {**row, 'big': self.big_text()}
            cursor.execute('UPDATE item SET big = %s WHERE id = %s', (new['big'], row['id']))
        self.put('item', self.items, row, new)

    def change_many_items(self, cursor):
        """More rows than a flush holds, in one statement."""
        cursor.execute('UPDATE item SET qty = qty + 1 WHERE writer = %s', (self.number,))
        for row in list(self.items.values()):
            self.put('item', self.items, row, {**row, 'qty': row['qty'] + 1})
        self.large += 1

    def change_scratch(self, cursor):
        """Only writer 0 has this table, and truncates it now and then."""
        if self.random.random() < 0.2:
            cursor.execute('TRUNCATE scratch')
            for row in list(self.scratch.values()):
                self.put('scratch', self.scratch, row, None)
        new = {'id': self.fresh_id('s'), 't': 'scratch'}
        cursor.execute('INSERT INTO scratch VALUES (%(id)s, %(t)s)', new)
        self.put('scratch', self.scratch, None, new)

    def change_group_owner(self, cursor):
        group = f'g{self.random.randrange(GROUPS // self.load.writers_count) * self.load.writers_count + self.number}'
        owner = f'u{self.random.randrange(20)}'
        cursor.execute('UPDATE groups SET owner_id = %s WHERE id = %s', (owner, group))
        self.owner = (group, owner)

    def transaction(self):
        r = self.random.random()
        self.diff, self.undo, self.owner = {}, [], None
        with self.connection.cursor() as cursor:
            for _ in range(self.random.randrange(1, 4)):
                self.change_account(cursor)
                self.change_item(cursor)
            if r < self.load.large_share:
                self.change_many_items(cursor)
            elif r < 0.10:              # what a rolled back savepoint did must never show
                mark, diff = len(self.undo), dict(self.diff)
                cursor.execute('SAVEPOINT s')
                self.change_account(cursor)
                self.change_item(cursor)
                cursor.execute('ROLLBACK TO SAVEPOINT s')
                self.roll_back(mark, diff)
                self.change_item(cursor)
            elif r < 0.14:
                self.change_account(cursor)
                self.connection.rollback()
                self.roll_back()
                self.rollbacks += 1
                return
            if self.number == 0 and r > 0.8:
                self.change_scratch(cursor)
            if r > 0.9:
                self.change_group_owner(cursor)
            self.commit(cursor)

    def commit(self, cursor):
        load, model = self.load, self.load.model
        with load.commit_lock:          # from here on the order of commits is the order of ledger rows
            k = model.committed + 1
            before = model.hashes.get(k - 1, GENESIS)
            changes = json.dumps(sorted((list(key), value) for key, value in self.diff.items()), sort_keys=True)
            digest = hashlib.sha256((before + changes).encode()).hexdigest()
            row = {'id': f'L{k}', 'k': k, 'hash': digest}
            try:
                cursor.execute('INSERT INTO ledger VALUES (%(id)s, %(k)s, %(hash)s)', row)
            except psycopg2.Error:
                self.roll_back()
                raise
            self.diff[(EVERYONE, 'ledger', row['id'])] = row
            with model.lock:
                model.diffs[k], model.hashes[k], model.pending = self.diff, digest, k
                model.owners[k] = self.owner
            try:
                self.connection.commit()
                committed = True
            except psycopg2.Error:
                committed = load.ask_whether_committed(k, digest)
            with model.lock:
                model.pending = None
                if committed:
                    model.committed = k
                    self.transactions += 1
                else:
                    load.withdrawn.append((k, digest))
                    del model.diffs[k], model.hashes[k], model.owners[k]
            if not committed:
                self.roll_back()

    def run(self):
        while not self.load.stop_wanted.is_set():
            self.load.go.wait()
            try:
                with self.busy:
                    if not self.load.go.is_set():
                        continue
                    if self.connection is None:
                        self.connection = self.load.connect()
                    self.transaction()
            except psycopg2.Error as error:
                self.load.errors.append(str(error).strip())
                if self.connection is not None:
                    with contextlib.suppress(psycopg2.Error):
                        self.connection.close()
                self.connection = None
                self.roll_back()
                self.load.stop_wanted.wait(0.05)
            except Exception as error:                  # a fault of ours: never let it pass for quiet
                self.load.fatal = error
                raise
            self.load.stop_wanted.wait(self.random.expovariate(self.load.rate))
            self.load.keep_to_the_machine()
        if self.connection is not None:
            with contextlib.suppress(psycopg2.Error):
                self.connection.close()


class Load:
    """connect: a function that gives a new psycopg2 connection."""

    def __init__(self, connect, seed, writers=3, items=2300, filler=20000, rate=25.0, large_share=0.02):
        self._connect, self.seed = connect, seed
        self.writers_count, self.items, self.filler = writers, items, filler
        self.rate, self.large_share = rate, large_share
        self.model = Model()
        self.commit_lock = threading.Lock()
        self.stop_wanted = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.errors, self.withdrawn, self.fatal = [], [], None
        self.reader = None
        self.writers = [Writer(self, n) for n in range(writers)]

    def connect(self):
        c = self._connect()
        c.autocommit = False
        return c

    def ask_whether_committed(self, k, digest):
        """The answer to COMMIT was lost with the connection: the ledger knows.  Waits for the server to come back, and
        for the old backend to be gone, so that the answer is final."""
        deadline = time.monotonic() + 120
        while True:
            try:
                with contextlib.closing(self._connect()) as c, c.cursor() as cursor:
                    c.autocommit = True
                    cursor.execute("""SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
                        AND datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'COMMIT%'
                        AND state = 'active'""")
                    if cursor.fetchone()[0] == 0:
                        cursor.execute('SELECT hash FROM ledger WHERE k = %s', (k,))
                        row = cursor.fetchone()
                        return bool(row and row[0] == digest)
            except psycopg2.Error:
                pass
            if time.monotonic() > deadline:
                raise RuntimeError('the server did not come back')
            time.sleep(0.05)

    def setup(self, connection):
        with connection.cursor() as cursor:
            cursor.execute(SCHEMA)
            for n in range(GROUPS):
                cursor.execute('INSERT INTO groups VALUES (%s, %s)', (f'g{n}', f'u{n}'))
                self.model.base_owners[f'g{n}'] = f'u{n}'
            cursor.execute("INSERT INTO filler SELECT 'f' || i, 'filler ' || repeat(md5(i::text), 5) "
                           'FROM generate_series(1, %s) i RETURNING id, label', (self.filler,))
            for row_id, label in cursor.fetchall():
                self.model.base[(EVERYONE, 'filler', row_id)] = {'id': row_id, 'label': label}
            for writer in self.writers:
                writer.setup(cursor, self.items)
        if not connection.autocommit:
            connection.commit()

    def start(self):
        for writer in self.writers:
            writer.start()

    def lead(self):
        """Transactions committed and not yet seen by the reader."""
        reader = self.reader
        return self.model.committed - reader.k if reader is not None and reader.stream is not None else 0

    def keep_to_the_machine(self):
        """A slow machine is not what is tested: wait for the reader, and go on with less."""
        if self.lead() <= FAR_AHEAD:
            return
        while self.lead() > FAR_AHEAD / 8 and self.go.is_set() and not self.stop_wanted.wait(0.05):
            pass
        self.rate = max(self.rate * 0.8, 2.0)

    def pause(self):
        """No transaction starts after this; returns when those under way have ended."""
        self.go.clear()
        for writer in self.writers:
            with writer.busy:
                pass

    def resume(self):
        self.go.set()

    def stop(self):
        self.stop_wanted.set()
        self.go.set()
        for writer in self.writers:
            if writer.ident is not None:
                writer.join(180)
                if writer.is_alive():
                    raise RuntimeError(f'{writer.name} does not end')
        if self.fatal:
            raise self.fatal

    def counts(self):
        return {'transactions': self.model.committed, 'large': sum(w.large for w in self.writers),
                'rolled_back': sum(w.rollbacks for w in self.writers), 'withdrawn': len(self.withdrawn)}


class Reader(threading.Thread):
    """Follows every checkpoint.  db: a function that gives the MongoDB database (a new client after an outage)."""

    def __init__(self, load, open_db):
        super().__init__(daemon=True, name='reader')
        self.load, self.open_db = load, open_db
        load.reader = self
        self.stop_wanted = threading.Event()
        self.changed = threading.Condition()
        self.verifying = threading.RLock()      # held while the state is not that of a whole checkpoint
        self.violation = None
        self.checkpoints = self.streams = self.reopened = 0
        self.forget()

    def forget(self):
        """Start again: the storage is allowed to differ from what was seen (it lost acknowledged writes)."""
        self.stream, self.checkpoint, self.k, self.position = None, 0, 0, 0
        self.state, self.seen = None, {}
        self.expected, self.expected_k, self.owners = {}, 0, {}
        self.wrong = set()
        self.ledger = set()
        self.forget_wanted = False
        self.last_advance = time.monotonic()

    # ---- following

    def run(self):
        while not self.stop_wanted.is_set():
            try:
                db = self.open_db()
                if self.forget_wanted:
                    self.forget()
                self.follow(db)
            except Violation as error:
                with self.changed:
                    self.violation = error
                    self.changed.notify_all()
                return
            except PyMongoError:
                self.reopened += 1
                self.stop_wanted.wait(0.1)
            except Exception as error:          # a fault of ours is no pass
                with self.changed:
                    self.violation = Violation(f'the reader failed: {error!r}')
                    self.changed.notify_all()
                raise

    def follow(self, db):
        with db.sync_rules.watch(max_await_time_ms=100) as events:
            documents = self.documents(db)
            floors = self.floors(documents)
            self.look(db, documents)
            while not self.stop_wanted.is_set() and not self.forget_wanted:
                event = events.try_next()
                if event is None:
                    found = self.documents(db)
                    event = events.try_next()
                    if event is None:           # nothing is under way that we know of
                        documents, floors = found, self.floors(found)
                        self.look(db, documents)
                        continue
                if event['operationType'] == 'update':
                    self.apply_update(documents, floors, event)
                elif event['operationType'] in ('insert', 'replace'):
                    documents[event['documentKey']['_id']] = event['fullDocument']
                else:
                    return                      # collection dropped and the like: look again
                self.look(db, documents)

    @staticmethod
    def documents(db):
        return {d['_id']: d for d in db.sync_rules.find({}, {'content': 0, 'serialized_plan': 0})}

    @staticmethod
    def floors(documents):
        """What the documents hold already may still come as events: those are not news."""
        return {g: oracle.Served(d).position for g, d in documents.items()}

    @staticmethod
    def apply_update(documents, floors, event):
        g = event['documentKey']['_id']
        fields = {k: v for k, v in event['updateDescription']['updatedFields'].items() if '.' not in k}
        lsn = fields.get('last_checkpoint_lsn')
        if lsn:
            if oracle.lsn_number(lsn) < floors.get(g, 0):
                return
            floors.pop(g, None)
        d = documents.setdefault(g, {'_id': g})
        d.update(fields)
        for field in event['updateDescription']['removedFields']:
            d.pop(field, None)

    def look(self, db, documents):
        now = oracle.choose_served(documents.values())
        if now is None or not now.lsn:
            return
        if self.stream is not None and now.stream < self.stream:
            return                              # two documents change in an activation; one event is still to come
        if (now.stream, now.checkpoint, now.position) == (self.stream, self.checkpoint, self.position):
            return
        with self.verifying:
            if not self.forget_wanted:
                self.verify(db, now)

    # ---- verifying

    def verify(self, db, now):
        where = repr(now)
        if now.position < self.position:
            raise Violation(f'{where}: clients go back in time, they had {self.position:X}')
        if self.stream == now.stream and now.checkpoint < self.checkpoint:
            raise Violation(f'{where}: the checkpoint went back from {self.checkpoint}')
        if self.stream != now.stream:
            self.begin_stream(now)
        ops = oracle.read_ops(db, now.stream, self.checkpoint, now.checkpoint)
        touched = set()
        for op in ops:
            wrong = oracle.op_problems(op)
            if wrong:
                raise Violation(f'{where}: {wrong}')
            o = int(op['_id']['o'])
            self.seen[o] = hash_of(op)
            touched.update(self.state.apply(op))
        self.read_lookups(db, now)
        self.checkpoint, self.position = now.checkpoint, now.position
        self.check_prefix(where, touched)
        self.checkpoints += 1
        with self.changed:
            self.last_advance = time.monotonic()
            self.changed.notify_all()

    def begin_stream(self, now):
        self.stream, self.checkpoint = now.stream, 0
        self.streams += 1
        self.state, self.seen, self.ledger = oracle.Reduced(), {}, set()
        self.expected, self.expected_k = dict(self.load.model.base), 0
        self.wrong = set(self.expected)
        self.parameters, self.parameter_op = {}, 0
        self.owners = dict(self.load.model.base_owners)

    def read_lookups(self, db, now):
        for d in db.bucket_parameters.find({'key.g': now.stream, '_id': {'$gt': Int64(self.parameter_op),
                                                                        '$lte': Int64(now.checkpoint)}}).sort('_id', 1):
            wrong = oracle.parameter_problems(d)
            if wrong:
                raise Violation(f'{now!r}: {wrong}')
            self.parameters[(bytes(d['key']['k']), bytes(d['lookup']))] = d['bucket_parameters']
        self.parameter_op = now.checkpoint

    def visible(self, key):
        data = self.state.row(*key)
        return json.loads(data) if data is not None else None

    def check_prefix(self, where, touched):
        model = self.load.model
        ledger = self.ledger
        for bucket, table, row_id in touched:
            if table == 'ledger':
                (ledger.add if self.state.row(bucket, table, row_id) else ledger.discard)(int(row_id[1:]))
        k = len(ledger)
        if ledger and max(ledger) != k:
            missing = next(i for i in range(1, max(ledger)) if i not in ledger)
            raise Violation(f'{where}: transaction {max(ledger)} is visible, {missing} is not')
        if k < self.k:
            raise Violation(f'{where}: {k} transactions visible, there were {self.k}')
        if not self.wait_known(k):
            raise Violation(f'{where}: transaction {k} is visible, but only {model.committed} were committed')
        for i in range(self.expected_k + 1, k + 1):
            with model.lock:
                diff, owner = model.diffs[i], model.owners[i]
            for key, value in diff.items():
                if value is None:
                    self.expected.pop(key, None)
                else:
                    self.expected[key] = value
                touched.add(key)
            if owner:
                self.owners[owner[0]] = owner[1]
        self.expected_k = k
        for key in touched | self.wrong:
            if self.visible(key) == self.expected.get(key):
                self.wrong.discard(key)
            else:
                self.wrong.add(key)
        if self.wrong:
            got = {key: self.visible(key) for key in self.wrong if self.visible(key) is not None}
            expected = {key: self.expected[key] for key in self.wrong if key in self.expected}
            raise Violation(f'{where}: {len(self.wrong)} rows are not those of transaction {k}:\n'
                            + difference(got, expected))
        self.check_lookups(where, k)
        self.k = k

    def check_lookups(self, where, k):
        got = {}
        for (_, lookup), parameters in self.parameters.items():
            for p in parameters:
                got.setdefault(lookup, set()).add(json.dumps(p))
        expected = {}
        for group, owner in self.owners.items():
            expected.setdefault(oracle.lookup_bytes('by_group', '1', owner), set()).add(json.dumps({'grp': group}))
        if got != expected:
            raise Violation(f'{where}: lookups are not those of transaction {k}: got {got}, expected {expected}')

    def wait_known(self, k):
        """A commit can be visible a moment before its writer has been told."""
        deadline = time.monotonic() + 130
        while not self.load.model.known(k):
            if time.monotonic() > deadline or not self.load.commit_lock.locked():
                return self.load.model.known(k)
            time.sleep(0.002)
        return True

    # ---- for the campaign

    def raise_violation(self):
        if self.violation:
            raise self.violation

    def wait_for(self, predicate, timeout, what):
        """Until the reader has reached something.  predicate is called at each checkpoint."""
        deadline = time.monotonic() + timeout
        with self.changed:
            while True:
                self.raise_violation()
                if predicate(self):
                    return
                rest = deadline - time.monotonic()
                if rest <= 0:
                    raise TimeoutError(f'not within {timeout:g} s: {what}; reader at stream {self.stream}, '
                                       f'checkpoint {self.checkpoint}, transaction {self.k} of '
                                       f'{self.load.model.committed}')
                self.changed.wait(min(rest, 0.25))

    def stop(self):
        self.stop_wanted.set()
        self.join(60)

    def immutable(self, db):
        """Every op below the checkpoint is still what it was when it was published, and none was added."""
        now = {int(op['_id']['o']): hash_of(op) for op in oracle.read_ops(db, self.stream, 0, self.checkpoint)}
        if now != self.seen:
            added = sorted(set(now) - set(self.seen))[:10]
            lost = sorted(set(self.seen) - set(now))[:10]
            changed = sorted(o for o in now if o in self.seen and now[o] != self.seen[o])[:10]
            raise Violation(f'ops below checkpoint {self.checkpoint} of stream {self.stream}: '
                            f'added later {added}, gone {lost}, changed {changed}')


def hash_of(op):
    return hash((op['_id']['b'], op['op'], op.get('table'), op.get('row_id'), int(op['checksum']), op.get('subkey'),
                 op.get('data')))
