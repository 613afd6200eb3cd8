"""failover.py - a standby that synchronizes slots takes over (PostgreSQL 17 and newer; no case below)."""
import contextlib
import os
import re
import shutil
import subprocess

from cluster import Cluster, bin_folder
from frame import case, select_all
from suite import check, equal, wait_until


def server_major():
    version = subprocess.run([f'{bin_folder()}/postgres', '--version'], check=True, capture_output=True, text=True).stdout
    return int(re.search(r'\d+', version.split(')', 1)[1]).group())


def rows(db):
    return sorted(r for _, r in db.reduced().rows('global[]'))


def make_standby(primary, folder):
    """A running standby of its own place that synchronizes slots through the physical slot "standby"."""
    os.makedirs(folder)
    standby = Cluster(folder, port=None, config={**primary.config, 'hot_standby_feedback': 'on',
                                                 'sync_replication_slots': 'on', 'primary_slot_name': 'standby'})
    standby.config.update(port=str(standby.port), unix_socket_directories=f"'{folder}'",
                          primary_conninfo=f"'host={primary.folder} port={primary.port} user=postgres dbname=postgres'")
    subprocess.run([f'{primary.bin}/pg_basebackup', '-D', standby.data, '-h', primary.folder, '-p', str(primary.port),
                    '-U', 'postgres', '-X', 'stream', '-c', 'fast', '-C', '-S', 'standby'], check=True, capture_output=True)
    standby.write_config()
    with open(os.path.join(standby.data, 'standby.signal'), 'w'):
        pass
    standby.start()
    return standby


def failover(frame):
    primary = frame.cluster
    db = frame.replicating('CREATE TABLE t (id text PRIMARY KEY)', select_all('t'))
    slot = db.slots()[0]
    stream = db.served().stream
    folder = os.path.join(frame.stand.folder, 'standby')
    standby = None

    def wait_on(value):
        primary.sql(f"ALTER SYSTEM SET synchronized_standby_slots = '{value}'")
        primary.sql('SELECT pg_reload_conf()')
    try:
        standby = make_standby(primary, folder)

        def synchronized():
            # what moves the slot on
            db.sql('SELECT pg_log_standby_snapshot()')
            return standby.value('SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND synced'
                                 ' AND NOT temporary AND invalidation_reason IS NULL', (slot,))
        wait_until(synchronized, 90, 'the standby has the slot', 0.5)

        # what the standby has not received is not stored
        wait_on('standby')
        db.sql("INSERT INTO t VALUES ('1')")
        db.wait()
        standby.stop()
        db.sql("INSERT INTO t VALUES ('2')")
        found = wait_until(lambda: [s for s in db.status() if 'synchronized_standby_slots' in (s['last_error'] or '')], 60,
                           lambda: db.status(), 0.1)
        check(found[0]['phase'] == 'streaming', found)
        equal(rows(db), ['1'], 'stored before the standby has it')
        standby.start()
        db.wait()
        equal(rows(db), ['1', '2'])

        primary.stop('immediate')
        subprocess.run([f'{standby.bin}/pg_ctl', 'promote', '-w', '-D', standby.data], check=True, capture_output=True)
        db.cluster = standby
        standby.sql('ALTER SYSTEM RESET synchronized_standby_slots')
        standby.sql('SELECT pg_reload_conf()')
        # as if the minute were over in which the old primary could still be alive
        db.mongo.sync_rules.update_one({'_id': stream}, [{'$set': {'lock.expires_at': '$$NOW'}}])
        db.sql("INSERT INTO t VALUES ('3')")
        db.wait()
        equal(rows(db), ['1', '2', '3'])
        equal((db.served().stream, db.slots()), (stream, [slot]), 'the stream went on')
        db.stop(drop_slot=True)
        wait_until(lambda: not db.slots(), 60, 'the slot goes', 0.05)
    except BaseException:
        if standby is not None:
            print('    standby: ' + '\n    '.join(standby.log().strip().split('\n')[-12:]))
        raise
    finally:
        db.cluster = primary
        if standby is not None:
            standby.remove_all()
        if not primary.running():
            primary.start()
        wait_on('')
        with contextlib.suppress(Exception):
            primary.sql("SELECT pg_drop_replication_slot('standby')")
        shutil.rmtree(folder, ignore_errors=True)


if server_major() >= 17:
    case('failover: nothing is stored that the standby has not, and its slot goes on after promotion')(failover)
