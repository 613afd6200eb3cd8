"""ways.py - the same rows on two ways into the buckets, and a fresh stream to compare with.

Ways makes two databases of one schema and one set of rules.  In one the first
rows are there before pgsync_start(), so they are copied; in the other they are
written after it, so they are streamed.  What is done later is done in both.
At the end each is compared with a second stream, which is copied from nothing
when all is done: what a client gets must not depend on how it came to be.
"""
import json

import oracle
from frame import expect_lookups, lookups
from suite import check, difference, equal, wait_until

G = 'global[]'


def comparable(row):
    """A missing key and null are one."""
    return {k: v for k, v in row.items() if v is not None}


def parsed(text):
    return comparable(json.loads(text, parse_constant=lambda name: name))      # NaN must equal itself


def what_clients_see(db):
    """Rows, those of several source rows with one id in any order, and lookups: what two streams must have in common."""
    state = db.reduced()
    seen = {(bucket, *row): sorted((parsed(text) for text in subkeys.values()), key=repr)
            for bucket, rows in state.buckets.items() for row, subkeys in rows.items()}
    return {**seen, 'lookups': lookups(db)}


def expect_rows(db, expected, what):
    """{bucket: {(table, id): row}}, and nothing in the storage breaks the contract"""
    state = db.reduced()
    got = {key: parsed(text) for key, text in state.all_rows().items()}
    flat = {(bucket, *key): comparable(row) for bucket, rows in expected.items() for key, row in rows.items()}
    check(got == flat, lambda: f'{what}: buckets differ:\n{difference(got, flat)}')
    wrong = oracle.problems(db.mongo)
    check(not wrong, lambda: f'{what}: {wrong[:8]}')


def statuses(db):
    """Without streams that are being removed."""
    now = db.served()
    return [s for s in db.status() if s['stream'] is None or now is None or s['stream'] >= now.stream]


def at_rest(db):
    """Streaming, and no table is stale or being copied again."""
    found = statuses(db)
    hint = found[0]['hint'] or ''
    return len(found) == 1 and found[0]['phase'] == 'streaming' and 'stale' not in hint and 'copied again' not in hint and \
        db.mongo.pgsync_tables.count_documents({'stale': True}) == 0


def settle(db):
    """Everything that is committed is there, also what had to be copied again."""
    wait_until(lambda: at_rest(db), 60, lambda: f'nothing is stale: {db.status()}', 0.05)
    db.wait()


def fresh(db, rules):
    """What a new stream of the same rules gives."""
    db.wait_served(db.deploy(rules))
    db.wait()
    return what_clients_see(db)


class Ways:
    def __init__(self, frame, schema, rules, rows=(), **options):
        self.frame, self.rules = frame, rules
        self.dbs = {'copy': frame.database(schema, **options), 'stream': frame.database(schema, **options)}
        self.run(self.dbs['copy'], rows)
        streams = {db: db.deploy(rules) for db in self.dbs.values()}
        for db in streams:
            db.start()
        self.streams = {db: db.wait_served(stream).stream for db, stream in streams.items()}
        self.pids = {db: db.status()[0]['pid'] for db in streams}
        self.run(self.dbs['stream'], rows)

    @staticmethod
    def run(db, statements):
        for statement in statements:
            db.sql(*statement) if isinstance(statement, tuple) else db.sql(statement)

    def sql(self, *statements):
        """In both databases, each statement by itself; a tuple has arguments."""
        for db in self.dbs.values():
            self.run(db, statements)

    def each(self, function):
        """function(db) for both, at rest; the results must be equal, and are returned once."""
        for db in self.dbs.values():
            settle(db)
        found = [function(db) for db in self.dbs.values()]
        equal(found[0], found[1], 'copy and stream')
        return found[0]

    def expect(self, rows, what='', lookups=None):
        """{(table, id): row} of bucket global[], or {bucket: {(table, id): row}}"""
        if any(isinstance(key, tuple) for key in rows):
            rows = {G: rows}
        for way, db in self.dbs.items():
            settle(db)
            expect_rows(db, rows, f'{way} {what}')
        if lookups is not None:
            for db in self.dbs.values():
                expect_lookups(db, lookups)

    def end(self, rows=None, rejected=0, lookups=None, restarted=False):
        """The last look.  rejected: what status must show; restarted: the worker may be another process."""
        if rows is not None:
            self.expect(rows, 'at the end', lookups)
        seen = {}
        for way, db in self.dbs.items():
            settle(db)
            status = statuses(db)[0]
            equal(db.served().stream, self.streams[db], f'{way}: the stream')
            if restarted:
                check(status['pid'], lambda: f'{way}: no worker: {status}')
                check('was terminated' in (status['last_error'] or 'was terminated'), lambda: f'{way}: {status}')
            else:
                equal((status['pid'], status['last_error']), (self.pids[db], None), f'{way}: the worker process, the last error')
            equal(status['rejected_rows'], rejected, f'{way}: rejected rows')
            seen[way] = what_clients_see(db)
        check(seen['copy'] == seen['stream'], lambda: f'copy and stream differ:\n{difference(seen["copy"], seen["stream"])}')
        for way, db in self.dbs.items():
            other = fresh(db, self.rules)
            check(seen[way] == other, lambda: f'{way}: a fresh stream differs:\n{difference(seen[way], other)}')


def both(frame, schema, rules, rows, expected, changes=(), **options):
    """The common form: rows, changes, and what must be there at the end."""
    ways = Ways(frame, schema, rules, rows)
    ways.sql(*changes)
    ways.end(expected, **options)
