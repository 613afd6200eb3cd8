/*-------------------------------------------------------------------------
 *
 * catalog_scan.h
 *	  Reading rows of a catalog by one of its indexes.
 *
 *		CatalogScan scan;
 *
 *		catalog_scan_begin(&scan, NamespaceRelationId, NamespaceOidIndexId, 0, NULL);
 *		while (HeapTupleIsValid(tuple = catalog_scan_next(&scan)))
 *			...
 *		catalog_scan_end(&scan);
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGSYNC_CATALOG_SCAN_H
#define PGSYNC_CATALOG_SCAN_H

#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"

typedef struct CatalogScan
{
	Relation	catalog;
	SysScanDesc scan;
} CatalogScan;

/* with the catalogs' own snapshot */
static inline void
catalog_scan_begin(CatalogScan *scan, Oid catalog, Oid index, int key_count, ScanKey keys)
{
	scan->catalog = table_open(catalog, AccessShareLock);
	scan->scan = systable_beginscan(scan->catalog, index, true, NULL, key_count, keys);
}

/* the rows whose column is that object */
static inline void
catalog_scan_begin_oid(CatalogScan *scan, Oid catalog, Oid index, AttrNumber column, Oid object)
{
	ScanKeyData key;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	catalog_scan_begin(scan, catalog, index, 1, &key);
}

static inline HeapTuple
catalog_scan_next(CatalogScan *scan)
{
	return systable_getnext(scan->scan);
}

static inline void
catalog_scan_end(CatalogScan *scan)
{
	systable_endscan(scan->scan);
	table_close(scan->catalog, AccessShareLock);
}

#endif							/* PGSYNC_CATALOG_SCAN_H */
