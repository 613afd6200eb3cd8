"""passed_over.py - changes of a table that the stream passes over, or sees under other keys, within the transaction of the DDL."""
from frame import case
from recopy import each, FILL, LARGE, LARGE_RULES, RULES, TABLE, like_fresh, like_tables, settled, stays
from suite import equal
from tables import restart_worker
from waits import stuck_commit, waits_for

CHANGES = ("DELETE FROM {0} WHERE n % 10 = 0; UPDATE {0} SET n = n + 1000 WHERE n % 10 = 1;"
           " UPDATE {0} SET id = 'k' || id WHERE n % 10 = 2; INSERT INTO {0} VALUES ('new', 7, 'g', 'u');")


@case('recopy: a table leaves the rules, changes, and comes back in one transaction')
def away_and_back(frame):
    db = frame.database(TABLE + '; CREATE SCHEMA s', publication=False)
    db.sql('CREATE PUBLICATION powersync FOR TABLE t')
    db.deploy(RULES)
    db.start()
    db.wait_served()
    stream = db.served().stream
    for away, name, back in (
            ('ALTER TABLE t RENAME TO x', 'x', 'ALTER TABLE x RENAME TO t'),
            ('SAVEPOINT a; ALTER TABLE t RENAME TO x; RELEASE a', 'x', 'SAVEPOINT b; ALTER TABLE x RENAME TO t'),
            ('ALTER TABLE t SET SCHEMA s', 's.t', 'ALTER TABLE s.t SET SCHEMA public'),
            ('ALTER PUBLICATION powersync DROP TABLE t', 't', 'ALTER PUBLICATION powersync ADD TABLE t'),
            # what came before under a copy that has not begun yet goes, too
            ("ALTER TABLE t ADD x int DEFAULT 1; UPDATE t SET n = n + 1; ALTER TABLE t RENAME TO x", 'x',
             'ALTER TABLE x RENAME TO t; ALTER TABLE t DROP x')):
        for changes in (CHANGES.format(name), f'TRUNCATE {name};'):
            db.sql('TRUNCATE t; ' + FILL.format(100))
            settled(db)
            db.sql(f'BEGIN; {away}; {changes} {back}; COMMIT')
            settled(db)
            like_tables(db, f'{away}; {changes}', 't')
    stays(db, stream)
    like_fresh(db, RULES)


@case('recopy: ALTER TABLE gives rows other keys that have changed in its transaction before')
def other_keys(frame):
    db = frame.replicating(TABLE, RULES)
    stream = db.served().stream
    rekey = "ALTER TABLE t ALTER id TYPE text USING 'k' || id"
    change = "UPDATE t SET n = n + 1 WHERE n < 50; INSERT INTO t VALUES ('new', 7, 'g', 'u')"
    for statement in (f'ALTER TABLE t ADD x int DEFAULT 1; {change}; {rekey}; ALTER TABLE t DROP x',
                      f'{rekey}; {change}; {rekey}', f'SAVEPOINT a; {rekey}; ROLLBACK TO a; {change}; {rekey}; RELEASE a'):
        db.sql('TRUNCATE t; ' + FILL.format(100))
        settled(db)
        db.sql(f'BEGIN; {statement}; COMMIT')
        settled(db)
        like_tables(db, statement, 't')
    stays(db, stream)
    like_fresh(db, RULES)


@case('recopy: a column that is added with a default is in a new file when its transaction ends')
def clustered(frame):
    db = frame.replicating(TABLE + '', RULES)
    db.sql(FILL.format(100))
    db.wait()
    for n, (restart, statement, copied) in enumerate((
            (False, 'BEGIN; ALTER TABLE t ADD {0} int DEFAULT 7; CLUSTER t USING t_pkey; COMMIT', True),
            (False, 'ALTER TABLE t ADD {0} int', False), (True, 'ALTER TABLE t ADD {0} int', False),
            (False, 'VACUUM FULL t; ALTER TABLE t ADD {0} int', False),
            (True, 'BEGIN; CLUSTER t; ALTER TABLE t ADD {0} text; ALTER TABLE t ALTER {0} SET DEFAULT 1; COMMIT', None),
            (True, 'BEGIN; ALTER TABLE t ADD {0} int DEFAULT 7; CLUSTER t USING t_pkey; COMMIT', True))):
        if restart:
            restart_worker(db)
        log = frame.cluster.log_position()
        each(db, statement.format(f'c{n}'))
        settled(db)
        like_tables(db, statement, 't')
        if copied is not None:
            equal('will copy table' in frame.cluster.log(log), copied, f'{statement}: copied again')
    like_fresh(db, RULES)


@case('recopy: a change that leaves a value out is not completed from what was stored before the DDL')
def old_copies(frame):
    db = frame.replicating(LARGE, LARGE_RULES)
    # not to be compressed, so out of line whatever ALTER TABLE makes of the column's storage
    db.sql("INSERT INTO t SELECT i::text, i, 'g' || i % 5, 'u', (SELECT string_agg(md5(i * 1000 + j || ''), '') FROM generate_series(1, 100) j)"
           ' FROM generate_series(1, 60) i')
    db.wait()
    stream = db.served().stream
    local = 'SET synchronous_commit = local; '
    for statement in ('ALTER TABLE t ALTER v TYPE text USING upper(v)', 'ALTER TABLE t RENAME v TO w; ALTER TABLE t RENAME g TO v;'
                      ' ALTER TABLE t RENAME w TO g'):
        with stuck_commit(db, "INSERT INTO other VALUES (gen_random_uuid()::text, 1)") as pid:
            db.sql(local + statement)
            waits_for(db, pid)
            # between the watermarks, so that the copy does not bring these rows
            db.sql(local + 'UPDATE t SET n = n + 1')
            db.sql(local + 'SELECT pgsync_wait_for_lsn(pg_current_wal_insert_lsn())')
        settled(db)
        like_tables(db, statement, 't', 'other')
        db.sql('UPDATE t SET n = n + 1')
        settled(db)
        like_tables(db, statement + ', then', 't', 'other')
    stays(db, stream)
