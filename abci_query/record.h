/*
 * record.h - a server's traffic to a .gor file (gzip when it ends in .gz): the
 * threads hand over what they answered, one more thread writes. When the disk
 * falls behind, records are dropped and counted; requests never wait.
 */
#ifndef ABCI_QUERY_RECORD_H
#define ABCI_QUERY_RECORD_H

#include "abci_query/http.h"

struct query_recorder;

KV_MUST_CHECK kv_code query_recorder_open(const char *path, struct query_recorder **out,
                                          kv_status *status);
/* Write what waits, and end. NULL is harmless. */
void query_recorder_close(struct query_recorder *recorder);
/* Record what `http` answers from now on; nothing for a NULL recorder. */
void query_recorder_attach(struct query_recorder *recorder, struct query_http *http);
/* Records that were dropped, and whether the file failed. */
uint64_t query_recorder_dropped(struct query_recorder *recorder);

#endif /* ABCI_QUERY_RECORD_H */
