/*-------------------------------------------------------------------------
 *
 * error.c
 *	  Fills in a SyncError.
 *
 * Does not allocate and does not decide who sees the error.
 *
 * Invariant: a message is valid UTF-8 without NUL whatever was put into it,
 * since it ends up in PostgreSQL's log and in a MongoDB document.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "text.h"

/*
 * Replaces what is not UTF-8 by question marks.  cut says that the text was
 * shortened: then an unfinished character at its end is left out.
 */
static void
error_clean_text(char *text, bool cut)
{
	size_t		len = strlen(text);
	size_t		i = 0;

	while (i < len)
	{
		size_t		n = utf8_sequence_length(text + i, len - i);

		if (n > 0)
		{
			i += n;
			continue;
		}
		if (cut && utf8_is_unfinished(text + i, len - i))
		{
			text[i] = '\0';
			return;
		}
		text[i++] = '?';
	}
}

/*
 * Sets code and message; line, column and hint are cleared.  error may be NULL
 * when the caller does not want to know.
 */
void
sync_error_set(SyncError *error, SyncErrorCode code, const char *format,...)
{
	va_list		args;
	int			len;

	if (error == NULL)
		return;
	error->code = code;
	error->line = 0;
	error->column = 0;
	error->hint[0] = '\0';

	va_start(args, format);
	len = vsnprintf(error->message, sizeof(error->message), format, args);
	va_end(args);
	if (len < 0)
		error->message[0] = '\0';
	error_clean_text(error->message, len >= (int) sizeof(error->message));
}
