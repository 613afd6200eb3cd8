-- Settings: who may set them, and what they refuse.
SELECT name, context, vartype, unit, boot_val, min_val, max_val
  FROM pg_settings WHERE name LIKE 'pgsync.%' ORDER BY name COLLATE "C";
SELECT count(*) AS without_sentence
  FROM pg_settings WHERE name LIKE 'pgsync.%' AND short_desc !~ '^[A-Z].*\.$';

SET pgsync.no_such_setting = 1;
SET pgsync.max_workers = 1;
SET pgsync.restart_delay_max = 1000;

SET pgsync.mongodb_uri_file = 'relative/path';
SET pgsync.mongodb_database = 'with space';
SELECT set_config('pgsync.mongodb_database', repeat('x', 64), false);
SELECT set_config('pgsync.publication', repeat('x', 64), false);
SET pgsync.slot_prefix = 'Upper_';
SET pgsync.slot_prefix = '';
\set VERBOSITY sqlstate
SET pgsync.queue_size = '1kB';
SET pgsync.row_limit = '16MB';
\set VERBOSITY default

SET pgsync.mongodb_uri_file = '/etc/pgsync/uri';
SET pgsync.mongodb_database = 'powersync';
SET pgsync.publication = '';
SET pgsync.slot_prefix = 'sync_2_';
SET pgsync.queue_size = '64MB';
SHOW pgsync.queue_size;

-- where MongoDB is, is for superusers
CREATE ROLE regress_pgsync_nobody;
SET ROLE regress_pgsync_nobody;
\set VERBOSITY sqlstate
SHOW pgsync.mongodb_uri_file;
SHOW pgsync.mongodb_uri;
SHOW pgsync.mongodb_database;
SET pgsync.publication = 'other';
SET pgsync.mongodb_uri = 'mongodb://elsewhere/';
\set VERBOSITY default
RESET ROLE;
DROP ROLE regress_pgsync_nobody;
