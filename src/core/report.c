/*-------------------------------------------------------------------------
 *
 * report.c
 *	  The list of errors and warnings of one compilation.
 *
 * Does not decide what is an error.
 *
 * Invariant: the list holds at most RULES_REPORT_MAX messages, one more that
 * says so, and the first fatal one in any case; what is not kept is counted.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

void
report_init(RulesReport *report, SyncArena *arena, const char *text, size_t len)
{
	memset(report, 0, sizeof(*report));
	report->arena = arena;
	report->text = text;
	report->len = len;
}

static void
report_link(RulesReport *report, RulesMessage *message)
{
	if (report->last == NULL)
		report->first = message;
	else
		report->last->next = message;
	report->last = message;
}

static void
report_append(RulesReport *report, RulesLevel level, const SyncError *error)
{
	RulesMessage *message = arena_new(report->arena, RulesMessage);

	message->level = level;
	message->error = *error;
	report_link(report, message);
}

void
report_last(RulesReport *report, RulesMessage *message, const char *text, const char *hint)
{
	message->level = RULES_FATAL;
	sync_error_set(&message->error, SYNC_ERROR_LIMIT, "%s", text);
	memcpy(message->error.hint, hint, strlen(hint) + 1);
	if (report->at != NULL)
	{
		message->error.line = report->at->line;
		message->error.column = report->at->column;
	}
	report->fatal_count++;
	report_link(report, message);
}

static bool
report_has_room(const RulesReport *report, RulesLevel level)
{
	return report->count < RULES_REPORT_MAX ||
		(level == RULES_FATAL && report->fatal_count == 0);
}

void
report_error(RulesReport *report, RulesLevel level, const SyncError *error)
{
	SyncError	rest;

	if (report_has_room(report, level))
		report_append(report, level, error);
	if (level == RULES_FATAL)
		report->fatal_count++;

	/* compilers may stop now, so the list says at once that it need not be whole */
	if (++report->count == RULES_REPORT_MAX)
	{
		sync_error_set(&rest, SYNC_ERROR_LIMIT, "only the first %d messages are shown",
					   RULES_REPORT_MAX);
		rest.line = error->line;
		rest.column = error->column;
		report_append(report, RULES_WARNING, &rest);
	}
}

/* the position costs a walk through the document: not for dropped messages */
static void
report_placed(RulesReport *report, RulesLevel level, SyncErrorCode code, const YamlNode *node,
			  const size_t *offset, const char *text)
{
	SyncError	error;

	sync_error_set(&error, code, "%s", text);
	if (node != NULL && offset != NULL && report_has_room(report, level))
		yaml_position(report->text, report->len, node, *offset, &error.line, &error.column);
	else if (node != NULL)
	{
		error.line = node->line;
		error.column = node->column;
	}
	report_error(report, level, &error);
}

void
report_node(RulesReport *report, RulesLevel level, SyncErrorCode code, const YamlNode *node,
			const char *format,...)
{
	char		text[sizeof(((SyncError *) 0)->message)];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	report_placed(report, level, code, node, NULL, text);
}

void
report_offset(RulesReport *report, RulesLevel level, SyncErrorCode code, const YamlNode *scalar,
			  size_t offset, const char *format,...)
{
	char		text[sizeof(((SyncError *) 0)->message)];
	va_list		args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	report_placed(report, level, code, scalar, &offset, text);
}

void
report_hint(RulesReport *report, const char *format,...)
{
	SyncError  *error;
	SyncError	cleaned;
	char		text[sizeof(error->hint)];
	va_list		args;

	if (report->last == NULL || report->count >= RULES_REPORT_MAX)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);

	/* a message is cleaned to valid UTF-8; the shorter hint goes the same way */
	sync_error_set(&cleaned, SYNC_OK, "%s", text);
	error = &report->last->error;
	memcpy(error->hint, cleaned.message, strlen(cleaned.message) + 1);
}

int
report_distance(SyncString a, const char *b)
{
	size_t		b_len = strlen(b);
	int			row[40];

	if (a.len >= 40 || b_len >= 39)
		return 3;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = (int) j;
	for (uint32_t i = 1; i <= a.len; i++)
	{
		int			diagonal = row[0];

		row[0] = (int) i;
		for (size_t j = 1; j <= b_len; j++)
		{
			int			best = diagonal + (a.data[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[b_len] > 2 ? 3 : row[b_len];
}
