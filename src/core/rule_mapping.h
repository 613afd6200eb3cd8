/*-------------------------------------------------------------------------
 *
 * rule_mapping.h
 *	  Ids of bucket definitions and parameter indexes in storage 3:
 *	  storage-v3.md, sections 3 and 9.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_RULE_MAPPING_H
#define PGSYNC_RULE_MAPPING_H

#include "core.h"

typedef struct RuleId
{
	SyncString	name;			/* unique name of the definition, or "<lookup name>#<query id>" */
	SyncString	identity;		/* whatever makes it the same thing in two configs, as text */
	uint32_t	id;				/* counted from 1; 0 = none yet */
} RuleId;

/* sorts by name in UTF-16 order: legacy definitions and alpha streams are numbered so */
extern void rule_ids_sort(RuleId *rules, int count);

/*
 * Gives every rule the id of the known rule that has the same name and
 * identity, else the next id above *highest, in the array's order.  *highest
 * is the highest id the stream ever used, 0 for a new stream; it is raised.
 */
extern void rule_ids_assign(RuleId *rules, int count, const RuleId *known, int known_count,
							uint32_t *highest);

/* lower-case hexadecimal without leading zeros; returns the length */
#define RULE_ID_LEN 8
extern int	rule_id_format(uint32_t id, char text[RULE_ID_LEN]);

/* false unless text is 1 to 8 hexadecimal digits */
extern bool rule_id_parse(SyncString text, uint32_t *id);

#endif							/* PGSYNC_RULE_MAPPING_H */
