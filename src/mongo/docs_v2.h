/*-------------------------------------------------------------------------
 *
 * docs_v2.h
 *	  Documents of storage version 2.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_DOCS_V2_H
#define PGSYNC_DOCS_V2_H

#include "mongo/documents.h"

extern const StorageFormat storage_format_v2;

#endif							/* PGSYNC_DOCS_V2_H */
