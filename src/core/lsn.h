/*-------------------------------------------------------------------------
 *
 * lsn.h
 *	  WAL positions as text: storage-contract.md, 7.1.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_LSN_H
#define PGSYNC_LSN_H

#include "core.h"

#define LSN_TEXT_LEN	17

/* "XXXXXXXX/XXXXXXXX", upper case, padded: orders as text like the positions do */
extern void lsn_format(uint64_t lsn, char text[LSN_TEXT_LEN + 1]);

/* one to eight hexadecimal digits of either case, a slash, and the same again */
extern bool lsn_parse(SyncString text, uint64_t *lsn);

#endif							/* PGSYNC_LSN_H */
