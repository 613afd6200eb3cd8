-- Starting and stopping is a transactional, durable switch of the database.
CREATE EXTENSION pgsync;
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri = 'mongodb://127.0.0.1:1/';
ALTER DATABASE contrib_regression SET pgsync.mongodb_database = 'powersync';
CREATE VIEW switch AS
	SELECT regexp_replace(label, ' [0-9A-F]+/[0-9A-F]+$', ' (lsn)') AS label FROM pg_seclabels WHERE provider = 'pgsync' AND objtype = 'database'
	   AND objoid = (SELECT oid FROM pg_database WHERE datname = current_database());

SELECT pgsync_stop();
SELECT * FROM switch;

-- rolled back: nothing has happened
BEGIN;
SELECT pgsync_start();
SELECT * FROM switch;
SELECT state, phase, slot_name, retained_bytes, lag_bytes, hint FROM pgsync_status();
SELECT pgsync_start();
SELECT pgsync_stop();
SELECT * FROM switch;
SELECT state, phase, slot_name, retained_bytes, lag_bytes, hint FROM pgsync_status();
SELECT pgsync_stop();
SELECT pgsync_start();
SELECT pgsync_stop(drop_slot => true);
SELECT * FROM switch;
SELECT count(*) FROM pgsync_status();
ROLLBACK;
SELECT * FROM switch;
SELECT count(*) FROM pgsync_status();

-- committed: it stays, also for other sessions
SELECT pgsync_start();
SELECT pgsync_start() ~ '^already started(; trying again now)?$' AS again;
\c -
SELECT * FROM switch;
SELECT count(*) FROM pgsync_status();
SELECT pgsync_stop();
SELECT pgsync_stop();
SELECT * FROM switch;

-- in one statement: each sees what the one before it did
SELECT pgsync_start(), pgsync_stop(), pgsync_stop() AS again, pgsync_start() AS last;
SELECT * FROM switch;

SELECT pgsync_stop(true);
SELECT * FROM switch;
SELECT pgsync_stop(true);

DROP VIEW switch;
ALTER DATABASE contrib_regression RESET ALL;
DROP EXTENSION pgsync;
