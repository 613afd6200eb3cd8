/*-------------------------------------------------------------------------
 *
 * report.h
 *	  Collects what is wrong with a sync config while it is compiled.
 *
 * Compiling goes on after an error so that all are shown at once, up to
 * RULES_REPORT_MAX messages.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_REPORT_H
#define PGSYNC_REPORT_H

#include "core.h"
#include "rules.h"
#include "yaml_node.h"

#define RULES_REPORT_MAX	100

typedef struct RulesReport
{
	SyncArena  *arena;
	const char *text;			/* the whole document, for positions inside scalars */
	size_t		len;
	const YamlNode *at;			/* what is being compiled; NULL: not known */
	RulesMessage *first;
	RulesMessage *last;
	int			count;
	int			fatal_count;
} RulesReport;

extern void report_init(RulesReport *report, SyncArena *arena, const char *text, size_t len);

/* at a node of the document; node NULL: the whole document */
extern void report_node(RulesReport *report, RulesLevel level, SyncErrorCode code,
						const YamlNode *node, const char *format,...) sync_printf_like(5, 6);

/* at the byte offset of a scalar's text */
extern void report_offset(RulesReport *report, RulesLevel level, SyncErrorCode code,
						  const YamlNode *scalar, size_t offset, const char *format,...)
			sync_printf_like(6, 7);

/* an error that is already placed */
extern void report_error(RulesReport *report, RulesLevel level, const SyncError *error);

/* what ended the compilation, in memory that was kept for it; always taken */
extern void report_last(RulesReport *report, RulesMessage *message, const char *text,
						const char *hint);

/* gives the newest message a hint, unless it was dropped */
extern void report_hint(RulesReport *report, const char *format,...) sync_printf_like(2, 3);

/*
 * Edits (letters put in, left out or exchanged) from a to b, for suggestions:
 * 0, 1, 2, or 3 for more.
 */
extern int	report_distance(SyncString a, const char *b);

/*
 * The config is refused and no more messages are taken: the caller may stop.
 * (With warnings alone it must go on, or what it leaves out would be missing
 * from the plan.)
 */
static inline bool
report_is_full(const RulesReport *report)
{
	return report->fatal_count > 0 && report->count >= RULES_REPORT_MAX;
}

#endif							/* PGSYNC_REPORT_H */
