/*-------------------------------------------------------------------------
 *
 * row_state.h
 *	  What is remembered of a row, as stored in our collection
 *	  pgsync_row_state_<stream>.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_ROW_STATE_H
#define PGSYNC_ROW_STATE_H

#include "mongo/mongo_private.h"

#define ROW_ID_LEN	(SYNC_TABLE_LEN + SYNC_KEY_LEN)

/* _id of a row's state: sorts by table, then key */
typedef struct RowId
{
	uint8_t		bytes[ROW_ID_LEN];
} RowId;

extern RowId row_id(const SourceTableId *table, const SourceKey *key);
/* the lowest and the highest id of a table */
extern RowId row_id_low(const SourceTableId *table);
extern RowId row_id_high(const SourceTableId *table);
extern SourceKey row_id_key(const RowId *id);
extern SourceTableId row_id_table(const RowId *id);

/* the row is nowhere and nothing is kept of it: such a state is not stored */
extern bool row_state_is_empty(const RowState *state);
/* bytes of the encoded memberships, without the row copy */
extern size_t row_state_size(const RowState *state);
/* into room for row_state_size() bytes */
extern void row_state_encode(const RowState *state, uint8_t *bytes);
/*
 * In arena, whose guard must be set; strings are copied.  NULL: not an encoding
 * of ours.
 */
extern RowState *row_state_decode(const uint8_t *bytes, size_t len, SyncArena *arena);

/* {_id, s: memberships, c: row copy, p: true if partial, r: round if not 0} */
extern void row_state_document(const RowId *id, const RowState *state, bson_t *document);
/* false: not such a document; *copy is empty if there is none */
extern bool row_state_document_parts(const bson_t *document, RowId *id, SyncString *memberships,
									 SyncString *copy);
extern bool row_state_document_partial(const bson_t *document);
extern int64_t row_state_document_round(const bson_t *document);

#endif							/* PGSYNC_ROW_STATE_H */
