"""operations.py - what an administrator meets: what is refused, and what messages and pgsync_status() say."""
import contextlib
import os
import shutil
import subprocess

import psycopg2

from frame import case, select_all
from stand import Stand
from streams import deploy_as_api
from suite import check, equal, wait_until

T = 'CREATE TABLE t (id text PRIMARY KEY, n int)'


@case('a row that is left out is named in the log by its key, and status says where to look')
def rejected(frame):
    db = frame.database('CREATE TABLE t (id text PRIMARY KEY, canary text)')
    db.configure(row_limit='100kB')
    stream = db.deploy(select_all('t'))
    db.start()
    db.wait_served(stream)
    log = frame.cluster.log_position()
    db.sql("INSERT INTO t VALUES ('the-large-one', repeat('secret', 50000))")
    db.wait()
    line = wait_until(lambda: [x for x in frame.cluster.log(log).split('\n') if 'could not apply' in x], 60,
                      'a line in the log')[0]
    check('WARNING' in line and '1 row or query of' in line, line)
    check('row id=the-large-one: ' in frame.cluster.log(log), frame.cluster.log(log))
    check('secret' not in frame.cluster.log(log).replace("repeat('secret'", ''), 'the row is in the log')
    check('log' in db.status()[0]['hint'], db.status())


def refusal(call):
    try:
        call()
    except psycopg2.Error as error:
        return error
    check(False, 'was not refused')


def ended(db):
    wait_until(lambda: not any(s['pid'] for s in db.status()), 60, lambda: f'workers ended: {db.status()}', 0.05)


@case('a second database with the same MongoDB database is refused, and says whose it is; the first goes on')
def same_storage(frame):
    first = frame.replicating(T, select_all('t'))
    second = frame.database(T)
    second.storage_name = first.storage_name
    second.configure(mongodb_database=first.storage_name)
    error = refusal(lambda: second.deploy(select_all('t')))
    equal(error.pgcode, '55000')
    check(f'"{first.name}"' in error.diag.message_detail and 'pgsync_adopt()' in error.diag.message_hint, str(error))
    second.start()
    found = second.wait_phase('stopped')[0]
    check(f'"{first.name}"' in found['last_error'] and 'pgsync.mongodb_database' in found['hint'], found)
    first.sql("INSERT INTO t VALUES ('1', 1)")
    first.wait()
    equal(first.served().stream, 1)

    # it replaces the first one: that is stopped, its stream adopted, and tables are copied anew
    first.stop()
    ended(first)
    second.sql('SELECT pgsync_adopt()')
    stream = second.deploy(select_all('t'))
    second.sql("INSERT INTO t VALUES ('2', 1)")
    second.wait_served(stream)
    second.wait()
    equal([r for _, r in second.reduced().rows('global[]')], ['2'])


@case('a stream deployed through the API is not taken by a database whose MongoDB database is served for another')
def fresh_stream_of_another(frame):
    first = frame.replicating(T, select_all('t'))
    first.stop()
    ended(first)
    fresh = deploy_as_api(first, select_all('t'))
    second = frame.database(T)
    second.storage_name = first.storage_name
    second.configure(mongodb_database=first.storage_name)
    error = refusal(lambda: second.deploy(select_all('t')))
    check(f'"{first.name}"' in error.diag.message_detail, str(error))
    second.start()
    found = second.wait_phase('stopped')[0]
    check(f'"{first.name}"' in found['last_error'], found)
    equal({d['_id']: d['state'] for d in first.mongo.sync_rules.find()}, {1: 'ACTIVE', fresh: 'PROCESSING'})
    second.stop()
    first.start()
    first.wait_served(fresh)


@case('a worker library that was installed while the server ran ends in a clear error, and writes nothing')
def installed_while_running(frame):
    db = frame.replicating(T, select_all('t'))
    top = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
    other = os.path.join(frame.cluster.folder, 'other')
    shutil.copytree(top, other, ignore=shutil.ignore_patterns('.git', 'test', 'tmp_check', 'demo'))
    # the next version has room for one hold more; to save time only what compares is compiled anew
    header = os.path.join(other, 'src/pg/pgsync.h')
    before = os.stat(header)
    with open(header) as f:
        text = f.read()
    check(text.count('PGSYNC_MAX_HOLDS\t16\n') == 1, 'the header is not as expected')
    with open(header, 'w') as f:
        f.write(text.replace('PGSYNC_MAX_HOLDS\t16\n', 'PGSYNC_MAX_HOLDS\t17\n'))
    os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(other, 'src/pg/preloaded.o'))
    os.unlink(os.path.join(other, 'pgsync_worker.so'))
    subprocess.run(['make', '-s', '-C', other, 'pgsync_worker.so', f'PG_CONFIG={os.environ["PG_CONFIG"]}'], check=True,
                   stdout=subprocess.DEVNULL)
    frame.cluster.sql(f"ALTER SYSTEM SET dynamic_library_path = '{other}:$libdir'")
    try:
        frame.cluster.sql('SELECT pg_reload_conf()')
        wait_until(lambda: other in frame.cluster.value('SHOW dynamic_library_path'), 60, 'the path is set', 0.02)
        log = frame.cluster.log_position()
        db.sql('SELECT pg_terminate_backend(%s)', (db.status()[0]['pid'],))
        wait_until(lambda: 'another version of pgsync is preloaded' in frame.cluster.log(log), 60,
                   lambda: frame.cluster.log(log), 0.05)
        check('memory layout' in frame.cluster.log(log) and 'Restart the server' in frame.cluster.log(log),
              frame.cluster.log(log))
        found = wait_until(lambda: [s for s in db.status() if s['failures'] > 1], 60, lambda: db.status(), 0.05)[0]
        check(found['pid'] is None and 'could start' in found['last_error'] and 'log' in found['hint'], found)
    finally:
        frame.cluster.sql('ALTER SYSTEM RESET dynamic_library_path')
        frame.cluster.sql('SELECT pg_reload_conf()')
    wait_until(lambda: other not in frame.cluster.value('SHOW dynamic_library_path'), 60, 'the path is reset', 0.02)
    db.start()
    db.sql("INSERT INTO t VALUES ('1', 1)")
    db.wait()


@case('a setting that was changed while a worker ran well does not hide what it ends with later')
def setting_changed(frame):
    db = frame.replicating(T, select_all('t'))
    db.configure(row_limit='1MB')
    pid = db.status()[0]['pid']
    db.sql('SELECT pg_terminate_backend(%s)', (pid,))
    found = wait_until(lambda: [s for s in db.status() if s['pid'] not in (None, pid)], 60, lambda: db.status(), 0.02)[0]
    check('was terminated' in (found['last_error'] or ''), found)


@case('pgsync_stop() gives the lock back, whatever the worker was doing')
def lock_released(frame):
    db = frame.replicating(T, select_all('t'))
    for i in range(8):
        check('lock' in db.mongo.sync_rules.find_one({'_id': 1}), 'held while it runs')
        db.sql('INSERT INTO t VALUES (%s, 1)', (str(i),))
        db.stop()
        ended(db)
        check('lock' not in db.mongo.sync_rules.find_one({'_id': 1}), db.mongo.sync_rules.find_one({'_id': 1}))
        db.start()
        db.wait()


@case('pgsync.cluster_id is set: both names are shown, the setting is named, and adopting needs no waiting')
def cluster_id(frame):
    db = frame.replicating(T, select_all('t'))
    frame.cluster.sql("ALTER SYSTEM SET pgsync.cluster_id = 'my-cluster'")
    try:
        frame.cluster.kill()
        frame.cluster.start()
        found = db.wait_phase('history_changed')[0]
        check('my-cluster' in found['last_error'] and 'stored: ' in found['last_error'], found)
        check('pgsync.cluster_id' in found['hint'] and 'pgsync_adopt()' in found['hint'], found)
        db.sql('SELECT pgsync_adopt()')
        db.sql("INSERT INTO t VALUES ('1', 1)")
        db.wait(timeout=20)
        equal(db.served().stream, 1)
    finally:
        frame.cluster.sql('ALTER SYSTEM RESET pgsync.cluster_id')
        frame.cluster.sql('SELECT pg_reload_conf()')


@case('MongoDB is not reached: whether something was done, what is wrong, and nothing of the driver\'s innards')
def unreachable(frame):
    db = frame.database(T)
    db.configure(server_selection_timeout='1s', connect_timeout='1s')
    right = frame.stand.storage.uri
    for uri, word in ((right.replace('rs0', 'other'), 'replica set'), ('mongodb://no-such-host.invalid/?replicaSet=rs0', 'resolve'),
                      ('mongodb://127.0.0.1:1/?replicaSet=rs0', '127.0.0.1:1')):
        db.write_uri(uri)
        for call in (lambda: db.deploy(select_all('t')), lambda: db.sql('SELECT pgsync_adopt()')):
            error = refusal(call)
            equal(error.pgcode, '08006', str(error))
            equal('is a member' in error.diag.message_detail, word == 'replica set', str(error))
            check(word in error.diag.message_detail and 'TryOnce' not in str(error), str(error))
            check('try again' in error.diag.message_hint and 'goes on' not in str(error), str(error))
    db.write_uri(right)


@case('a database restored from a dump goes on as soon as the extension is there')
def restored(frame):
    db = frame.database(T)
    db.start()
    db.wait_phase('no rules')
    label = db.value("SELECT label FROM pg_shseclabel WHERE provider = 'pgsync' AND objoid ="
                     ' (SELECT oid FROM pg_database WHERE datname = current_database())')
    db.stop(drop_slot=True)
    ended(db)
    for wait in (True, False):
        db.sql('DROP EXTENSION pgsync')
        # as pg_dump --create writes it; the second time the worker may just be looking
        db.sql(f"SECURITY LABEL FOR pgsync ON DATABASE {db.name} IS '{label}'")
        if wait:
            db.cluster.sql("SELECT 1")
            wait_until(lambda: 'does not have the extension' in frame.cluster.log(), 60, 'the worker has looked', 0.02)
        db.sql('CREATE EXTENSION pgsync')
        db.wait_phase('no rules', timeout=15)
        db.stop(drop_slot=True)
        ended(db)


@case('DROP EXTENSION without preloading is made up for; CREATE EXTENSION warns that nothing is preloaded')
def not_preloaded(frame):
    db = frame.replicating(T, select_all('t'))
    cluster = frame.cluster
    cluster.write_config(shared_preload_libraries="''")
    cluster.restart()
    try:
        db.sql('DROP EXTENSION pgsync')
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            for _ in range(2):
                cursor.execute('CREATE EXTENSION pgsync')
                cursor.execute('DROP EXTENSION pgsync')
            warned = [n for n in c.notices if 'pgsync is not preloaded' in n]
            check(len(warned) == 2 and any('switched on' in n for n in c.notices), c.notices)
    finally:
        cluster.write_config(shared_preload_libraries="'pgsync'")
        cluster.restart()
    check(db.slots(), 'the slot is still there')
    with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
        cursor.execute('CREATE EXTENSION pgsync')
        check([n for n in c.notices if 'is switched off' in n and 'pgsync_start()' in n], c.notices)
    wait_until(lambda: not db.slots(), 60, lambda: f'slots: {db.slots()}', 0.05)
    equal(db.status(), [], 'not started')
    db.start()
    db.sql("INSERT INTO t VALUES ('1', 1)")
    db.wait()


@case('the driver writes nothing to the server\'s log, and leaves no shared memory behind')
def driver_is_silent(frame):
    db = frame.replicating(T, select_all('t'))
    pids = [s['pid'] for s in db.status()]
    check(not any(os.path.exists(f'/dev/shm/mongoc-{pid}') for pid in pids), 'shared memory of the driver')
    db.stop()
    ended(db)
    check('malloc' not in frame.cluster.log(), 'a message of the driver')


@case('another MongoDB database: nothing of before is shown, and the old slot is, with what drops it')
def moved(frame):
    db = frame.replicating(T, select_all('t'))
    slot = db.slots()[0]
    db.stop()
    ended(db)
    old, new = db.storage_name, db.storage_name + '_new'
    db.configure(mongodb_database=new)
    db.start()
    db.wait_phase('no rules')
    found = db.wait_phase('slot of no stream')[0]
    check(found['slot_name'] == slot and found['wal_status'] and found['retained_bytes'] is not None
          and f"SELECT pg_drop_replication_slot('{slot}')" in found['hint'], found)
    rules = db.wait_phase('no rules')[0]
    check(not rules['state'] and not rules['checkpoint'] and 'pgsync_deploy()' in rules['hint'], rules)
    db.storage_name = new
    stream = db.deploy(select_all('t'))
    db.wait_served(stream)
    wait_until(lambda: [s['slot_name'] for s in db.status() if s['phase'] == 'slot of no stream'] == [slot], 60,
               lambda: db.status(), 0.05)
    db.sql(f"SELECT pg_drop_replication_slot('{slot}')")
    equal(len(db.status()), 1)
    db.mongo.client.drop_database(old)


@case('stop and start, in one statement or at once after each other: the workers start anew')
def restarted(frame):
    db = frame.replicating(T, select_all('t'))

    def running():
        return wait_until(lambda: [s['pid'] for s in db.status() if s['phase'] == 'streaming' and s['pid']], 60,
                          lambda: db.status(), 0.02)[0]
    for statements in [['SELECT pgsync_stop(), pgsync_start()']] * 5 + [['SELECT pgsync_stop()', 'SELECT pgsync_start()']] * 15:
        pid = running()
        for statement in statements:
            db.sql(statement)
        wait_until(lambda: running() != pid, 10, lambda: f'process {pid} is replaced: {db.status()}', 0.02)


@case('a stream that goes away under its worker: status forgets it')
def emptied(frame):
    db = frame.replicating(T, select_all('t'))
    db.mongo.client.drop_database(db.storage_name)
    db.sql("INSERT INTO t VALUES ('1', 1)")
    rules = db.wait_phase('no rules')[0]
    check(not rules['state'] and not rules['checkpoint'] and 'pgsync_deploy()' in rules['hint'], rules)


@case('MongoDB is away when the server starts: status shows the slot and what it keeps, and the hint stays')
def away_at_start(frame):
    db = frame.replicating(T, select_all('t'))
    slot = db.slots()[0]
    db.configure(server_selection_timeout='1s', connect_timeout='1s')
    right = db.uri
    db.write_uri('mongodb://127.0.0.1:1/?replicaSet=rs0')
    frame.cluster.restart()
    wait_until(lambda: any(s['failures'] for s in db.status()), 60, lambda: db.status(), 0.02)
    for _ in range(20):
        found = [s for s in db.status() if s['slot_name'] == slot]
        check(found and found[0]['wal_status'] and found[0]['retained_bytes'] is not None and found[0]['last_error']
              and found[0]['hint'], lambda: db.status())
    db.write_uri(right)
    db.start()
    db.wait()


@case('no free worker for a deployment: a warning, and a row in status')
def no_worker(frame):
    with Stand('op_workers', config={'pgsync.max_workers': '1'}) as stand:
        db = stand.database('few').create(T)
        stream = db.deploy(select_all('t'))
        db.start()
        db.wait_served(stream)
        with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
            cursor.execute('SELECT pgsync_deploy(%s)', (select_all('t'),))
            second = cursor.fetchone()[0]
            check(any('WARNING' in n and f'stream {second}' in n and 'max_workers' in n for n in c.notices), c.notices)
        found = wait_until(lambda: [s for s in db.status() if s['stream'] == second], 60, lambda: db.status(), 0.05)[0]
        check(found['last_error_sqlstate'] == '53400' and 'pgsync.max_workers' in found['hint'], found)
        equal(db.served().stream, stream)
        # every one that waits is shown
        third = deploy_as_api(db, select_all('t'))
        db.mongo.sync_rules.update_one({'_id': second}, {'$set': {'state': 'PROCESSING'}})
        wait_until(lambda: {s['stream'] for s in db.status() if s['last_error_sqlstate'] == '53400'} == {second, third}, 60,
                   lambda: db.status(), 0.05)
        # and forgotten with who has found it
        db.mongo.sync_rules.update_many({'_id': {'$in': [second, third]}}, {'$set': {'state': 'TERMINATED'}})
        wait_until(lambda: [s['stream'] for s in db.status()] == [stream], 60, lambda: db.status(), 0.05)


@case('a deployment says that replication is not started')
def deployed_while_stopped(frame):
    db = frame.database(T)
    with contextlib.closing(db.connect()) as c, c.cursor() as cursor:
        cursor.execute('SELECT pgsync_deploy(%s)', (select_all('t'),))
        check(any('NOTICE' in n and 'not started' in n and 'pgsync_start()' in n for n in c.notices), c.notices)
