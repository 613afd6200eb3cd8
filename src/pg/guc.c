/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  Every setting of pgsync, its limits and its checks.
 *
 * What belongs to one database (where its MongoDB is, which publication) is
 * set with ALTER DATABASE ... SET; workers see it when they start.
 *
 * Invariant: the refusal of what may be a MongoDB URI shows nothing of it,
 * neither in the message nor in the logged statement.
 *
 *-------------------------------------------------------------------------
 */
#include "preload.h"

#include <ctype.h>
#include <limits.h>

#include "miscadmin.h"

/* the server's own message shows the value; this one is known to hide_refused_value() */
#define REFUSED_BEGIN	"value of setting \"pgsync."
#define REFUSED_END		"\" was refused"

static char *mongodb_uri_file;
static char *mongodb_uri;
static char *mongodb_database;
static char *publication;
static char *slot_prefix;
static char *cluster_id;
static int	queue_size;
static int	connect_timeout;
static int	storage_timeout;
static int	server_selection_timeout;
static int	restart_delay_max;
static int	copy_chunk_size;
static int	row_limit;
static bool flush_asynchronous_commits;
static bool allow_password_in_uri_setting;
static int	max_workers;

static emit_log_hook_type previous_emit_log_hook = NULL;

int
max_workers_setting(void)
{
	return max_workers;
}

static bool
starts_with(const char *s, const char *prefix)
{
	return pg_strncasecmp(s, prefix, strlen(prefix)) == 0;
}

static bool
contains(const char *s, const char *word)
{
	for (; *s; s++)
	{
		if (starts_with(s, word))
			return true;
	}
	return false;
}

/*
 * Is there any secret in the URI?  In doubt yes: what stands between the
 * scheme and the last '@' counts as user and password, also when a password
 * with unescaped '/' or '?' makes the URI invalid.
 */
static bool
uri_has_secret(const char *uri)
{
	const char *user = strstr(uri, "://") + 3;
	const char *at = strrchr(user, '@');

	if (at != NULL && memchr(user, ':', at - user) != NULL)
		return true;
	return contains(user, "password=") || contains(user, "aws_session_token");
}

static bool
check_mongodb_uri(char **newval, void **extra, GucSource source)
{
	const char *uri = *newval;

	if (uri == NULL || uri[0] == '\0')
		return true;
	if (!starts_with(uri, "mongodb://") && !starts_with(uri, "mongodb+srv://"))
	{
		GUC_check_errmsg(REFUSED_BEGIN "mongodb_uri" REFUSED_END);
		GUC_check_errdetail("A MongoDB URI begins with \"mongodb://\" or \"mongodb+srv://\".");
		return false;
	}
	if (!uri_has_secret(uri))
		return true;
	if (!allow_password_in_uri_setting)
	{
		GUC_check_errmsg(REFUSED_BEGIN "mongodb_uri" REFUSED_END);
		GUC_check_errdetail("The URI seems to hold a password; settings are logged and can be read by others.");
		GUC_check_errhint("Write the URI to a file that only the server's user can read, and name it in \"pgsync.mongodb_uri_file\"; or set \"pgsync.allow_password_in_uri_setting\".");
		return false;
	}
	/* ALTER DATABASE or ALTER ROLE: it goes to a catalog that everyone can read */
	if (source == PGC_S_TEST)
		ereport(WARNING,
				(errmsg("every user of the server can read this password in pg_db_role_setting"),
				 errhint("Use \"pgsync.mongodb_uri_file\" instead."),
				 errhidestmt(true)));
	return true;
}

/* The server would log the statement, and so the value, with our refusal. */
static void
hide_refused_value(ErrorData *edata)
{
	if (edata->message != NULL && starts_with(edata->message, REFUSED_BEGIN) &&
		contains(edata->message, REFUSED_END))
	{
		edata->hide_stmt = true;
		edata->hide_ctx = true;
	}
	if (previous_emit_log_hook)
		previous_emit_log_hook(edata);
}

static bool
check_uri_file(char **newval, void **extra, GucSource source)
{
	const char *path = *newval;

	if (path == NULL || path[0] == '\0' || is_absolute_path(path))
		return true;
	if (strstr(path, "://") != NULL)
	{
		GUC_check_errmsg(REFUSED_BEGIN "mongodb_uri_file" REFUSED_END);
		GUC_check_errdetail("It is the path of a file that holds the URI, not the URI itself.");
		return false;
	}
	GUC_check_errdetail("The path must be absolute.");
	return false;
}

/* MongoDB's own rules for database names, the stricter of its platforms */
static bool
check_mongodb_database(char **newval, void **extra, GucSource source)
{
	const char *name = *newval;

	if (name == NULL || name[0] == '\0')
		return true;
	if (strstr(name, "://") != NULL)
	{
		GUC_check_errmsg(REFUSED_BEGIN "mongodb_database" REFUSED_END);
		GUC_check_errdetail("It is the name of a database, not a URI.");
		return false;
	}
	if (strlen(name) > 63 || strpbrk(name, "/\\. \"$*<>:|?") != NULL)
	{
		GUC_check_errdetail("A MongoDB database name has at most 63 bytes and none of the characters /\\. \"$*<>:|?");
		return false;
	}
	return true;
}

static bool
check_publication(char **newval, void **extra, GucSource source)
{
	if (*newval == NULL || strlen(*newval) < NAMEDATALEN)
		return true;
	GUC_check_errdetail("A publication's name has at most %d bytes.", NAMEDATALEN - 1);
	return false;
}

/* A slot's name goes on with the stream's number and four digits. */
static bool
check_slot_prefix(char **newval, void **extra, GucSource source)
{
	const char *prefix = *newval;
	size_t		len = prefix ? strlen(prefix) : 0;

	if (len > 0 && len <= 40 && strspn(prefix, "abcdefghijklmnopqrstuvwxyz0123456789_") == len)
		return true;
	GUC_check_errdetail("A slot prefix has 1 to 40 lower-case letters, digits and underscores.");
	return false;
}

static bool
check_cluster_id(char **newval, void **extra, GucSource source)
{
	const char *id = *newval;
	size_t		len = id ? strlen(id) : 0;

	if (len > 200)
	{
		GUC_check_errdetail("A cluster identifier has at most 200 bytes.");
		return false;
	}
	for (size_t i = 0; i < len; i++)
	{
		if (!isgraph((unsigned char) id[i]) || (id[i] & 0x80) != 0)
		{
			GUC_check_errdetail("A cluster identifier holds printable ASCII without spaces.");
			return false;
		}
	}
	return true;
}

static void
define_database_settings(void)
{
	DefineCustomStringVariable("pgsync.mongodb_uri_file",
							   "Sets the file that holds the URI of this database's MongoDB.",
							   "Only the server's operating system user needs to read it. Workers read it when they start.",
							   &mongodb_uri_file, "", PGC_SUSET, GUC_SUPERUSER_ONLY,
							   check_uri_file, NULL, NULL);
	/* before the URI itself, whose check looks at it */
	DefineCustomBoolVariable("pgsync.allow_password_in_uri_setting",
							 "Allows a password in pgsync.mongodb_uri.",
							 "The server's log and its catalogs may then show the password.",
							 &allow_password_in_uri_setting, false, PGC_SIGHUP, GUC_SUPERUSER_ONLY,
							 NULL, NULL, NULL);
	DefineCustomStringVariable("pgsync.mongodb_uri",
							   "Sets the URI of this database's MongoDB, if it needs no password.",
							   "The file named by pgsync.mongodb_uri_file has precedence.",
							   &mongodb_uri, "", PGC_SUSET,
							   GUC_NO_SHOW_ALL | GUC_SUPERUSER_ONLY | GUC_NOT_IN_SAMPLE,
							   check_mongodb_uri, NULL, NULL);
	DefineCustomStringVariable("pgsync.mongodb_database",
							   "Sets the name of the MongoDB database that this database's buckets go to.",
							   "It must be the one that the PowerSync API is configured with.",
							   &mongodb_database, "", PGC_SUSET, GUC_SUPERUSER_ONLY,
							   check_mongodb_database, NULL, NULL);
	DefineCustomStringVariable("pgsync.publication",
							   "Sets the publication that limits what this database replicates.",
							   "If it does not exist, every table that the rules name is replicated, with a warning; empty says so without one.",
							   &publication, "powersync", PGC_SUSET, 0,
							   check_publication, NULL, NULL);
	DefineCustomStringVariable("pgsync.slot_prefix",
							   "Sets the beginning of the names of replication slots.",
							   NULL,
							   &slot_prefix, "powersync_", PGC_SUSET, 0,
							   check_slot_prefix, NULL, NULL);
	DefineCustomStringVariable("pgsync.cluster_id",
							   "Sets an identifier of this server that stays the same when it moves.",
							   "Without it, host name and data directory tell a copy of the server from the original.",
							   &cluster_id, "", PGC_SIGHUP, 0,
							   check_cluster_id, NULL, NULL);
}

static void
define_limits(void)
{
	DefineCustomIntVariable("pgsync.queue_size",
							"Sets how much a worker may keep in memory for MongoDB before it stops reading.",
							NULL,
							&queue_size, 32 * 1024, 1024, 1024 * 1024, PGC_SUSET, GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgsync.connect_timeout",
							"Sets the time allowed for connecting to a MongoDB server.",
							NULL,
							&connect_timeout, 10 * 1000, 100, 300 * 1000, PGC_SUSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgsync.storage_timeout",
							"Sets the time allowed for an answer from MongoDB.",
							NULL,
							&storage_timeout, 20 * 1000, 100, 600 * 1000, PGC_SUSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgsync.server_selection_timeout",
							"Sets the time allowed for finding a primary of the MongoDB replica set.",
							NULL,
							&server_selection_timeout, 10 * 1000, 100, 300 * 1000, PGC_SUSET,
							GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pgsync.restart_delay_max",
							"Sets the longest time between attempts to start a worker that failed.",
							"The first attempt follows after 0.2 seconds, each further one later.",
							&restart_delay_max, 10 * 1000, 200, 3600 * 1000, PGC_SIGHUP,
							GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("pgsync.copy_chunk_size",
							"Sets how much of a table the initial copy reads in one transaction.",
							NULL,
							&copy_chunk_size, 4 * 1024, 64, 1024 * 1024, PGC_SUSET, GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomIntVariable("pgsync.row_limit",
							"Sets the size of a row above which it is rejected.",
							"MongoDB's documents are limited to 16 MB.",
							&row_limit, 15 * 1024, 16, 15 * 1024, PGC_SUSET, GUC_UNIT_KB,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("pgsync.flush_asynchronous_commits",
							 "Makes a worker flush the write-ahead log for commits that do not wait for it.",
							 "They are then replicated at once rather than after wal_writer_delay, at the price of a flush each time.",
							 &flush_asynchronous_commits, false, PGC_SUSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("pgsync.max_workers",
							"Sets the number of replication streams that can run at the same time in all databases.",
							"Each takes one of max_worker_processes.",
							&max_workers, 8, 1, PGSYNC_MAX_WORKERS, PGC_POSTMASTER, 0,
							NULL, NULL, NULL);
}

void
guc_init(PgsyncSettings *settings)
{
	define_database_settings();
	define_limits();
	MarkGUCPrefixReserved("pgsync");

	previous_emit_log_hook = emit_log_hook;
	emit_log_hook = hide_refused_value;

	*settings = (PgsyncSettings)
	{
		.mongodb_uri_file = &mongodb_uri_file,
		.mongodb_uri = &mongodb_uri,
		.mongodb_database = &mongodb_database,
		.publication = &publication,
		.slot_prefix = &slot_prefix,
		.cluster_id = &cluster_id,
		.queue_size = &queue_size,
		.connect_timeout = &connect_timeout,
		.storage_timeout = &storage_timeout,
		.server_selection_timeout = &server_selection_timeout,
		.restart_delay_max = &restart_delay_max,
		.copy_chunk_size = &copy_chunk_size,
		.row_limit = &row_limit,
		.flush_asynchronous_commits = &flush_asynchronous_commits,
		.allow_password_in_uri_setting = &allow_password_in_uri_setting
	};
}
