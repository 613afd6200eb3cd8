/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  From what libmongoc and the server report to a StorageError.
 *
 * Texts of libmongoc about connections are passed on: they name hosts and
 * system errors.  Texts of the server never are: they can quote commands,
 * documents and user names; its numeric code and our own words stand for them.
 *
 * Invariant: no message holds a user, a password, a bucket name or a row.
 *
 *-------------------------------------------------------------------------
 */
#include "mongo/mongo_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t
character_border(const char *text, size_t len)
{
	while (len > 0 && ((unsigned char) text[len] & 0xC0) == 0x80)
		len--;
	return len;
}

/* What vsnprintf() wrote of a longer text: without the half of a character at its end. */
static void
cut_text(char *text, size_t size, int wanted)
{
	size_t		len = size - 1;
	size_t		lead = len;

	if (wanted < 0)
		text[0] = '\0';
	if (wanted < 0 || (size_t) wanted < size)
		return;
	while (lead > 0 && ((unsigned char) text[lead - 1] & 0xC0) == 0x80)
		lead--;
	if (lead > 0 && (unsigned char) text[lead - 1] >= 0xC0)
	{
		unsigned char first = (unsigned char) text[--lead];
		size_t		whole = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;

		if (len - lead < whole)
			len = lead;
	}
	text[len] = '\0';
}

void
storage_error_set(StorageError *error, StorageErrorKind kind, const char *format,...)
{
	va_list		args;
	int			wanted;

	error->kind = kind;
	error->server_code = 0;
	error->commit_unknown = false;
	va_start(args, format);
	wanted = vsnprintf(error->message, sizeof(error->message), format, args);
	va_end(args);
	cut_text(error->message, sizeof(error->message), wanted);
}

void
format_text(char *text, size_t size, const char *format,...)
{
	va_list		args;
	int			wanted;

	va_start(args, format);
	wanted = vsnprintf(text, size, format, args);
	va_end(args);
	cut_text(text, size, wanted);
}

typedef struct ServerCode
{
	int32_t		code;
	StorageErrorKind kind;
	const char *text;
} ServerCode;

/* server error codes that say what can be done; all others are STORAGE_SERVER */
static const ServerCode server_codes[] = {
	{6, STORAGE_UNREACHABLE, "a member of the replica set is not reachable"},
	{7, STORAGE_UNREACHABLE, "a member of the replica set is not found"},
	{8, STORAGE_SERVER, "unknown error"},
	{11, STORAGE_AUTH, "the user is not known"},
	{13, STORAGE_AUTH, "the user may not do this"},
	{18, STORAGE_AUTH, "authentication failed"},
	{20, STORAGE_UNSUITABLE, "the server is not a member of a replica set"},
	{26, STORAGE_SERVER, "the collection does not exist"},
	{48, STORAGE_SERVER, "the collection exists already"},
	{50, STORAGE_SERVER, "the operation exceeded its time limit"},
	{64, STORAGE_UNREACHABLE, "a majority of the replica set did not confirm the write"},
	{79, STORAGE_UNSUITABLE, "the write concern is not known"},
	{85, STORAGE_SERVER, "an index with other options exists"},
	{86, STORAGE_SERVER, "an index with other keys exists"},
	{89, STORAGE_UNREACHABLE, "network timeout between members of the replica set"},
	{91, STORAGE_UNREACHABLE, "the server is shutting down"},
	{100, STORAGE_UNREACHABLE, "the write concern cannot be satisfied"},
	{112, STORAGE_SERVER, "write conflict with another client"},
	{121, STORAGE_INVALID, "a document was refused by a validation rule of the collection"},
	{133, STORAGE_UNREACHABLE, "no primary was found"},
	{134, STORAGE_UNREACHABLE, "the server cannot read yet"},
	{189, STORAGE_UNREACHABLE, "the primary stepped down"},
	{225, STORAGE_SERVER, "the transaction was too old"},
	{251, STORAGE_SERVER, "the transaction is not known to the server"},
	{262, STORAGE_SERVER, "the operation exceeded its time limit"},
	{263, STORAGE_UNSUITABLE, "the server does not allow this in a transaction"},
	{317, STORAGE_UNREACHABLE, "the server closed the connection"},
	{358, STORAGE_UNREACHABLE, "the server is initialising"},
	{391, STORAGE_AUTH, "the authentication must be renewed"},
	{8000, STORAGE_AUTH, "authentication failed"},
	{9001, STORAGE_UNREACHABLE, "connection error inside the replica set"},
	{10107, STORAGE_UNREACHABLE, "the server is not the primary any more"},
	{11000, STORAGE_INVALID, "a document with this key exists already"},
	{11600, STORAGE_UNREACHABLE, "the server was interrupted by its shutdown"},
	{11602, STORAGE_UNREACHABLE, "the operation was interrupted by a change of the primary"},
	{13435, STORAGE_UNREACHABLE, "the server is not the primary any more"},
	{13436, STORAGE_UNREACHABLE, "the server is not the primary or a readable secondary"},
	{14031, STORAGE_SERVER, "the server's disk is full"},
};

static const ServerCode *
find_server_code(int32_t code)
{
	for (size_t i = 0; i < sizeof(server_codes) / sizeof(server_codes[0]); i++)
		if (server_codes[i].code == code)
			return &server_codes[i];
	return NULL;
}

static bool
is_server_domain(uint32_t domain)
{
	return domain == MONGOC_ERROR_SERVER || domain == MONGOC_ERROR_QUERY ||
		domain == MONGOC_ERROR_COLLECTION || domain == MONGOC_ERROR_WRITE_CONCERN ||
		domain == MONGOC_ERROR_WRITE_CONCERN_ERROR;
}

static bool
is_connection_domain(uint32_t domain)
{
	return domain == MONGOC_ERROR_STREAM || domain == MONGOC_ERROR_SERVER_SELECTION ||
		domain == MONGOC_ERROR_PROTOCOL;
}

/*
 * Has the driver taken all hosts for no members?  Those that answer with another
 * set name, or none, it leaves out, and says nothing of them.
 */
static bool
no_host_is_member(MongoContext *context)
{
	mongoc_server_description_t **servers;
	size_t		count = 0;

	if (context->client == NULL || mongoc_uri_get_replica_set(context->thread->uri) == NULL)
		return false;
	servers = mongoc_client_get_server_descriptions(context->client, &count);
	mongoc_server_descriptions_destroy_all(servers, count);
	return count == 0;
}

/*
 * The driver's text about a connection without what only its programmers read.  A name
 * of the replica set that no host has is said first: that does not pass by itself.
 */
static void
connection_text(MongoContext *context, const char *text, char *out, size_t size)
{
	static const char noise[] = " (`serverSelectionTryOnce` set)";
	const char *at = strstr(text, noise);
	const char *cause = "";

	/* in brackets: why hosts did not answer, in our own words (socket.c) */
	if (strchr(text, '[') == NULL && no_host_is_member(context))
		cause = "no host of the URI is a member of the replica set that it names; ";
	if (at != NULL)
		snprintf(out, size, "%s%.*s%s", cause, (int) (at - text), text, at + sizeof(noise) - 1);
	else
		snprintf(out, size, "%s%s", cause, text);
}

void
storage_error_from_driver(MongoContext *context, StorageError *error, const char *doing,
						  const bson_error_t *driver_error, const bson_t *reply)
{
	const char *database = context->thread->database;
	const ServerCode *known;
	char		text[sizeof(driver_error->message) + 80];

	context->transient = reply != NULL &&
		mongoc_error_has_label(reply, "TransientTransactionError");
	context->commit_unknown = reply != NULL &&
		mongoc_error_has_label(reply, "UnknownTransactionCommitResult");

	if (context_cancelled(context))
	{
		storage_error_set(error, STORAGE_CANCELLED, "cancelled while %s", doing);
		return;
	}
	if (driver_error->domain == MONGOC_ERROR_CLIENT &&
		driver_error->code == MONGOC_ERROR_CLIENT_AUTHENTICATE)
		storage_error_set(error, STORAGE_AUTH, "authentication failed while %s in database \"%s\"",
						  doing, database);
	else if (is_connection_domain(driver_error->domain))
	{
		connection_text(context, driver_error->message, text, sizeof(text));
		storage_error_set(error, context->tls_failed ? STORAGE_TLS : STORAGE_UNREACHABLE,
						  "connection failed while %s in database \"%s\": %s",
						  doing, database, text);
	}
	else if (is_server_domain(driver_error->domain))
	{
		known = find_server_code((int32_t) driver_error->code);
		storage_error_set(error, known ? known->kind : STORAGE_SERVER,
						  "%s while %s in database \"%s\" (server error %u)",
						  known ? known->text : "the server reported an error", doing, database,
						  driver_error->code);
		error->server_code = (int32_t) driver_error->code;
	}
	else
		storage_error_set(error, STORAGE_SERVER,
						  "the MongoDB driver reported an error while %s in database \"%s\" (%u/%u)",
						  doing, database, driver_error->domain, driver_error->code);
}
