"""hold.py - holding a new stream at a known step: transactions that the making of its slot, or its copy, waits for.

Making a slot takes two steps, each of which waits for the transactions with an
xid that it finds running; what begins during the second does not hold it up.
"""
import contextlib

from suite import wait_until


class Holder:
    """A transaction with an xid that stays open until end()."""

    def __init__(self, db, *statements):
        self.connection = db.connect()
        self.connection.autocommit = False
        with self.connection.cursor() as cursor:
            cursor.execute('SELECT pg_backend_pid(), pg_current_xact_id()')
            self.pid = cursor.fetchone()[0]
            for statement in statements:
                cursor.execute(statement)

    def end(self):
        if not self.connection.closed:
            self.connection.rollback()
            self.connection.close()


def waits_for(db, pid):
    """Until status says that a stream waits for this process."""
    wait_until(lambda: [s for s in db.status() if s['waits_for_pid'] == pid], 60,
               lambda: f'a stream waits for pid {pid}: {db.status()}', 0.01)


@contextlib.contextmanager
def slot_in_second_step(db, start):
    """Calls start(), which makes the stream; in the block its slot waits, and what begins there it does not wait for."""
    with contextlib.ExitStack() as stack:
        first = Holder(db)
        stack.callback(first.end)
        start()
        waits_for(db, first.pid)
        second = Holder(db)
        stack.callback(second.end)
        first.end()
        waits_for(db, second.pid)
        yield second


@contextlib.contextmanager
def copy_held(db, table, start):
    """In the block the slot is made, and the copy has not read a row yet: it waits for `table`, which the rules read."""
    locker = None
    try:
        with slot_in_second_step(db, start):
            locker = Holder(db, f'LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE')
        waits_for(db, locker.pid)
        yield
    finally:
        if locker:
            locker.end()
