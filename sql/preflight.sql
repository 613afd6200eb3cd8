-- pgsync_start() says what is missing, each with what to do about it.
CREATE EXTENSION pgsync;
SELECT pgsync_start();
SELECT pgsync_deploy('');
SELECT pgsync_deploy(NULL);
SELECT pgsync_deploy($$bucket_definitions: {g: {data: ['SELECT * FROM t']}}$$);
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri_file = '/nonexistent/uri';
SELECT pgsync_start();
ALTER DATABASE contrib_regression RESET pgsync.mongodb_uri_file;
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri = 'mongodb://127.0.0.1:1/';
SELECT pgsync_start();
SELECT pgsync_deploy($$bucket_definitions: {g: {data: ['SELECT * FROM t']}}$$);

-- what this session was told does not matter, the database's settings do
SET pgsync.mongodb_database = 'powersync';
BEGIN;
SELECT pgsync_start();
ROLLBACK;
RESET pgsync.mongodb_database;
ALTER DATABASE contrib_regression SET pgsync.mongodb_database = 'powersync';
BEGIN;
SELECT pgsync_start();
ROLLBACK;
SET pgsync.mongodb_uri = '';
BEGIN;
SELECT pgsync_start();
ROLLBACK;

BEGIN READ ONLY;
SELECT pgsync_start();
ROLLBACK;

-- as every worker needs it
CREATE DATABASE regress_pgsync_latin1 TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C';
\c regress_pgsync_latin1
CREATE EXTENSION pgsync;
SELECT pgsync_start();
\c contrib_regression
DROP DATABASE regress_pgsync_latin1;

-- no free slot, and none of ours to go on with
SELECT count(pg_create_logical_replication_slot('other_' || i, 'pgoutput'))
  FROM generate_series(1, current_setting('max_replication_slots')::int) AS i;
SELECT pgsync_start();
SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots;

-- none of them writes from a transaction that may not
BEGIN READ ONLY;
SELECT pgsync_deploy($$bucket_definitions: {}$$);
ROLLBACK;
BEGIN READ ONLY;
SELECT pgsync_adopt();
ROLLBACK;

-- nothing of all this has left anything behind
SELECT count(*) FROM pg_seclabels WHERE provider = 'pgsync';
SELECT count(*) FROM pgsync_status();

ALTER DATABASE contrib_regression RESET ALL;
DROP EXTENSION pgsync;
