/* Queue the rows of Arrow columns in librdkafka, in one call. */
#define _POSIX_C_SOURCE 200809L
#include "producers.h"

#include <stdlib.h>
#include <string.h>

enum { COPY = 2, QUEUE_FULL = -184 };
enum { V_RKT = 2, V_PARTITION, V_VALUE, V_KEY, V_OPAQUE, V_MSGFLAGS, V_TIMESTAMP, V_HEADERS = 10 };

/* The partition as a target, made at its first use; NULL with an exception. */
static target *target_of(producer *own, const char *topic, int32_t partition) {
    for (target *at = own->targets; at; at = at->following)
        if (at->partition == partition && !strcmp(kafka.topic_name(at->rkt), topic)) return at;
    target *made = calloc(1, sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    if (!(made->rkt = kafka.topic_new(own->rk, topic, NULL))) {
        PyErr_Format(PyExc_ValueError, "librdkafka refuses the topic %s", topic);
        free(made);
        return NULL;
    }
    made->partition = partition;
    pthread_mutex_lock(&own->lock);
    made->following = own->targets;
    own->targets = made;
    pthread_mutex_unlock(&own->lock);
    return made;
}

/* An Arrow column: which row is its first, and its buffers. */
typedef struct {
    Py_ssize_t start;
    Py_buffer validity, ends, data;
} column;

static void release(column *from) {
    PyBuffer_Release(&from->validity);
    PyBuffer_Release(&from->ends);
    PyBuffer_Release(&from->data);
}

static int get_buffer(PyObject *object, Py_buffer *buffer, Py_ssize_t least) {
    if (object == Py_None) return 1;
    if (PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE)) return 0;
    if (buffer->len >= least) return 1;
    PyErr_Format(PyExc_ValueError, "a buffer has %zd bytes, not %zd", buffer->len, least);
    return 0;
}

static int32_t end_of(const column *from, Py_ssize_t row) { return ((const int32_t *)from->ends.buf)[row]; }

/* Takes which of `count` rows are null and where they end; 0 with an exception if a buffer is too small. */
static int take_ends(column *into, Py_ssize_t count, PyObject *validity, PyObject *ends) {
    Py_ssize_t rows = into->start + count;
    if (!get_buffer(validity, &into->validity, (rows + 7) / 8)) return 0;
    if (!get_buffer(ends, &into->ends, (rows + 1) * 4)) return 0;
    if (!into->ends.buf) {
        PyErr_SetString(PyExc_ValueError, "a column without offsets");
        return 0;
    }
    return 1;
}

/* Takes all buffers of `count` rows. */
static int take_column(column *into, Py_ssize_t count, PyObject *validity, PyObject *ends, PyObject *data) {
    Py_ssize_t rows = into->start + count;
    if (!take_ends(into, count, validity, ends)) return 0;
    if (data == Py_None && end_of(into, rows)) {
        PyErr_SetString(PyExc_ValueError, "a column without data");
        return 0;
    }
    return get_buffer(data, &into->data, end_of(into, rows));
}

static int is_null(const column *from, Py_ssize_t row) {
    const uint8_t *bits = from->validity.buf;
    return bits && !(bits[row >> 3] >> (row & 7) & 1);
}

/* The bytes of a row; NULL if it is null. */
static const char *bytes_of(const column *from, Py_ssize_t index, size_t *size) {
    Py_ssize_t row = from->start + index;
    *size = 0;
    if (is_null(from, row)) return NULL;
    int32_t begin = end_of(from, row);
    *size = (size_t)(end_of(from, row + 1) - begin);
    return from->data.buf ? (const char *)from->data.buf + begin : "";
}

/* Records of one partition: `lists` says which of the names and contents are a record's headers. */
typedef struct {
    target *to;
    const int64_t *times;
    column keys, values, lists, names, contents;
    int has_headers;
    const char *mark_name, *mark_value; /* the last header of a record whose timestamp is really 0 */
    Py_ssize_t mark_size;
} columns;

/* The headers of a record, with the mark of a timestamp that is 0; NULL if it has none. */
static rd_kafka_headers_t *headers_of(const columns *from, Py_ssize_t index, int is_marked) {
    Py_ssize_t row = from->lists.start + index;
    int32_t begin = 0, end = 0;
    if (from->has_headers && !is_null(&from->lists, row))
        begin = end_of(&from->lists, row), end = end_of(&from->lists, row + 1);
    if (begin == end && !is_marked) return NULL;
    rd_kafka_headers_t *made = kafka.headers_new((size_t)(end - begin + is_marked));
    for (int32_t at = begin; at < end; at++) {
        size_t name_size, size;
        const char *name = bytes_of(&from->names, at, &name_size);
        const char *value = bytes_of(&from->contents, at, &size);
        name_size = strnlen(name, name_size); /* as with confluent-kafka, a name ends at a NUL */
        kafka.header_add(made, name, (ssize_t)name_size, value, (ssize_t)size);
    }
    if (is_marked) kafka.header_add(made, from->mark_name, -1, from->mark_value, from->mark_size);
    return made;
}

/* Queues records until one is refused, or all are; returns how many were queued. */
static Py_ssize_t queue_all(rd_kafka_t *rk, const columns *from, Py_ssize_t begin, Py_ssize_t count,
                            rd_kafka_error_t **error) {
    rd_kafka_vu_t fields[8] = {
        {.vtype = V_RKT, .u.rkt = from->to->rkt},    {.vtype = V_PARTITION, .u.i32 = from->to->partition},
        {.vtype = V_MSGFLAGS, .u.i = COPY},          {.vtype = V_OPAQUE, .u.ptr = from->to},
        {.vtype = V_TIMESTAMP},                      {.vtype = V_KEY},
        {.vtype = V_VALUE},                          {.vtype = V_HEADERS},
    };
    for (Py_ssize_t index = begin; index < count; index++) {
        int64_t time = from->times[index];
        rd_kafka_headers_t *headers = headers_of(from, index, !time);
        fields[4].u.i64 = time ? time : 1;
        fields[5].u.mem.ptr = (void *)bytes_of(&from->keys, index, &fields[5].u.mem.size);
        fields[6].u.mem.ptr = (void *)bytes_of(&from->values, index, &fields[6].u.mem.size);
        fields[7].u.headers = headers;
        if ((*error = kafka.produceva(rk, fields, headers ? 8 : 7))) {
            if (headers) kafka.headers_destroy(headers);
            return index - begin;
        }
    }
    return count - begin;
}

/* Takes the buffers of the headers' columns; 0 with an exception if they are too small. */
static int take_headers(columns *into, Py_ssize_t count, PyObject *headers) {
    PyObject *lists[2], *names[3], *contents[3];
    if (headers == Py_None) return 1;
    if (!PyArg_ParseTuple(headers, "(nOO)(nOOO)(nOOO)", &into->lists.start, &lists[0], &lists[1], &into->names.start,
                          &names[0], &names[1], &names[2], &into->contents.start, &contents[0], &contents[1],
                          &contents[2]))
        return 0;
    if (!take_ends(&into->lists, count, lists[0], lists[1])) return 0;
    Py_ssize_t pairs = end_of(&into->lists, into->lists.start + count);
    into->has_headers = 1;
    return take_column(&into->names, pairs, names[0], names[1], names[2]) &&
           take_column(&into->contents, pairs, contents[0], contents[1], contents[2]);
}

PyObject *py_append(PyObject *self, PyObject *args) {
    producer *own = (producer *)self;
    const char *topic;
    int partition;
    Py_ssize_t begin, count, first_time, queued = 0;
    PyObject *times, *keys[3], *values[3], *headers, *result = NULL;
    Py_buffer time_data = {0};
    columns all = {0};
    rd_kafka_error_t *error = NULL;
    if (!PyArg_ParseTuple(args, "sinn(nO)(nOOO)(nOOO)Osy#", &topic, &partition, &begin, &count, &first_time, &times,
                          &all.keys.start, &keys[0], &keys[1], &keys[2], &all.values.start, &values[0], &values[1],
                          &values[2], &headers, &all.mark_name, &all.mark_value, &all.mark_size))
        return NULL;
    if (!get_buffer(times, &time_data, (first_time + count) * 8) ||
        !take_column(&all.keys, count, keys[0], keys[1], keys[2]) ||
        !take_column(&all.values, count, values[0], values[1], values[2]) || !take_headers(&all, count, headers) ||
        !(all.to = target_of(own, topic, partition)))
        goto done;
    if (!time_data.buf) {
        PyErr_SetString(PyExc_ValueError, "records without timestamps");
        goto done;
    }
    all.times = (const int64_t *)time_data.buf + first_time;
    Py_BEGIN_ALLOW_THREADS;
    queued = queue_all(own->rk, &all, begin, count, &error);
    Py_END_ALLOW_THREADS;
    if (error && kafka.error_code(error) == QUEUE_FULL) {
        kafka.error_destroy(error);
        error = NULL;
    }
    result = Py_BuildValue("(nN)", queued, error_result(error));
done:
    PyBuffer_Release(&time_data);
    release(&all.keys);
    release(&all.values);
    release(&all.lists);
    release(&all.names);
    release(&all.contents);
    return result;
}
