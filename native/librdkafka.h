/* What is used of librdkafka's public rdkafka.h, version 2, and what the files of this module share. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef int rd_kafka_resp_err_t; /* an enum */

typedef struct {
    rd_kafka_resp_err_t err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

/* One field of a record to send. */
typedef struct {
    int vtype; /* an enum */
    union {
        const char *cstr;
        rd_kafka_topic_t *rkt;
        int i;
        int32_t i32;
        int64_t i64;
        struct {
            void *ptr;
            size_t size;
        } mem;
        rd_kafka_headers_t *headers;
        void *ptr;
        char _pad[64];
    } u;
} rd_kafka_vu_t;

enum { ERR_PARTITION_EOF = -191, MAJOR_VERSION = 2 };

#define FUNCTIONS(X)                                                                                              \
    X(int, version, (void))                                                                                       \
    X(rd_kafka_conf_t *, conf_new, (void))                                                                        \
    X(void, conf_destroy, (rd_kafka_conf_t *))                                                                    \
    X(int, conf_set, (rd_kafka_conf_t *, const char *, const char *, char *, size_t))                             \
    X(rd_kafka_resp_err_t, conf_interceptor_add_on_new,                                                           \
      (rd_kafka_conf_t *, const char *,                                                                           \
       rd_kafka_resp_err_t (*)(rd_kafka_t *, const rd_kafka_conf_t *, void *, char *, size_t), void *))           \
    X(rd_kafka_resp_err_t, interceptor_add_on_destroy,                                                            \
      (rd_kafka_t *, const char *, rd_kafka_resp_err_t (*)(rd_kafka_t *, void *), void *))                        \
    X(rd_kafka_queue_t *, queue_get_main, (rd_kafka_t *))                                                         \
    X(rd_kafka_queue_t *, queue_get_consumer, (rd_kafka_t *))                                                     \
    X(void, queue_destroy, (rd_kafka_queue_t *))                                                                  \
    X(void, queue_forward, (rd_kafka_queue_t *, rd_kafka_queue_t *))                                              \
    X(size_t, queue_length, (rd_kafka_queue_t *))                                                                 \
    X(rd_kafka_message_t *, consume_queue, (rd_kafka_queue_t *, int))                                             \
    X(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))                     \
    X(void, message_destroy, (rd_kafka_message_t *))                                                              \
    X(const char *, message_errstr, (const rd_kafka_message_t *))                                                 \
    X(int64_t, message_timestamp, (const rd_kafka_message_t *, int *))                                            \
    X(rd_kafka_resp_err_t, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))                  \
    X(size_t, header_cnt, (const rd_kafka_headers_t *))                                                           \
    X(rd_kafka_resp_err_t, header_get_all,                                                                        \
      (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))                               \
    X(const char *, topic_name, (const rd_kafka_topic_t *))                                                       \
    X(void, conf_set_opaque, (rd_kafka_conf_t *, void *))                                                         \
    X(void, conf_set_dr_msg_cb,                                                                                   \
      (rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *)))                            \
    X(void, conf_set_log_cb,                                                                                      \
      (rd_kafka_conf_t *, void (*)(const rd_kafka_t *, int, const char *, const char *)))                         \
    X(void, conf_set_error_cb, (rd_kafka_conf_t *, void (*)(rd_kafka_t *, int, const char *, void *)))            \
    X(rd_kafka_t *, new, (int, rd_kafka_conf_t *, char *, size_t))                                                \
    X(void, destroy, (rd_kafka_t *))                                                                              \
    X(void *, opaque, (const rd_kafka_t *))                                                                       \
    X(const char *, name, (const rd_kafka_t *))                                                                   \
    X(rd_kafka_resp_err_t, set_log_queue, (rd_kafka_t *, rd_kafka_queue_t *))                                     \
    X(rd_kafka_resp_err_t, fatal_error, (rd_kafka_t *, char *, size_t))                                           \
    X(char *, clusterid, (rd_kafka_t *, int))                                                                     \
    X(void, mem_free, (rd_kafka_t *, void *))                                                                     \
    X(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, rd_kafka_topic_conf_t *))                       \
    X(void, topic_destroy, (rd_kafka_topic_t *))                                                                  \
    X(rd_kafka_headers_t *, headers_new, (size_t))                                                                \
    X(void, headers_destroy, (rd_kafka_headers_t *))                                                              \
    X(rd_kafka_resp_err_t, header_add, (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t))      \
    X(rd_kafka_error_t *, produceva, (rd_kafka_t *, const rd_kafka_vu_t *, size_t))                               \
    X(int, poll, (rd_kafka_t *, int))                                                                             \
    X(void, yield, (rd_kafka_t *))                                                                                \
    X(rd_kafka_resp_err_t, flush, (rd_kafka_t *, int))                                                            \
    X(int, outq_len, (rd_kafka_t *))                                                                              \
    X(rd_kafka_error_t *, init_transactions, (rd_kafka_t *, int))                                                 \
    X(rd_kafka_error_t *, begin_transaction, (rd_kafka_t *))                                                      \
    X(rd_kafka_error_t *, commit_transaction, (rd_kafka_t *, int))                                                \
    X(rd_kafka_error_t *, abort_transaction, (rd_kafka_t *, int))                                                 \
    X(rd_kafka_resp_err_t, error_code, (const rd_kafka_error_t *))                                                \
    X(const char *, error_string, (const rd_kafka_error_t *))                                                     \
    X(int, error_is_fatal, (const rd_kafka_error_t *))                                                            \
    X(int, error_is_retriable, (const rd_kafka_error_t *))                                                        \
    X(int, error_txn_requires_abort, (const rd_kafka_error_t *))                                                  \
    X(void, error_destroy, (rd_kafka_error_t *))

struct librdkafka {
#define X(result, name, arguments) result(*name) arguments;
    FUNCTIONS(X)
#undef X
};

/* Filled in by `load`. */
extern struct librdkafka kafka;

PyObject *load(PyObject *self, PyObject *args);
PyObject *created(PyObject *self, PyObject *unused);

/* The type `Producer` (producers.c); NULL with an exception. */
PyObject *producer_type(void);

/* Returns NULL with an exception if the client was closed. */
rd_kafka_t *client_of(unsigned long long id);
