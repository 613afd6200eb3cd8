-- A URI with a password is refused as a setting, without being shown.
SET pgsync.mongodb_uri = 'mongodb://user:canary@host/';
SET pgsync.mongodb_uri = 'mongodb+srv://user:canary@host';
SET pgsync.mongodb_uri = 'MONGODB://user:canary@host';
SET pgsync.mongodb_uri = 'mongodb://user:can/ary@host/';
SET pgsync.mongodb_uri = 'mongodb://user:can?ary@host/';
SET pgsync.mongodb_uri = 'mongodb://user:can@ary@host/';
SET pgsync.mongodb_uri = 'mongodb://:canary@host/';
SET pgsync.mongodb_uri = 'mongodb://host/?tlsCertificateKeyFilePassword=canary';
SET pgsync.mongodb_uri = 'mongodb://host/?authMechanismProperties=AWS_SESSION_TOKEN:canary';
SET pgsync.mongodb_uri = 'postgres://user:canary@host/';
SET pgsync.mongodb_uri = 'user:canary@host';
ALTER SYSTEM SET pgsync.mongodb_uri = 'mongodb://user:canary@host/';
ALTER DATABASE contrib_regression SET pgsync.mongodb_uri = 'mongodb://user:canary@host/';
SHOW pgsync.mongodb_uri;

-- nor may it get into a neighbour by mistake
SET pgsync.mongodb_uri_file = 'mongodb://user:canary@host/';
SET pgsync.mongodb_database = 'mongodb://user:canary@host/';

-- without a password it is fine, and not shown to everyone
SET pgsync.mongodb_uri = 'mongodb://host1:27017,host2:27018/?replicaSet=rs0&tls=true';
SHOW pgsync.mongodb_uri;
SET pgsync.mongodb_uri = 'mongodb://user@host:27017/?authMechanism=MONGODB-X509';
SHOW pgsync.mongodb_uri;
SELECT count(*) FROM pg_settings WHERE name = 'pgsync.mongodb_uri';
RESET pgsync.mongodb_uri;

