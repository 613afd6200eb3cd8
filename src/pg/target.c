/*-------------------------------------------------------------------------
 *
 * target.c
 *	  Where the current database replicates to: the MongoDB URI from its
 *	  file or setting, the MongoDB database, and what the database itself
 *	  must be like.
 *
 * Part of both libraries, so that pgsync_start() refuses in the same words
 * what a worker or pgsync_deploy() would.  It connects to nothing; whether the
 * text is a URI, the driver says.
 *
 * Invariant: no message shows anything of what the file holds, and no file
 * that a setting can name keeps the server waiting.
 *
 *-------------------------------------------------------------------------
 */
#include "pgsync.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/dbcommands.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"

#define URI_FILE_LIMIT	65536

#define URI_FORM		"mongodb://user:password@host1,host2/?replicaSet=name"

/* a user's name, or its number where it has none; palloc'd */
static char *
user_name(uid_t uid)
{
	struct passwd *user = getpwuid(uid);

	return user != NULL ? pstrdup(user->pw_name) : psprintf("%u", (unsigned int) uid);
}

static void
check_owner_and_mode(const char *path, const struct stat *st)
{
	unsigned int mode = st->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO);

	if (!S_ISREG(st->st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("MongoDB URI file \"%s\" is not a regular file", path),
				 errhint("\"pgsync.mongodb_uri_file\" must name a file that holds the URI and nothing else.")));
	if (st->st_uid != geteuid() && st->st_uid != 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("MongoDB URI file \"%s\" has the wrong owner", path),
				 errdetail("It belongs to user \"%s\", and must belong to \"%s\" or to root.",
						   user_name(st->st_uid), user_name(geteuid())),
				 errhint("Run 'chown %s \"%s\"'.", user_name(geteuid()), path)));
	/* the same rule as for the server's private key */
	if ((st->st_uid == geteuid() && (mode & (S_IRWXG | S_IRWXO))) ||
		(st->st_uid != geteuid() && (mode & (S_IWGRP | S_IXGRP | S_IRWXO))))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("MongoDB URI file \"%s\" has too wide permissions", path),
				 errdetail("Its mode is %04o, and must be %s or less.", mode,
						   st->st_uid == geteuid() ? "0600" : "0640, as root owns it,"),
				 errhint("Run 'chmod %s \"%s\"'.", st->st_uid == geteuid() ? "0600" : "0640", path)));
}

static void
open_failed(const char *path, const struct stat *st)
{
	int			number = errno;

	ereport(ERROR,
			(errcode_for_file_access(),
			 errmsg("could not open MongoDB URI file \"%s\": %m", path),
			 number == EACCES && st != NULL ?
			 errhint("Run 'chown %s \"%s\" && chmod 0600 \"%s\"'.", user_name(geteuid()), path, path) :
			 errhint("\"pgsync.mongodb_uri_file\" must name a file that the server's user can read.")));
}

/* What is in the file besides a URI, in words; NULL: nothing that is known from here. */
static const char *
foreign_text(const char *text, size_t len)
{
	if (strlen(text) != len)
		return "It holds a null byte.";
	if (strpbrk(text, "\r\n") != NULL)
		return "It has several lines.";
	if (text[0] == '"' || text[0] == '\'')
		return "It begins with a quotation mark.";
	if (text[0] == '#')
		return "It begins with a comment.";
	if (strncmp(text, "\xEF\xBB\xBF", 3) == 0)
		return "It begins with a byte order mark.";
	return NULL;
}

/* Cuts white space at the end; wiped before it is refused.  text: has room for one byte more */
static void
check_uri_text(const char *path, char *text, size_t len)
{
	const char *foreign;
	bool		too_large = len == URI_FILE_LIMIT;

	while (len > 0 && isspace((unsigned char) text[len - 1]))
		len--;
	text[len] = '\0';
	foreign = foreign_text(text, len);
	if (too_large || len == 0 || foreign != NULL)
		explicit_bzero(text, URI_FILE_LIMIT);
	if (too_large)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("MongoDB URI file \"%s\" is too large", path),
				 errdetail("It must hold one URI of less than %d bytes.", URI_FILE_LIMIT)));
	if (len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("MongoDB URI file \"%s\" is empty", path),
				 errhint("Write the URI to it, in one line, in the form \"" URI_FORM "\".")));
	if (foreign != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("MongoDB URI file \"%s\" must contain the URI and nothing else", path),
				 errdetail_internal("%s", foreign),
				 errhint("Write the URI to it, in one line and without quotation marks, in the form \"" URI_FORM "\".")));
}

/* The URI from the file that the setting names; palloc'ed. */
static char *
read_uri_file(const char *path)
{
	struct stat st;
	int			fd;
	char	   *text;
	size_t		len = 0;
	ssize_t		n;

	if (!is_absolute_path(path))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("\"pgsync.mongodb_uri_file\" is not an absolute path"),
				 errdetail("The setting is \"%s\".", path),
				 errhint("Give the whole path, beginning with a slash.")));
	/* before it is opened: opening something else can wait, or do something */
	if (stat(path, &st) != 0)
		open_failed(path, NULL);
	check_owner_and_mode(path, &st);
	fd = OpenTransientFile(path, O_RDONLY | O_NONBLOCK | PG_BINARY);
	if (fd < 0)
		open_failed(path, &st);
	if (fstat(fd, &st) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat MongoDB URI file \"%s\": %m", path)));
	check_owner_and_mode(path, &st);

	text = palloc(URI_FILE_LIMIT + 1);
	while (len < URI_FILE_LIMIT && (n = read(fd, text + len, URI_FILE_LIMIT - len)) != 0)
	{
		if (n < 0 && errno != EINTR)
		{
			int			number = errno;

			explicit_bzero(text, URI_FILE_LIMIT);
			errno = number;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read MongoDB URI file \"%s\": %m", path)));
		}
		if (n > 0)
			len += n;
	}
	CloseTransientFile(fd);
	check_uri_text(path, text, len);
	return text;
}

/* What the database has now, also if this session began before it was set; NULL: nothing. */
static char *
present_setting(const char *name, char *const *variable)
{
	char	   *value = pgsync_database_setting(name, *variable);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

char *
target_uri(const PgsyncSettings *settings)
{
	const char *database = get_database_name(MyDatabaseId);
	char	   *file = present_setting("pgsync.mongodb_uri_file", settings->mongodb_uri_file);
	char	   *uri;

	if (file != NULL)
		return read_uri_file(file);
	uri = present_setting("pgsync.mongodb_uri", settings->mongodb_uri);
	if (uri == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no MongoDB server is configured for database \"%s\"", database),
				 errhint("Write its URI to a file that only the server's user can read, then run \"ALTER DATABASE %s SET pgsync.mongodb_uri_file = '/path/of/the/file'\".",
						 quote_identifier(database))));
	return uri;
}

char *
target_database(const PgsyncSettings *settings)
{
	const char *database = get_database_name(MyDatabaseId);
	char	   *name = present_setting("pgsync.mongodb_database", settings->mongodb_database);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no MongoDB database is configured for database \"%s\"", database),
				 errdetail("It must be the one that the PowerSync API is configured with."),
				 errhint("Run \"ALTER DATABASE %s SET pgsync.mongodb_database = 'name'\".",
						 quote_identifier(database))));
	return name;
}

void
check_encoding(void)
{
	if (GetDatabaseEncoding() != PG_UTF8)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("pgsync needs a database with encoding UTF8"),
				 errdetail("The encoding of database \"%s\" is %s.",
						   get_database_name(MyDatabaseId), GetDatabaseEncodingName())));
}
