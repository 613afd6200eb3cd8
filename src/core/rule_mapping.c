/*-------------------------------------------------------------------------
 *
 * rule_mapping.c
 *	  Ids of bucket definitions and parameter indexes in storage 3.
 *
 * Does not know what makes two definitions the same: the caller says it by
 * the identity texts.
 *
 * Invariant: an id never changes its meaning within a stream.
 *
 *-------------------------------------------------------------------------
 */
#include "rule_mapping.h"
#include "text.h"

/* insertion sort: a config has at most some hundred definitions */
void
rule_ids_sort(RuleId *rules, int count)
{
	for (int i = 1; i < count; i++)
	{
		RuleId		rule = rules[i];
		int			j = i;

		for (; j > 0 && text_compare(rules[j - 1].name, rule.name) > 0; j--)
			rules[j] = rules[j - 1];
		rules[j] = rule;
	}
}

void
rule_ids_assign(RuleId *rules, int count, const RuleId *known, int known_count, uint32_t *highest)
{
	for (int i = 0; i < count; i++)
	{
		rules[i].id = 0;
		for (int k = 0; k < known_count && rules[i].id == 0; k++)
			if (sync_string_equal(known[k].name, rules[i].name) &&
				sync_string_equal(known[k].identity, rules[i].identity))
				rules[i].id = known[k].id;
		if (rules[i].id == 0)
			rules[i].id = ++*highest;
	}
}

int
rule_id_format(uint32_t id, char text[RULE_ID_LEN])
{
	int			len = 1;

	while (len < RULE_ID_LEN && id >> 4 * len != 0)
		len++;
	for (int i = 0; i < len; i++)
		text[i] = "0123456789abcdef"[id >> 4 * (len - 1 - i) & 0xF];
	return len;
}

bool
rule_id_parse(SyncString text, uint32_t *id)
{
	*id = 0;
	if (text.len < 1 || text.len > RULE_ID_LEN)
		return false;
	for (uint32_t i = 0; i < text.len; i++)
	{
		char		c = text.data[i];

		if (c >= '0' && c <= '9')
			*id = *id << 4 | (uint32_t) (c - '0');
		else if (c >= 'a' && c <= 'f')
			*id = *id << 4 | (uint32_t) (c - 'a' + 10);
		else
			return false;
	}
	return true;
}
