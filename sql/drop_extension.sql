-- DROP EXTENSION switches replication off, with the transaction that does it.
CREATE EXTENSION pgsync;
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri = 'mongodb://127.0.0.1:1/';
ALTER DATABASE contrib_regression SET pgsync.mongodb_database = 'powersync';
SELECT pgsync_start();

BEGIN;
DROP EXTENSION pgsync;
SELECT count(*) FROM pg_seclabels WHERE provider = 'pgsync';
ROLLBACK;
SELECT count(*) FROM pg_seclabels WHERE provider = 'pgsync';
SELECT pgsync_start() ~ '^already started' AS again;

BEGIN;
SAVEPOINT before;
DROP EXTENSION pgsync;
ROLLBACK TO before;
COMMIT;
SELECT count(*) FROM pg_seclabels WHERE provider = 'pgsync';

-- also when it goes with its schema
DROP EXTENSION pgsync;
SELECT count(*) FROM pg_seclabels WHERE provider = 'pgsync';
CREATE SCHEMA sync;
CREATE EXTENSION pgsync SCHEMA sync;
SELECT sync.pgsync_start();
DROP SCHEMA sync CASCADE;
SELECT count(*) FROM pg_seclabels WHERE provider = 'pgsync';

-- another extension's end changes nothing
CREATE EXTENSION pgsync;
SELECT pgsync_start();
DROP EXTENSION plpgsql;
CREATE EXTENSION plpgsql;
SELECT count(*) FROM pg_seclabels WHERE provider = 'pgsync';
DROP EXTENSION pgsync;
ALTER DATABASE contrib_regression RESET ALL;
