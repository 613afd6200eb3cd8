-- The switch is a security label: what pg_dump writes is accepted, nothing else.
SECURITY LABEL FOR pgsync ON DATABASE contrib_regression IS 'off';
SELECT objtype, objname, provider, label FROM pg_seclabels WHERE provider = 'pgsync';
SECURITY LABEL FOR pgsync ON DATABASE contrib_regression IS 'maybe';
SECURITY LABEL FOR pgsync ON DATABASE contrib_regression IS '';
SECURITY LABEL FOR pgsync ON DATABASE contrib_regression IS 'on 0/x';
SECURITY LABEL FOR pgsync ON DATABASE contrib_regression IS 'off 1/2A';
SELECT label FROM pg_seclabels WHERE provider = 'pgsync';
SECURITY LABEL FOR pgsync ON SCHEMA public IS 'on';
SECURITY LABEL FOR pgsync ON DATABASE contrib_regression IS NULL;
SELECT count(*) FROM pg_seclabels WHERE provider = 'pgsync';

-- an owner of a database is not enough
CREATE ROLE regress_pgsync_owner;
CREATE DATABASE regress_pgsync_owned OWNER regress_pgsync_owner;
SET ROLE regress_pgsync_owner;
SECURITY LABEL FOR pgsync ON DATABASE regress_pgsync_owned IS 'on';
RESET ROLE;

-- the label goes with its database, and is not copied
SECURITY LABEL FOR pgsync ON DATABASE regress_pgsync_owned IS 'off';
CREATE DATABASE regress_pgsync_copy TEMPLATE regress_pgsync_owned;
SELECT objname FROM pg_seclabels WHERE provider = 'pgsync';
DROP DATABASE regress_pgsync_owned;
SELECT count(*) FROM pg_shseclabel WHERE provider = 'pgsync';
DROP DATABASE regress_pgsync_copy;
DROP ROLE regress_pgsync_owner;
