-- A database can be renamed, moved, copied and dropped while it is replicated.
CREATE DATABASE regress_pgsync;
ALTER DATABASE regress_pgsync SET pgsync.mongodb_uri = 'mongodb://127.0.0.1:1/';
ALTER DATABASE regress_pgsync SET pgsync.mongodb_database = 'powersync';
\c regress_pgsync
CREATE EXTENSION pgsync;
SELECT pgsync_start();
\c contrib_regression

ALTER DATABASE regress_pgsync RENAME TO regress_pgsync_renamed;
BEGIN;
ALTER DATABASE regress_pgsync_renamed RENAME TO regress_pgsync;
ROLLBACK;
CREATE DATABASE regress_pgsync_copy TEMPLATE regress_pgsync_renamed;
ALTER DATABASE regress_pgsync_renamed SET TABLESPACE pg_default;
SELECT objname, split_part(label, ' ', 1) AS label FROM pg_seclabels WHERE provider = 'pgsync';

-- the copy has the extension, but is not replicated
\c regress_pgsync_copy
SELECT count(*) FROM pgsync_status();
SELECT pgsync_stop();
\c contrib_regression
DROP DATABASE regress_pgsync_copy;

DROP DATABASE regress_pgsync_renamed;
SELECT count(*) FROM pg_shseclabel WHERE provider = 'pgsync';
SELECT count(*) FROM pg_replication_slots;
