/* pgsync--1.0.sql */

-- complain if the script is sourced in psql, rather than by CREATE EXTENSION
\echo Use "CREATE EXTENSION pgsync" to load this file. \quit

-- a warning where the library is not preloaded: nothing works then
CREATE FUNCTION @extschema@.pgsync_check_preloaded()
RETURNS pg_catalog.void
AS 'MODULE_PATHNAME', 'pgsync_check_preloaded'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

SELECT @extschema@.pgsync_check_preloaded();
DROP FUNCTION @extschema@.pgsync_check_preloaded();

-- ---------------------------------------------------------------- control

CREATE FUNCTION @extschema@.pgsync_start()
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME', 'pgsync_start'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_start() IS
'start replication of this database; takes effect with the commit, survives restarts of the server';

CREATE FUNCTION @extschema@.pgsync_stop(drop_slot pg_catalog.bool DEFAULT false)
RETURNS pg_catalog.text
AS 'MODULE_PATHNAME', 'pgsync_stop'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_stop(pg_catalog.bool) IS
'stop replication of this database; tells how much WAL its replication slots keep, unless they are dropped';

CREATE FUNCTION @extschema@.pgsync_wait_for_lsn(
	lsn pg_catalog.pg_lsn DEFAULT NULL,
	timeout pg_catalog.interval DEFAULT '30 seconds')
RETURNS pg_catalog.bool
AS 'MODULE_PATHNAME', 'pgsync_wait_for_lsn'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_wait_for_lsn(pg_catalog.pg_lsn, pg_catalog.interval) IS
'wait until a checkpoint covers a WAL position (null: all that is written by now); false after the timeout';

-- ---------------------------------------------------------------- rules

CREATE FUNCTION @extschema@.pgsync_validate(
	rules pg_catalog.text,
	OUT level pg_catalog.text,
	OUT line pg_catalog.int4,
	OUT "column" pg_catalog.int4,
	OUT code pg_catalog.text,
	OUT message pg_catalog.text,
	OUT hint pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS '$libdir/pgsync_worker', 'pgsync_validate'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_validate(pg_catalog.text) IS
'check sync rules, by themselves and against the tables of this database; no row: nothing to complain of';

CREATE FUNCTION @extschema@.pgsync_evaluate(
	rules pg_catalog.text,
	tab pg_catalog.regclass,
	keys pg_catalog.jsonb DEFAULT NULL,
	max_rows pg_catalog.int4 DEFAULT 10,
	OUT row_key pg_catalog.jsonb,
	OUT kind pg_catalog.text,
	OUT bucket pg_catalog.text,
	OUT output_table pg_catalog.text,
	OUT id pg_catalog.text,
	OUT data pg_catalog.text,
	OUT lookup pg_catalog.text,
	OUT parameters pg_catalog.text,
	OUT message pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS '$libdir/pgsync_worker', 'pgsync_evaluate'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_evaluate(pg_catalog.text, pg_catalog.regclass, pg_catalog.jsonb, pg_catalog.int4) IS
'what sync rules make of rows of a table: buckets, lookups and errors of each; nothing is stored';

CREATE FUNCTION @extschema@.pgsync_deploy(rules pg_catalog.text)
RETURNS pg_catalog.int4
AS '$libdir/pgsync_worker', 'pgsync_deploy'
LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_deploy(pg_catalog.text) IS
'deploy sync rules as a new replication stream and return its id; the stream before serves until this one has caught up';

CREATE FUNCTION @extschema@.pgsync_adopt()
RETURNS pg_catalog.void
AS '$libdir/pgsync_worker', 'pgsync_adopt'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_adopt() IS
'go on with stored data although it was written from another server or another history of this database';

-- ---------------------------------------------------------------- status

CREATE FUNCTION @extschema@.pgsync_worker_status(
	OUT stream pg_catalog.int4,
	OUT state pg_catalog.text,
	OUT phase pg_catalog.text,
	OUT phase_since pg_catalog.timestamptz,
	OUT pid pg_catalog.int4,
	OUT slot_name pg_catalog.text,
	OUT decoded_lsn pg_catalog.pg_lsn,
	OUT stored_lsn pg_catalog.pg_lsn,
	OUT checkpoint_lsn pg_catalog.pg_lsn,
	OUT confirmed_lsn pg_catalog.pg_lsn,
	OUT lag_seconds pg_catalog.float8,
	OUT checkpoint pg_catalog.int8,
	OUT checkpoint_time pg_catalog.timestamptz,
	OUT copy_table pg_catalog.text,
	OUT copy_tables_done pg_catalog.int4,
	OUT copy_tables_total pg_catalog.int4,
	OUT copy_rows_done pg_catalog.int8,
	OUT copy_rows_estimated pg_catalog.int8,
	OUT transactions pg_catalog.int8,
	OUT rows pg_catalog.int8,
	OUT ops pg_catalog.int8,
	OUT rejected_rows pg_catalog.int8,
	OUT rereads pg_catalog.int8,
	OUT evaluation_errors pg_catalog.int8,
	OUT wakeups pg_catalog.int8,
	OUT last_activity pg_catalog.timestamptz,
	OUT last_error pg_catalog.text,
	OUT last_error_sqlstate pg_catalog.text,
	OUT last_error_time pg_catalog.timestamptz,
	OUT failures pg_catalog.int4,
	OUT next_retry pg_catalog.timestamptz,
	OUT waits_for_pid pg_catalog.int4,
	OUT waits_for_xid pg_catalog.xid,
	OUT waits_for pg_catalog.text,
	OUT hint pg_catalog.text)
RETURNS SETOF pg_catalog.record
AS 'MODULE_PATHNAME', 'pgsync_worker_status'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_worker_status() IS
'what pgsync_status() reads from shared memory';

CREATE FUNCTION @extschema@.pgsync_status(
	OUT stream pg_catalog.int4,
	OUT state pg_catalog.text,
	OUT phase pg_catalog.text,
	OUT phase_since pg_catalog.timestamptz,
	OUT pid pg_catalog.int4,
	OUT slot_name pg_catalog.text,
	OUT wal_status pg_catalog.text,
	OUT safe_wal_size pg_catalog.int8,
	OUT retained_bytes pg_catalog.int8,
	OUT decoded_lsn pg_catalog.pg_lsn,
	OUT stored_lsn pg_catalog.pg_lsn,
	OUT checkpoint_lsn pg_catalog.pg_lsn,
	OUT confirmed_lsn pg_catalog.pg_lsn,
	OUT lag_bytes pg_catalog.int8,
	OUT lag_seconds pg_catalog.float8,
	OUT checkpoint pg_catalog.int8,
	OUT checkpoint_time pg_catalog.timestamptz,
	OUT copy_table pg_catalog.text,
	OUT copy_tables_done pg_catalog.int4,
	OUT copy_tables_total pg_catalog.int4,
	OUT copy_rows_done pg_catalog.int8,
	OUT copy_rows_estimated pg_catalog.int8,
	OUT transactions pg_catalog.int8,
	OUT rows pg_catalog.int8,
	OUT ops pg_catalog.int8,
	OUT rejected_rows pg_catalog.int8,
	OUT rereads pg_catalog.int8,
	OUT evaluation_errors pg_catalog.int8,
	OUT wakeups pg_catalog.int8,
	OUT last_activity pg_catalog.timestamptz,
	OUT last_error pg_catalog.text,
	OUT last_error_sqlstate pg_catalog.text,
	OUT last_error_time pg_catalog.timestamptz,
	OUT failures pg_catalog.int4,
	OUT next_retry pg_catalog.timestamptz,
	OUT waits_for_pid pg_catalog.int4,
	OUT waits_for pg_catalog.text,
	OUT hint pg_catalog.text)
RETURNS SETOF pg_catalog.record
LANGUAGE sql VOLATILE STRICT PARALLEL UNSAFE
BEGIN ATOMIC
	WITH wal AS (
		SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
					THEN pg_catalog.pg_last_wal_replay_lsn()
					ELSE pg_catalog.pg_current_wal_flush_lsn()
			   END AS flushed,
			   pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_slot_wal_keep_size')) AS keep
	)
	SELECT w.stream, w.state, w.phase, w.phase_since, w.pid, w.slot_name,
		   s.wal_status, s.safe_wal_size,
		   pg_catalog.pg_wal_lsn_diff(GREATEST(wal.flushed, s.restart_lsn), s.restart_lsn)::pg_catalog.int8,
		   w.decoded_lsn, w.stored_lsn, w.checkpoint_lsn,
		   COALESCE(w.confirmed_lsn, s.confirmed_flush_lsn),
		   pg_catalog.pg_wal_lsn_diff(GREATEST(wal.flushed, w.checkpoint_lsn), w.checkpoint_lsn)::pg_catalog.int8,
		   w.lag_seconds, w.checkpoint, w.checkpoint_time,
		   w.copy_table, w.copy_tables_done, w.copy_tables_total,
		   w.copy_rows_done, w.copy_rows_estimated,
		   w.transactions, w.rows, w.ops, w.rejected_rows, w.rereads, w.evaluation_errors,
		   w.wakeups, w.last_activity,
		   w.last_error, w.last_error_sqlstate, w.last_error_time, w.failures, w.next_retry,
		   NULLIF(blocker.pid, 0),
		   CASE WHEN blocker.pid = 0 THEN 'prepared transaction ' || pg_catalog.quote_literal(blocker.gid)
				WHEN blocker.pid IS NOT NULL
				THEN 'transaction of process ' || blocker.pid
					 || COALESCE(' in database ' || pg_catalog.quote_ident(blocker.datname), '')
					 || COALESCE(', ' || blocker.state, '')
					 || COALESCE(', begun ' || blocker.xact_start, '')
				ELSE w.waits_for
		   END,
		   CASE WHEN w.phase = 'slot of no stream' THEN w.hint
				WHEN s.wal_status = 'lost'
				THEN 'WAL that this slot needs was removed. A new stream copies all tables: it is made when replication goes on'
					 ' (pgsync_start()), or by pgsync_deploy(). Raise max_slot_wal_keep_size.'
				WHEN s.wal_status = 'unreserved'
				THEN 'WAL that this slot needs is about to be removed: raise max_slot_wal_keep_size at once.'
				WHEN w.hint IS NOT NULL THEN w.hint
				WHEN s.safe_wal_size < wal.keep / 2
				THEN 'More than half of max_slot_wal_keep_size is used up: the slot will be lost if replication does not go on.'
		   END
	  FROM @extschema@.pgsync_worker_status() AS w
		   CROSS JOIN wal
		   LEFT JOIN pg_catalog.pg_replication_slots AS s
				  ON s.slot_name = w.slot_name::pg_catalog.name
		   -- whose end a new slot, the copy's first snapshot, or reading rows again waits for
		   LEFT JOIN LATERAL (
				SELECT b.pid, a.datname, a.state, a.xact_start, p.gid
				  FROM pg_catalog.unnest(ARRAY[w.waits_for_pid, CASE WHEN w.waits_for_xid IS NOT NULL THEN 0 END]
										 || pg_catalog.pg_blocking_pids(w.pid)) AS b(pid)
					   LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = b.pid
					   LEFT JOIN pg_catalog.pg_locks AS l
							  ON l.pid = w.pid AND NOT l.granted AND l.locktype = 'transactionid'
					   LEFT JOIN pg_catalog.pg_prepared_xacts AS p
							  ON b.pid = 0 AND p.transaction = COALESCE(w.waits_for_xid, l.transactionid)
				 WHERE b.pid IS NOT NULL
				 LIMIT 1) AS blocker
				  ON w.phase IN ('creating slot', 'copying', 'catching up', 'streaming')
	 ORDER BY w.stream;
END;

COMMENT ON FUNCTION @extschema@.pgsync_status() IS
'one row for each replication stream of this database: state, positions, progress, errors, and what can be done';

-- ---------------------------------------------------------------- what is stored

CREATE FUNCTION @extschema@.pgsync_stored_rejected_rows(
	OUT stream pg_catalog.int4,
	OUT schema_name pg_catalog.text,
	OUT table_name pg_catalog.text,
	OUT row_key pg_catalog.text,
	OUT reason pg_catalog.text,
	OUT lsn pg_catalog.pg_lsn,
	OUT rejected_at pg_catalog.timestamptz)
RETURNS SETOF pg_catalog.record
AS '$libdir/pgsync_worker', 'pgsync_stored_rejected_rows'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION @extschema@.pgsync_stored_rejected_rows() IS
'what the view pgsync_rejected_rows reads from MongoDB';

CREATE VIEW @extschema@.pgsync_rejected_rows AS
	SELECT r.stream, r.schema_name, r.table_name, r.row_key, r.reason, r.lsn, r.rejected_at
	  FROM @extschema@.pgsync_stored_rejected_rows() AS r;

COMMENT ON VIEW @extschema@.pgsync_rejected_rows IS
'rows that could not be stored as they are, the latest 1,000 of each replication stream; a row leaves when it is stored, or deleted';

-- ---------------------------------------------------------------- privileges
-- Nothing is for everyone; whoever may control replication is the administrator's
-- decision.  Monitoring may look.

REVOKE ALL ON FUNCTION @extschema@.pgsync_start() FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_stop(pg_catalog.bool) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_wait_for_lsn(pg_catalog.pg_lsn, pg_catalog.interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_validate(pg_catalog.text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_evaluate(pg_catalog.text, pg_catalog.regclass, pg_catalog.jsonb, pg_catalog.int4) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_deploy(pg_catalog.text) FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_adopt() FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_worker_status() FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_status() FROM PUBLIC;
REVOKE ALL ON FUNCTION @extschema@.pgsync_stored_rejected_rows() FROM PUBLIC;

GRANT EXECUTE ON FUNCTION @extschema@.pgsync_worker_status() TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.pgsync_status() TO pg_monitor;
GRANT EXECUTE ON FUNCTION @extschema@.pgsync_stored_rejected_rows() TO pg_monitor;
GRANT SELECT ON @extschema@.pgsync_rejected_rows TO pg_monitor;
