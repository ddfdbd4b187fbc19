/* A producer of this module, and what its two files share. */
#pragma once
#include "librdkafka.h"

#include <pthread.h>

/* A partition that records were sent to. */
typedef struct target {
    rd_kafka_topic_t *rkt;
    int32_t partition;
    int64_t next; /* the offset after the last record that a report named */
    struct target *following;
} target;

typedef struct {
    PyObject_HEAD rd_kafka_t *rk;
    PyObject *on_log, *on_error;
    PyObject *raised[3]; /* what ended a callback and must end the call that it ran in: an interrupt */
    pthread_mutex_t lock; /* protects the fields below */
    target *targets;
    const target *refused_by, *misreported_by;
    rd_kafka_resp_err_t refused;
    int64_t misreported, lowest;
} producer;

/* (code, text, is fatal, can be repeated, requires an abort), or None; destroys the error. */
PyObject *error_result(rd_kafka_error_t *error);

/* The method `append` (append.c). */
PyObject *py_append(PyObject *self, PyObject *args);
