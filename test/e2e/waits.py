"""waits.py - what a worker waits for: WAL that is not flushed yet, commits that are not visible, locks.

Times are asserted only where waiting for the wrong thing takes several times as long.
"""
import contextlib
import threading
import time

from cluster import lsn_number
from frame import case
from hold import Holder, waits_for
from suite import Timeout, check, equal, wait_until
from tables import ALL, copied_again, needs_rereads, settle, visible

PING = "SELECT pg_logical_emit_message(false, 'powersync', 'ping')"


@contextlib.contextmanager
def setting(cluster, name, value):
    """A setting of the server, until the end of the block."""
    def change(to):
        cluster.sql(f'ALTER SYSTEM SET {name} = {to}' if to is not None else f'ALTER SYSTEM RESET {name}')
        cluster.reload()
    change(f"'{value}'")
    try:
        wait_until(lambda: cluster.value(f'SHOW {name}') == value, 30, f'{name} = {value}', 0.01)
        yield
    finally:
        change(cluster.config.get(name))


def load_half_flushed(db, loader):
    """A bulk load that does not commit, until the WAL writer has flushed it up to a page's border, inside a record."""
    def border():
        flushed, inserted = map(lsn_number, db.sql('SELECT pg_current_wal_flush_lsn()::text, pg_current_wal_insert_lsn()::text')[0])
        return flushed % 8192 == 0 and flushed < inserted

    def more():
        with loader.cursor() as cursor:
            cursor.execute("INSERT INTO load SELECT i, repeat('x', 900) FROM generate_series(1, 60) i")
        with contextlib.suppress(Timeout):
            return wait_until(border, 1, 'WAL is flushed up to a page\'s border', 0.01)
    wait_until(more, 30, 'WAL is flushed up to a page\'s border')
    # until the worker has read what there is, and sleeps
    wait_until(lambda: db.status()[0]['lag_seconds'] == 0, 30, lambda: db.status(), 0.01)


def seconds_until_pinged(db):
    """From an API's ping, whose commit is asynchronous, to the checkpoint at it."""
    start = time.monotonic()
    head = lsn_number(db.value('SELECT pg_current_wal_insert_lsn()'))
    db.sql(PING)
    wait_until(lambda: db.served().position >= head, 60, lambda: f'a checkpoint at {head:X}: {db.status()}', 0.01)
    return time.monotonic() - start


@case('an asynchronous commit behind a record that is flushed in part: seen when the WAL writer has flushed it')
def ping_behind_half(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int); CREATE TABLE load (i int, v text)', ALL)
    took = []
    with contextlib.closing(db.connect(autocommit=False)) as loader:
        for _ in range(6):
            load_half_flushed(db, loader)
            took.append(seconds_until_pinged(db))
    check(sum(took) < 6, lambda: f'six pings took {took} s')


@case('... and at once with pgsync.flush_asynchronous_commits')
def flushed_behind_half(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int); CREATE TABLE load (i int, v text)', ALL,
                           flush_asynchronous_commits='on')
    with contextlib.closing(db.connect(autocommit=False)) as loader:
        load_half_flushed(db, loader)
        with setting(frame.cluster, 'wal_writer_delay', '10s'):
            took = seconds_until_pinged(db)
    check(took < 5, lambda: f'a ping took {took} s')


@case('making a slot goes on when the old transactions have ended, one at each of its steps')
def slot_behind_old(frame):
    took = []
    for _ in range(3):
        db = frame.database('CREATE TABLE t (id text PRIMARY KEY, n int)')
        db.deploy(ALL)
        with contextlib.ExitStack() as stack:
            first = Holder(db)
            stack.callback(first.end)
            db.start()
            waits_for(db, first.pid)
            second = Holder(db)
            stack.callback(second.end)
            start = time.monotonic()
            first.end()
            waits_for(db, second.pid)
            second.end()
            wait_until(lambda: db.status()[0]['phase'] not in ('starting', 'creating slot'), 60, lambda: db.status(), 0.02)
            took.append(time.monotonic() - start)
    check(sum(took) < 6, lambda: f'three slots took {took} s')


@case('a row is read again behind ALTER TABLE that writes the table anew')
def reread_behind_rewrite(frame):
    db = needs_rereads(frame, 1)
    db.wait()
    db.stop()
    log = frame.cluster.log_position()
    db.sql('UPDATE t SET n = 2')
    rewriting = Holder(db, 'ALTER TABLE t ALTER n TYPE int USING n + 1')
    try:
        db.start()
        waits_for(db, rewriting.pid)
        rewriting.connection.commit()
    finally:
        rewriting.end()
    settle(db, {'1': 3})
    db.wait()
    equal(copied_again(frame, log), 1, 'the table was written anew')
    equal(db.status()[0]['waits_for_pid'], None)


@contextlib.contextmanager
def stuck_commit(db, statements):
    """A session whose commit waits for a synchronous standby that is not there; yields its pid."""
    with contextlib.closing(db.connect()) as c:
        thread = threading.Thread(target=lambda: c.cursor().execute(statements))
        with setting(db.cluster, 'synchronous_standby_names', 'nobody'):
            thread.start()
            wait_until(lambda: db.cluster.value('SELECT wait_event FROM pg_stat_activity WHERE pid = %s',
                                                (c.info.backend_pid,)) == 'SyncRep', 30, 'the commit waits', 0.01)
            yield c.info.backend_pid
        thread.join(60)
        check(not thread.is_alive(), 'the commit still waits')


@case('a commit that is stuck in another database does not hold up a row that is read again')
def stuck_elsewhere(frame):
    db = needs_rereads(frame, 1)
    other = frame.database('CREATE TABLE o (i int)')
    with stuck_commit(other, 'INSERT INTO o VALUES (1)'):
        db.sql('SET synchronous_commit = local; UPDATE t SET n = 2')
        wait_until(lambda: visible(db) == {'1': 2}, 60, lambda: f'{visible(db)}; {db.status()}', 0.02)


@case('a worker that waits for a commit stops cleanly when it is asked to')
def stops_while_waiting(frame):
    db = needs_rereads(frame, 1)
    log = frame.cluster.log_position()
    with stuck_commit(db, 'UPDATE t SET n = 2') as pid:
        waits_for(db, pid)
        worker = db.status()[0]['pid']
        db.sql('SET synchronous_commit = local; SELECT pgsync_stop()')
        wait_until(lambda: not frame.cluster.value(f'SELECT count(*) FROM pg_stat_activity WHERE pid = {worker}'), 30,
                   'the worker ends', 0.02)
    check('terminating background worker' not in frame.cluster.log(log), lambda: frame.cluster.log(log))
    db.start()
    db.wait()
    equal(visible(db), {'1': 2})


@case('a worker that ends while the storage stands still does not hold up DROP DATABASE of another database')
def barrier_at_end(frame):
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY, n int)', ALL)
    frame.cluster.sql('CREATE DATABASE bystander')
    worker = db.status()[0]['pid']
    frame.stand.storage.freeze()
    try:
        db.sql("INSERT INTO t VALUES ('a', 1)")
        db.stop()
        start = time.monotonic()
        frame.cluster.sql('DROP DATABASE bystander')
        took = time.monotonic() - start
    finally:
        frame.stand.storage.thaw()
    wait_until(lambda: not frame.cluster.value(f'SELECT count(*) FROM pg_stat_activity WHERE pid = {worker}'), 30,
               'the worker ends', 0.02)
    check(took < 2.5, lambda: f'DROP DATABASE took {took} s')
