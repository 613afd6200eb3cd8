"""parts.py - rows that are larger than one flush takes, interrupted between their parts."""
import os

from cluster import free_port
from frame import Frame, case
from proxy import Proxy
from stand import Stand
from suite import check, equal, wait_until

TABLE = 'CREATE TABLE t (id text PRIMARY KEY, n text, bs jsonb)'
RULES = """
bucket_definitions:
  m:
    accept_potentially_dangerous_queries: true
    parameters: SELECT request.parameters() ->> 'b' AS b
    data:
      - SELECT id, n FROM t WHERE bucket.b IN t.bs
"""
BUCKETS = 7
SIZE = 9000000                          # so that three operations fill a flush


def is_partial(db):
    return db.mongo.pgsync_row_state_1.count_documents({'p': True}) == 1


def interrupted(frame, interrupt):
    """A database whose copy was interrupted when a part of its row was stored, and goes on."""
    for _ in range(8):
        db = frame.database(TABLE)
        proxy = Proxy(free_port(29300), frame.stand.storage.port).start()
        try:
            db.write_uri(f'mongodb://127.0.0.1:{proxy.port}/?replicaSet=rs0&serverSelectionTimeoutMS=3000')
            db.sql("INSERT INTO t SELECT 'h', repeat('x', %s), (SELECT jsonb_agg('b' || j) FROM generate_series(1, %s) j)",
                   (SIZE, BUCKETS))
            db.sql("""INSERT INTO t VALUES ('a', 'small', '["b1"]')""")
            stream = db.deploy(RULES)
            db.start()
            wait_until(lambda: db.mongo.bucket_data.count_documents({}), 60, 'a first part', 0.001)
            interrupt(db, proxy)
            found = is_partial(db)
            proxy.normal()
            db.start()
            db.wait_served(stream, timeout=120)
        finally:
            db.write_uri(f'mongodb://127.0.0.1:{frame.stand.storage.port}/?replicaSet=rs0')
            proxy.stop()
        check_buckets(db)
        if found:
            return
        frame.clean()
    check(False, 'the copy was never interrupted between two parts')


def check_buckets(db):
    names = {f'b{i}' for i in range(1, BUCKETS + 1)}
    pipeline = [{'$match': {'op': 'PUT'}}, {'$project': {'data': 0}}]
    found = [(d['_id']['b'].split('"')[1], d['row_id']) for d in db.mongo.bucket_data.aggregate(pipeline)]
    equal({b for b, i in found if i == 'h'}, names, 'buckets that have got the row')
    equal([b for b, i in found if i == 'a'], ['b1'], 'the small row')
    equal(db.mongo.bucket_data.count_documents({'op': 'REMOVE'}), 0, 'removals')
    check(not is_partial(db), 'the row is still marked')


@case('a copied row that is written in parts, stopped between them by pgsync_stop(): all its buckets have it')
def stop_between_parts(frame):
    def interrupt(db, proxy):
        proxy.black_hole()              # or what was sent is waited for
        db.stop()
        wait_until(lambda: not any(s['pid'] for s in db.status()), 60, lambda: f'workers ended: {db.status()}', 0.05)
    interrupted(frame, interrupt)


@case('a copied row that is written in parts, and the storage is killed between them: all its buckets have it')
def kill_between_parts(frame):
    if not frame.stand.storage.own:
        print('    the storage is not ours to kill: left out', flush=True)
        return
    # one of its own, on a port that no other run of the tests takes while it is down
    stand = Stand('parts', start=False)
    stand.storage.port = free_port(28000 + os.getpid() % 1000)
    with stand:
        stand.start()

        def interrupt(db, proxy):
            stand.storage.kill()
            stand.storage.start()
        own = Frame(stand)
        interrupted(own, interrupt)
        own.clean()
