"""replace.py - streams that are replaced, and somebody deploys meanwhile: what was deployed last is what is served."""
from frame import case, expect, select_all
from hold import Holder, waits_for
from suite import check, equal, wait_until
from streams import stopped

T = 'CREATE TABLE t (id text PRIMARY KEY, n text, big text)'
OLD = select_all('t')


def new_rules(name):
    return f'bucket_definitions:\n  {name}:\n    data:\n      - SELECT id, n FROM t\n'


def states(db):
    """[(stream, state, its first bucket definition)]"""
    return [(d['_id'], d['state'], d['content'].split('\n')[1].strip(' :'))
            for d in db.mongo.sync_rules.find(sort=[('_id', 1)])]


def ends_with(db, name):
    """One stream is served, with the rules `name`; all others are cleaned, and nobody goes on trying."""
    wait_until(lambda: [s for s in states(db) if s[1] == 'ACTIVE'] and
               all(s[1] in ('ACTIVE', 'TERMINATED') for s in states(db)), 90, lambda: f'{states(db)} {db.status()}', 0.05)
    check([s[2] for s in states(db) if s[1] == 'ACTIVE'] == [name], lambda: f'other rules are served: {states(db)}')
    db.sql("INSERT INTO t VALUES ('last', 'x')")
    db.wait()
    expect(db, {f'{name}[]': {('t', i): {'id': i, 'n': n} for i, n in db.sql('SELECT id, n FROM t')}})
    equal([s['failures'] for s in db.status()], [0], 'failures')


def without_slots(db):
    wait_until(lambda: not db.slots(), 60, lambda: f'slots: {db.slots()}', 0.05)


def lose_slots(frame, db):
    for slot in db.slots():
        frame.cluster.sql('SELECT pg_drop_replication_slot(%s)', (slot,))


def replicating(frame, **options):
    db = frame.replicating(T, OLD, **options)
    db.sql("INSERT INTO t VALUES ('a', '1')")
    db.wait()
    return db


@case('a slot dropped on order, new rules deployed, then started: the new rules')
def dropped_slot(frame):
    db = replicating(frame)
    db.stop(drop_slot=True)
    without_slots(db)
    db.deploy(new_rules('changed'))
    log = frame.cluster.log_position()
    db.start()
    ends_with(db, 'changed')
    check('pgsync gives up replication stream 1' in frame.cluster.log(log), frame.cluster.log(log))


@case('a slot dropped on order, started, and new rules deployed at once: the new rules')
def dropped_slot_started_first(frame):
    db = replicating(frame)
    db.stop(drop_slot=True)
    without_slots(db)
    db.start()
    db.deploy(new_rules('changed'))
    ends_with(db, 'changed')


@case('DROP EXTENSION and CREATE EXTENSION, new rules deployed, then started: the new rules')
def dropped_extension(frame):
    db = replicating(frame)
    db.sql('DROP EXTENSION pgsync')
    without_slots(db)
    db.sql('CREATE EXTENSION pgsync')
    db.deploy(new_rules('changed'))
    db.start()
    ends_with(db, 'changed')


@case('a lost slot, new rules deployed as the hint says, then started: the new rules')
def lost_slot(frame):
    db = replicating(frame)
    stopped(db)
    lose_slots(frame, db)
    db.deploy(new_rules('changed'))
    db.start()
    ends_with(db, 'changed')
    equal(db.mongo.pgsync_streams.count_documents({'slot_lost': True}), 0, 'copies for a lost slot')


@case('the slots of both are lost, that of the served stream and that of the new rules: the new rules')
def both_lost(frame):
    db = replicating(frame, copy_chunk_size='64kB')
    db.sql("INSERT INTO t SELECT 'm' || i, repeat('x', 500) FROM generate_series(1, 4000) i")
    db.deploy(new_rules('changed'))
    wait_until(lambda: len(db.slots()) == 2, 60, 'the second slot', 0.01)
    stopped(db)
    lose_slots(frame, db)
    db.start()
    ends_with(db, 'changed')


def make_unable(frame, db):
    """The served stream cannot go on: it has lost its slot."""
    slot = db.mongo.sync_rules.find_one({'_id': 1})['slot_name']
    stopped(db)
    frame.cluster.sql('SELECT pg_drop_replication_slot(%s)', (slot,))
    db.start()


@case('the served stream cannot go on while new rules wait for their slot: it is served as it is until they are active')
def served_cannot_go_on(frame):
    db = replicating(frame)
    before = db.served()
    holder = Holder(db)
    try:
        second = db.deploy(new_rules('changed'))
        waits_for(db, holder.pid)
        make_unable(frame, db)
        rests = wait_until(lambda: [s for s in db.status() if s['stream'] == 1 and s['phase'] == 'stopped'], 60,
                           lambda: f'the old stream rests: {states(db)} {db.status()}', 0.05)[0]
        check('slot' in rests['last_error'], rests)
        check(f'replication stream {second}' in rests['hint'] and 'served' in rests['hint'], rests)
        equal((rests['state'], rests['failures'], rests['pid']), ('ERRORED', 0, None))
        equal([s[:2] for s in states(db)], [(1, 'ERRORED'), (second, 'PROCESSING')])
        check(db.served().stream == 1 and db.served().checkpoint >= before.checkpoint, db.served())

        # whoever has it tried again, and whoever deploys again, changes nothing of that
        db.start()
        third = db.deploy(new_rules('third'))
        wait_until(lambda: [s for s in db.status() if s['stream'] == 1 and s['hint'] and
                            f'replication stream {third}' in s['hint']], 60, lambda: db.status(), 0.05)
        check(db.served().stream == 1, db.served())
        equal([s[1] for s in states(db) if s[0] in (1, third)], ['ERRORED', 'PROCESSING'])
    finally:
        holder.end()
    ends_with(db, 'third')
    check(db.served().position >= before.position and db.served().checkpoint >= before.checkpoint, db.served())


@case('new rules that are replaced themselves keep their config, and the old stream stays served')
def new_rules_replaced(frame):
    db = replicating(frame)
    db.stop(drop_slot=True)
    without_slots(db)
    db.sql('CREATE TABLE hold (id text PRIMARY KEY)')
    second = db.deploy(new_rules('changed') + '      - SELECT id FROM hold\n')
    locker = Holder(db, 'LOCK TABLE hold IN ACCESS EXCLUSIVE MODE')
    db.start()
    try:
        locker_seen = lambda: [s for s in db.status() if s['waits_for_pid'] == locker.pid]  # noqa: E731
        wait_until(locker_seen, 60, lambda: db.status(), 0.05)
        equal([s[:2] for s in states(db)], [(1, 'ERRORED'), (second, 'PROCESSING')])
        stopped(db)
        lose_slots(frame, db)
        db.mongo.sync_rules.update_one({'_id': second}, {'$set': {'snapshot_done': True}})
        locker.end()
        db.start()
    finally:
        locker.end()
    wait_until(lambda: [s for s in states(db) if s[1] == 'ACTIVE'], 60, lambda: f'{states(db)} {db.status()}', 0.05)
    check([s[::2] for s in states(db) if s[1] == 'ACTIVE'] == [(second + 1, 'changed')], lambda: states(db))
    ends_with(db, 'changed')
