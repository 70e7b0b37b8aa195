/* Skua's client library for C, and for whatever calls C: libskua.so.1.
 *
 *   skua_client* client = skua_client_create(NULL, NULL);          // the control plane on 127.0.0.1:7400
 *   skua_result* r = skua_get(client, "notes", skua_text("greeting"), NULL);
 *   if (skua_result_code(r) == SKUA_OK) use(skua_result_value(r));
 *   skua_result_release(r);
 *   skua_client_destroy(client);
 *
 * Two kinds of clients:
 *
 *   blocking   skua_client_create(). Any number of threads may share the client. skua_get() and the like return when
 *              the operation has ended. The client has a thread of its own.
 *   polled     skua_client_create_polled(). The client belongs to one thread, which calls skua_poll(). skua_async_get()
 *              and the like return at once; the callback runs later, from inside skua_poll(). skua_wait_fd() fits into
 *              an event loop.
 *
 * Rules for all functions:
 *
 *   - Keys, values, names and parameter structs are copied. They need to live for the call only. The value of a
 *     ..._lend() is the exception.
 *   - A parameter struct begins with its size: make it with its SKUA_..._INIT. NULL stands for the defaults.
 *   - A NULL where none is allowed, a size that makes no sense, a call on the wrong thread or kind of client are
 *     refused with SKUA_INVALID_ARGUMENT. Handles that were destroyed are not found out.
 *   - Nothing is printed, nothing is thrown, the process is not ended. Two exceptions: if the library finds its own
 *     memory broken, it says so on stderr and aborts; and without memory for its own small records, or for gRPC, which
 *     finds the cluster, it ends the process. Keys, values and results that find no memory are SKUA_RESOURCE_EXHAUSTED.
 *   - A client belongs to the process that made it. After fork(), the child's calls are refused with
 *     SKUA_INVALID_ARGUMENT, and skua_client_destroy() leaves the client in the child's memory. Fork before the first
 *     client is made: gRPC's threads are not in the child.
 *   - Fields of structs that say yes or no are an uint8_t: 0 is no, all else is yes.
 *   - Times are in nanoseconds. 0 as a timeout: the client's option `timeout`.
 *
 * Public symbols begin with skua_ and have the version SKUA_1.0. docs/c.md has examples.
 */
#ifndef SKUA_INCLUDE_SKUA_SKUA_H_
#define SKUA_INCLUDE_SKUA_SKUA_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SKUA_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- values ---- */

/* Bytes that somebody else owns. `data` may be NULL if `length` is 0. */
typedef struct skua_bytes {
  const void* data;
  size_t length;
} skua_bytes;

/* The bytes of a text, without the zero at its end. NULL: no bytes. */
static inline skua_bytes skua_text(const char* text) {
  skua_bytes bytes = {text, 0};
  while (text != NULL && text[bytes.length] != '\0') ++bytes.length;
  return bytes;
}

/* gRPC's codes, with gRPC's numbers. skua_result_outcome() says what a code means for an operation. */
typedef enum skua_code {
  SKUA_OK = 0,
  SKUA_CANCELLED = 1, /* the client is closing */
  SKUA_UNKNOWN = 2,
  SKUA_INVALID_ARGUMENT = 3, /* names what is wrong, and the limit */
  SKUA_DEADLINE_EXCEEDED = 4,
  SKUA_NOT_FOUND = 5,      /* no such key */
  SKUA_ALREADY_EXISTS = 6, /* if_absent, and the key is there */
  SKUA_PERMISSION_DENIED = 7,
  SKUA_RESOURCE_EXHAUSTED = 8, /* too many operations at a time; no memory; a quota */
  /* if_version, and the key has another one; a value that is no number or no row; a read's token does not fit; no such
   * table */
  SKUA_FAILED_PRECONDITION = 9,
  SKUA_ABORTED = 10,      /* the shard has forgotten this client: the write may have been applied */
  SKUA_OUT_OF_RANGE = 11, /* a counter beyond 64 bits */
  SKUA_UNIMPLEMENTED = 12,
  SKUA_INTERNAL = 13,
  SKUA_UNAVAILABLE = 14,
  SKUA_DATA_LOSS = 15,
  SKUA_UNAUTHENTICATED = 16
} skua_code;

/* "OK", "NOT_FOUND", ...; "UNKNOWN" for other numbers. A static string. */
SKUA_API const char* skua_code_name(int code);

/* How an operation ended. */
typedef enum skua_outcome {
  SKUA_ANSWERED = 0, /* the code is the store's answer */
  SKUA_NOT_DONE = 1, /* nothing changed: it may be tried again */
  SKUA_IN_DOUBT = 2  /* a write was sent and its fate is not known: read before writing again */
} skua_outcome;

/* How safe a write is. */
typedef enum skua_durability {
  SKUA_DURABILITY_DEFAULT = 0, /* as the node is configured */
  SKUA_DURABILITY_MEMORY = 1,  /* lost if the process dies */
  SKUA_DURABILITY_FLUSH = 2,   /* lost if the machine dies */
  SKUA_DURABILITY_SYNC = 3     /* on the disk */
} skua_durability;

/* Enums are as wide as the library's. */
#ifdef __cplusplus
static_assert(sizeof(skua_code) == sizeof(int32_t), "compile without -fshort-enums");
#else
_Static_assert(sizeof(skua_code) == sizeof(int32_t), "compile without -fshort-enums");
#endif

/* The state that a shard had when it answered. A plain value, which may be sent to another process. A read that is
 * given it sees at least that state. `index` 0: no token. */
typedef struct skua_token {
  uint32_t table_id;
  uint32_t shard;
  uint64_t epoch;
  uint64_t index;
} skua_token;

/* Why a function that returns no result failed. May be NULL everywhere. `text` is cut to fit. */
typedef struct skua_error {
  uint32_t size; /* sizeof(skua_error) */
  skua_code code;
  char text[504];
} skua_error;
#define SKUA_ERROR_INIT            \
  {                                \
    sizeof(skua_error), SKUA_OK, { \
      0                            \
    }                              \
  }

/* "0.1.0": of the library that runs. A static string. */
SKUA_API const char* skua_version(void);

/* ---- options ---- */

/* Options by name and text. Thread: one at a time. */
typedef struct skua_options skua_options;

/* NULL: no memory. */
SKUA_API skua_options* skua_options_create(void);
/* NULL is allowed. */
SKUA_API void skua_options_destroy(skua_options* options);
/* Names are those of skuactl's options where it has them:
 *
 *   control-address   127.0.0.1:7400       where the control plane listens; several with commas
 *   cert, key, ca                          files with the client's certificate, its key, and the authorities
 *   renew-certificate false                has that certificate renewed at half of its time by the control plane that
 *                                          issued it: `cert` and `ca` are replaced, and used for new connections.
 *                                          Clients of a process with the same `cert` do it together
 *   packets           default              default, off, authenticate or encrypt
 *   timeout           5s                   of operations that name none
 *   operations-max    4096                 operations at a time; 1 to 65536
 *   session-window    128                  requests at a time per worker of a node; a power of two up to 1024
 *   spin              50us, polled: 0      how long a poll spins before it sleeps
 *   memory-limit      1GiB                 most memory for replies that are larger than a packet
 *   exactly-once      true                 a repeated write takes effect once
 *   transport         tcp                  dpdk, verbs: a plug-in is loaded, of a package of its own (docs/c.md)
 *   dpdk-clients      1                    clients of the process at a time that use DPDK; 1 to 256
 *   dpdk-devices, dpdk-addresses, ...      as skuactl's; the same for all clients of a process
 *   verbs-device, ...                      as skuactl's
 *   grpc-log          off                  keep: gRPC's own log is left as the program has set it; off: it is switched
 *                                          off in the whole process, unless GRPC_VERBOSITY is set
 *
 * SKUA_INVALID_ARGUMENT: no such option, or a text that is no value for it. */
SKUA_API skua_code skua_options_set(skua_options* options, const char* name, const char* value, skua_error* error);

/* ---- clients ---- */

typedef struct skua_client skua_client;
/* How an operation ended, and what it brought. */
typedef struct skua_result skua_result;

/* A blocking client. Connects to nothing yet. `options` NULL: the defaults. NULL: `error` says why. */
SKUA_API skua_client* skua_client_create(const skua_options* options, skua_error* error);
/* A polled client. It belongs to the calling thread. */
SKUA_API skua_client* skua_client_create_polled(const skua_options* options, skua_error* error);
/* Ends the client. Of a polled client, operations in flight end with SKUA_CANCELLED: their callbacks run now. Of a
 * blocking client, no other thread may be inside a call. NULL is allowed. SKUA_INVALID_ARGUMENT: nothing was done,
 * because this is one of the client's callbacks, or another thread than its own. SKUA_CANCELLED: nothing was done,
 * because the client is being destroyed already. */
SKUA_API skua_code skua_client_destroy(skua_client* client);
/* How it goes with the option `renew-certificate`. SKUA_OK: the client has not got it, or the last attempt to renew the
 * certificate did not fail. SKUA_UNAVAILABLE: `error` says why it failed; it is tried again. SKUA_INVALID_ARGUMENT:
 * NULL, or another process's client. Thread: any. */
SKUA_API skua_code skua_certificate_trouble(const skua_client* client, skua_error* error);

/* ---- parameters ---- */

typedef struct skua_read_options {
  uint32_t size;
  uint8_t with_ttl; /* get: skua_result_ttl_ms() says how long the key has to live */
  int64_t timeout_ns;
  skua_token at_least; /* get: read this state or a later one */
  /* get: the value is a row, and the result has only its fields with these names, 1 to 1,024, in the order of the row.
   * The names need to live for the call only. */
  const skua_bytes* fields;
  size_t field_count; /* 0: the whole value */
} skua_read_options;
#define SKUA_READ_OPTIONS_INIT \
  { sizeof(skua_read_options), 0, 0, {0, 0, 0, 0}, NULL, 0 }

typedef struct skua_write_options {
  uint32_t size;
  uint8_t has_if_version; /* write only if the key has the version `if_version` */
  uint8_t if_absent;      /* put, add, append: write only if the key is absent */
  uint8_t if_present;     /* write only if the key is there */
  uint8_t keep_ttl;       /* put: the key keeps its time to live */
  uint32_t durability;    /* a skua_durability: how safe the write must be before it is answered */
  uint64_t if_version;
  int64_t ttl_ns; /* put: the key vanishes after this time; 0: never */
  int64_t timeout_ns;
} skua_write_options;
#define SKUA_WRITE_OPTIONS_INIT \
  { sizeof(skua_write_options), 0, 0, 0, 0, SKUA_DURABILITY_DEFAULT, 0, 0, 0 }

/* The part of a table to be scanned, in the byte order of keys. */
typedef struct skua_scan_range {
  uint32_t size;
  uint32_t limit;   /* most rows: 1 to 100,000 */
  skua_bytes start; /* inclusive; empty: from the first key */
  skua_bytes end;   /* exclusive; empty: to the last key */
} skua_scan_range;
#define SKUA_SCAN_RANGE_INIT                   \
  {                                            \
    sizeof(skua_scan_range), 100, {NULL, 0}, { \
      NULL, 0                                  \
    }                                          \
  }

/* A field of a row: of one that was read, or to be replaced, added or removed. */
typedef struct skua_field {
  skua_bytes name;
  skua_bytes value; /* skua_no_value(): the field is removed, if the row has it */
} skua_field;

/* The value of a field that is to be removed. Nodes of a version that knows no removals answer SKUA_UNIMPLEMENTED. */
static inline skua_bytes skua_no_value(void) {
  skua_bytes bytes = {NULL, SIZE_MAX};
  return bytes;
}

/* Takes the first field off the front of a row: of the value of a get or of an entry. Copies nothing; `field` points
 * into the row. False: there is none. If `row->length` is not 0 then, what is left is no field.
 *
 *   skua_bytes row = skua_result_value(result);
 *   skua_field field;
 *   while (skua_row_next(&row, &field)) use(field.name, field.value);
 */
SKUA_API bool skua_row_next(skua_bytes* row, skua_field* field);

/* ---- batches ---- */

/* Writes to keys of one shard (in a table with hash tags: keys with one tag): all are applied, or none. Copies what it
 * is given. If an operation is refused, the batch ignores all further ones, and running it fails with the reason. It
 * may be run any number of times. Thread: one at a time. Of `options`, `timeout_ns` and `durability` are ignored: they
 * are the batch's. */
typedef struct skua_batch skua_batch;

SKUA_API skua_batch* skua_batch_create(void);
/* NULL is allowed. */
SKUA_API void skua_batch_destroy(skua_batch* batch);
SKUA_API void skua_batch_clear(skua_batch* batch);
SKUA_API skua_code skua_batch_put(skua_batch* batch, skua_bytes key, skua_bytes value,
                                  const skua_write_options* options);
/* A key that is absent: its entry says SKUA_NOT_FOUND, and the batch goes on; with if_present or if_version it
 * fails. */
SKUA_API skua_code skua_batch_remove(skua_batch* batch, skua_bytes key, const skua_write_options* options);
SKUA_API skua_code skua_batch_add(skua_batch* batch, skua_bytes key, int64_t delta, const skua_write_options* options);
SKUA_API skua_code skua_batch_append(skua_batch* batch, skua_bytes key, skua_bytes bytes,
                                     const skua_write_options* options);
SKUA_API skua_code skua_batch_expire(skua_batch* batch, skua_bytes key, int64_t ttl_ns,
                                     const skua_write_options* options);

/* ---- operations of blocking clients ----
 *
 * The result belongs to the caller: skua_result_release() it. It may outlive the client. NULL: there was no memory, and
 * nothing was done. */

SKUA_API skua_result* skua_get(skua_client* client, const char* table, skua_bytes key,
                               const skua_read_options* options);
SKUA_API skua_result* skua_put(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                               const skua_write_options* options);
/* SKUA_NOT_FOUND: no such key. */
SKUA_API skua_result* skua_remove(skua_client* client, const char* table, skua_bytes key,
                                  const skua_write_options* options);
/* Adds to a counter: a value that is a decimal 64-bit integer. skua_result_number() has the sum. */
SKUA_API skua_result* skua_add(skua_client* client, const char* table, skua_bytes key, int64_t delta,
                               const skua_write_options* options);
SKUA_API skua_result* skua_append(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                                  const skua_write_options* options);
/* The key vanishes after `ttl_ns`. 0: never. */
SKUA_API skua_result* skua_expire(skua_client* client, const char* table, skua_bytes key, int64_t ttl_ns,
                                  const skua_write_options* options);
/* Replaces, adds or removes fields of a row. The key goes with its last field. */
SKUA_API skua_result* skua_patch(skua_client* client, const char* table, skua_bytes key, const skua_field* fields,
                                 size_t field_count, bool create_if_missing, const skua_write_options* options);
/* 1 to 1,024 keys. The result has one entry for each, in their order. */
SKUA_API skua_result* skua_multi_get(skua_client* client, const char* table, const skua_bytes* keys, size_t key_count,
                                     const skua_read_options* options);
/* `range` NULL: the first 100 rows. The result has one entry for each row. */
SKUA_API skua_result* skua_scan(skua_client* client, const char* table, const skua_scan_range* range,
                                const skua_read_options* options);
/* Of `options`, `timeout_ns` and `durability` count. The result has one entry for each operation. */
SKUA_API skua_result* skua_batch_run(skua_client* client, const char* table, const skua_batch* batch,
                                     const skua_write_options* options);

/* ---- operations of polled clients ----
 *
 * SKUA_OK: accepted. `callback` runs exactly once, from inside a later skua_poll(), skua_warm_up() or
 * skua_client_destroy(). Any other code: it never runs, and `error` says why. `result` lives until the callback
 * returns; see skua_result_keep(). Callbacks may submit operations. They must not poll, wait or destroy the client;
 * that is refused. They must not throw. */
typedef void (*skua_callback)(void* context, const skua_result* result);

SKUA_API skua_code skua_async_get(skua_client* client, const char* table, skua_bytes key,
                                  const skua_read_options* options, skua_callback callback, void* context,
                                  skua_error* error);
SKUA_API skua_code skua_async_put(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                                  const skua_write_options* options, skua_callback callback, void* context,
                                  skua_error* error);
SKUA_API skua_code skua_async_remove(skua_client* client, const char* table, skua_bytes key,
                                     const skua_write_options* options, skua_callback callback, void* context,
                                     skua_error* error);
SKUA_API skua_code skua_async_add(skua_client* client, const char* table, skua_bytes key, int64_t delta,
                                  const skua_write_options* options, skua_callback callback, void* context,
                                  skua_error* error);
SKUA_API skua_code skua_async_append(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                                     const skua_write_options* options, skua_callback callback, void* context,
                                     skua_error* error);
SKUA_API skua_code skua_async_expire(skua_client* client, const char* table, skua_bytes key, int64_t ttl_ns,
                                     const skua_write_options* options, skua_callback callback, void* context,
                                     skua_error* error);
SKUA_API skua_code skua_async_patch(skua_client* client, const char* table, skua_bytes key, const skua_field* fields,
                                    size_t field_count, bool create_if_missing, const skua_write_options* options,
                                    skua_callback callback, void* context, skua_error* error);
SKUA_API skua_code skua_async_multi_get(skua_client* client, const char* table, const skua_bytes* keys,
                                        size_t key_count, const skua_read_options* options, skua_callback callback,
                                        void* context, skua_error* error);
SKUA_API skua_code skua_async_scan(skua_client* client, const char* table, const skua_scan_range* range,
                                   const skua_read_options* options, skua_callback callback, void* context,
                                   skua_error* error);
SKUA_API skua_code skua_async_batch_run(skua_client* client, const char* table, const skua_batch* batch,
                                        const skua_write_options* options, skua_callback callback, void* context,
                                        skua_error* error);

/* Writes whose value is lent, not copied. For large values. The value must stay readable and unchanged until
 * `release(release_context)` is called. Key, names and parameter structs are copied as always.
 *
 *   - `release` is called exactly once, whatever the call returns, and however the operation ends. NULL is refused with
 *     SKUA_INVALID_ARGUMENT; then nothing was lent.
 *   - SKUA_OK: it is called later, on the client's thread, from inside a function of this header that is given the
 *     client: skua_poll() as a rule. At the latest skua_client_destroy() calls it.
 *   - Any other code: it has been called when the function returns, on the calling thread.
 *   - `callback` says nothing of the memory. `release` may be called before it, and also long after it: after a
 *     timeout, if the node is silent and the bytes still wait to be sent. A retry sends the same memory again.
 *   - `release` must not throw. It may call skua_post(), which says false inside skua_client_destroy(). It must not
 *     poll, wait for, submit to, adopt or destroy the same client.
 *   - The client's operations in flight after fork(): the child's copy of the memory is not released.
 *
 * A value of up to 2 KiB is copied on its way to the socket all the same, and so is one of any size if packets are
 * authenticated or encrypted (docs/c.md). Then too, it may be read until `release` is called. */
typedef void (*skua_release)(void* context);

SKUA_API skua_code skua_async_put_lend(skua_client* client, const char* table, skua_bytes key, skua_bytes value,
                                       skua_release release, void* release_context, const skua_write_options* options,
                                       skua_callback callback, void* context, skua_error* error);
SKUA_API skua_code skua_async_append_lend(skua_client* client, const char* table, skua_bytes key, skua_bytes bytes,
                                          skua_release release, void* release_context,
                                          const skua_write_options* options, skua_callback callback, void* context,
                                          skua_error* error);

/* Does the client's work and runs callbacks. If there is nothing to do, sleeps for at most `max_wait_ns`; may return
 * earlier. `callbacks`: how many ran; may be NULL. */
SKUA_API skua_code skua_poll(skua_client* client, int64_t max_wait_ns, size_t* callbacks);
/* Optional: polls until a session with each shard of the table is open. Then the first operations are as fast as later
 * ones, and a wrong address or table name is found early. `timeout_ns`: at most one hour. */
SKUA_API skua_code skua_warm_up(skua_client* client, const char* table, int64_t timeout_ns, skua_error* error);
/* Accepted operations whose callback has not run yet. 0: also for other clients, and on another thread than the
 * client's. */
SKUA_API size_t skua_in_flight(const skua_client* client);

/* For an event loop that watches other descriptors as well:
 *
 *   for (;;) {
 *     if (skua_poll(client, 0, NULL) != SKUA_OK) break;          // refused: as would be all further polls
 *     int64_t longest_ns;
 *     if (!skua_begin_wait(client, &longest_ns)) continue;       // there is work: poll again
 *     sleep for at most longest_ns, or until skua_wait_fd(client) or another descriptor is readable
 *     skua_end_wait(client);
 *   }
 *
 * Between skua_begin_wait() and skua_end_wait() nothing but skua_post() may be called; all else is refused. */

/* Readable while there is something to poll for. It stays the same and belongs to the client; nobody else may read or
 * close it. -1: not a polled client, or another thread than the client's; or DPDK or verbs, which have no descriptor:
 * then skua_begin_wait() says at most 50 us. */
SKUA_API int skua_wait_fd(const skua_client* client);
/* True: the caller may sleep for `longest_ns`, and must call skua_end_wait() afterwards. False: poll again;
 * skua_poll() says if the client refuses. */
SKUA_API bool skua_begin_wait(skua_client* client, int64_t* longest_ns);
SKUA_API skua_code skua_end_wait(skua_client* client);

/* Runs `task(context)` inside a skua_poll(), and wakes one that sleeps. Thread: any, while the client lives. False:
 * 4,096 tasks wait already, the client is being destroyed, or it is not a polled one. Tasks that wait when it is
 * destroyed run inside skua_client_destroy(); operations that they submit are refused with SKUA_CANCELLED. */
SKUA_API bool skua_post(skua_client* client, void (*task)(void* context), void* context);
/* Makes the calling thread the owner of a polled client. Only while no other thread uses the client. */
SKUA_API skua_code skua_adopt_thread(skua_client* client);

/* ---- results ----
 *
 * All may be called with NULL, which is a result with the code SKUA_INVALID_ARGUMENT. Pointers that they give live as
 * long as the result. Thread: one at a time; kept results and those of blocking clients may be read by several at a
 * time. */

/* A result of a callback: a copy, which lives until it is released, on any thread, also when the client is gone; what
 * the original pointed to must be asked for again. Any other result: the same one, to be released once more. NULL: no
 * memory. */
SKUA_API skua_result* skua_result_keep(const skua_result* result);
/* NULL is allowed. Results of callbacks that were not kept are left alone. */
SKUA_API void skua_result_release(skua_result* result);

SKUA_API skua_code skua_result_code(const skua_result* result);
/* What was tried, on whom, and why it failed, in one line. "" if all is well. */
SKUA_API const char* skua_result_text(const skua_result* result);
SKUA_API skua_outcome skua_result_outcome(const skua_result* result);
/* A write that failed: it may have taken effect. */
SKUA_API bool skua_may_have_been_applied(const skua_result* result);
/* get: the key's version. Writes: the key's new version. A condition that did not hold: the key's present version. */
SKUA_API uint64_t skua_result_version(const skua_result* result);
SKUA_API skua_token skua_result_token(const skua_result* result);
/* get: the value. */
SKUA_API skua_bytes skua_result_value(const skua_result* result);
/* get with `with_ttl`: the milliseconds that the key has left; -1: it does not expire, or nobody asked. */
SKUA_API int64_t skua_result_ttl_ms(const skua_result* result);
/* add: the counter afterwards. */
SKUA_API int64_t skua_result_number(const skua_result* result);
/* Writes that are SKUA_OK: how safe the write was when it was answered. */
SKUA_API skua_durability skua_result_durability(const skua_result* result);
/* The store had executed an earlier attempt, and its answer was lost. This is that answer. */
SKUA_API bool skua_result_repeated(const skua_result* result);

/* multi_get: one for each key. scan: one for each row. batch: one for each operation. */
typedef struct skua_entry {
  uint32_t size;
  skua_code code;
  const char* text; /* "" if all is well */
  skua_bytes key;   /* scan */
  skua_bytes value; /* multi_get, scan */
  uint64_t version;
  int64_t number;   /* batch: the counter after an add */
  skua_token token; /* multi_get */
} skua_entry;
#define SKUA_ENTRY_INIT                                              \
  {                                                                  \
    sizeof(skua_entry), SKUA_OK, NULL, {NULL, 0}, {NULL, 0}, 0, 0, { \
      0, 0, 0, 0                                                     \
    }                                                                \
  }

SKUA_API size_t skua_result_entry_count(const skua_result* result);
/* False: there is no such entry, or `entry` is NULL or smaller than the first version of the struct. */
SKUA_API bool skua_result_entry(const skua_result* result, size_t position, skua_entry* entry);
/* scan: there may be more rows; scan again with `start` = skua_result_next_start(). */
SKUA_API bool skua_result_has_more(const skua_result* result);
SKUA_API skua_bytes skua_result_next_start(const skua_result* result);

#ifdef __cplusplus
}
#endif

#endif /* SKUA_INCLUDE_SKUA_SKUA_H_ */
