/* What is used of librdkafka's public rdkafka.h, version 2, and the clients that were created with this plugin. */
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
    X(const char *, topic_name, (const rd_kafka_topic_t *))

struct librdkafka {
#define X(result, name, arguments) result(*name) arguments;
    FUNCTIONS(X)
#undef X
};

/* Filled in by `load`. */
extern struct librdkafka kafka;

PyObject *load(PyObject *self, PyObject *args);
PyObject *created(PyObject *self, PyObject *unused);

/* Returns NULL with an exception if the client was closed. */
rd_kafka_t *client_of(unsigned long long id);
