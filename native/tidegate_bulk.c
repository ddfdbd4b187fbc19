/* Read many Kafka records in one call, as columns, from a client that confluent-kafka created. Writing is in
 * producers.c.
 *
 * The library is both a Python module and a plugin of librdkafka (setting `plugin.library.paths`). As a plugin it
 * adds an `on_new` interceptor, which is how it gets the client's `rd_kafka_t` (clients.c). As a module it calls
 * librdkafka's public functions with it.
 *
 * Callbacks of the client (errors, logs, statistics) may only run inside of the client's own calls. They come from
 * librdkafka's main queue. `detach` stops forwarding that queue to the consumer's queue, so `fetch` meets records and
 * errors of partitions only. When something waits in the main queue, `fetch` hands it over and returns how many
 * events the consumer's queue then has: the caller polls with the client until it got as many, or no more.
 */
#include "columns.h"
#include "librdkafka.h"

#include <stdlib.h>

enum { CHUNK_MS = 200 }; /* how long a wait ignores signals and the main queue */

/* The records of one partition in one page. */
typedef struct {
    rd_kafka_topic_t *rkt;
    int32_t partition;
    int ended;        /* whether the last event was the partition's end */
    int64_t next;     /* the offset after the last event */
    int64_t count;    /* records */
    int64_t row;      /* records filled in */
    int64_t pairs;    /* headers of all records */
    int64_t headless; /* records without headers */
    int64_t *offsets, *times;
    uint8_t *header_bits;
    int32_t *header_ends;
    PyObject *offset_data, *time_data, *header_validity, *header_offsets;
    binary keys, values, names, contents;
} bucket;

/* What is found of an event when it is sorted. To ask librdkafka for the headers of a record that has none costs
 * an allocation, so it is asked once for those. */
typedef struct {
    int64_t timestamp;
    int32_t bucket; /* -1: not a record */
    int32_t headers;
} note;

typedef struct {
    rd_kafka_message_t **messages;
    note *notes;
    ssize_t count;
    bucket *buckets;
    int bucket_count, bucket_room;
    const rd_kafka_message_t *failure;
    const char *mark_name, *mark_value; /* the last header of a record whose timestamp is really 0 */
    Py_ssize_t mark_size;
} page;

typedef struct {
    rd_kafka_headers_t *list;
    size_t count;
    int64_t timestamp;
} meta;

static meta meta_of(const page *from, const rd_kafka_message_t *message) {
    meta found = {NULL, 0, 0};
    const char *name;
    const void *value;
    size_t size;
    int type;
    found.timestamp = kafka.message_timestamp(message, &type);
    if (!kafka.message_headers(message, &found.list)) found.count = kafka.header_cnt(found.list);
    if (found.timestamp == 1 && found.count &&
        !kafka.header_get_all(found.list, found.count - 1, &name, &value, &size) && value &&
        size == (size_t)from->mark_size && !memcmp(value, from->mark_value, size) && !strcmp(name, from->mark_name)) {
        found.timestamp = 0;
        found.count--;
    }
    return found;
}

static int bucket_for(page *into, const rd_kafka_message_t *message, int last) {
    bucket *all = into->buckets;
    if (last >= 0 && all[last].rkt == message->rkt && all[last].partition == message->partition) return last;
    for (int index = 0; index < into->bucket_count; index++)
        if (all[index].partition == message->partition &&
            (all[index].rkt == message->rkt ||
             !strcmp(kafka.topic_name(all[index].rkt), kafka.topic_name(message->rkt))))
            return index;
    if (into->bucket_count == into->bucket_room) {
        int room = into->bucket_room ? 2 * into->bucket_room : 16;
        if (!(all = realloc(all, (size_t)room * sizeof *all))) {
            PyErr_NoMemory();
            return -1;
        }
        into->buckets = all;
        into->bucket_room = room;
    }
    bucket *made = &all[into->bucket_count];
    memset(made, 0, sizeof *made);
    made->rkt = message->rkt;
    made->partition = message->partition;
    return into->bucket_count++;
}

/* Counts the bytes of a record's headers. */
static void count_headers(bucket *into, const meta *own) {
    const char *name;
    const void *value;
    size_t size;
    if (!own->count) into->headless++;
    into->pairs += (int64_t)own->count;
    for (size_t index = 0; index < own->count; index++) {
        kafka.header_get_all(own->list, index, &name, &value, &size);
        into->names.bytes += (int64_t)strlen(name);
        count_binary(&into->contents, value, size);
    }
}

/* Sorts events into buckets, up to the first error that is not a partition's end. */
static int sort_page(page *into) {
    int last = -1;
    for (ssize_t index = 0; index < into->count; index++) {
        const rd_kafka_message_t *message = into->messages[index];
        into->notes[index].bucket = -1;
        if (message->err && message->err != ERR_PARTITION_EOF) {
            into->failure = message;
            into->count = index; /* what follows is dropped by the caller's error too */
            return 1;
        }
        if ((last = bucket_for(into, message, last)) < 0) return 0;
        bucket *own = &into->buckets[last];
        own->ended = message->err != 0;
        own->next = message->offset + !message->err;
        if (own->ended) continue;
        meta found = meta_of(into, message);
        into->notes[index] = (note){found.timestamp, last, (int32_t)found.count};
        own->count++;
        count_binary(&own->keys, message->key, message->key_len);
        count_binary(&own->values, message->payload, message->len);
        count_headers(own, &found);
    }
    return 1;
}

static int allocate_bucket(bucket *own) {
    if (!own->count) return 1;
    if (!(own->offset_data = new_buffer(own->count * 8, &own->offsets))) return 0;
    if (!(own->time_data = new_buffer(own->count * 8, &own->times))) return 0;
    if (!allocate_binary(&own->keys, own->count) || !allocate_binary(&own->values, own->count)) return 0;
    if (!own->pairs) return 1;
    if (own->headless && !(own->header_validity = new_bits(own->count, &own->header_bits))) return 0;
    if (!(own->header_offsets = new_buffer((own->count + 1) * 4, &own->header_ends))) return 0;
    own->header_ends[0] = 0;
    return allocate_binary(&own->names, own->pairs) && allocate_binary(&own->contents, own->pairs);
}

static void fill_headers(bucket *own, const rd_kafka_message_t *message, int32_t count) {
    const char *name;
    const void *value;
    size_t size;
    rd_kafka_headers_t *list = NULL;
    if (count) kafka.message_headers(message, &list);
    for (int32_t index = 0; index < count; index++) {
        kafka.header_get_all(list, (size_t)index, &name, &value, &size);
        add_binary(&own->names, name, strlen(name));
        add_binary(&own->contents, value, size);
    }
    if (own->header_bits && count) own->header_bits[own->row >> 3] |= (uint8_t)(1 << (own->row & 7));
    own->header_ends[own->row + 1] = own->names.row;
}

static void fill_page(page *from) {
    for (ssize_t index = 0; index < from->count; index++) {
        const note *found = &from->notes[index];
        if (found->bucket < 0) continue;
        const rd_kafka_message_t *message = from->messages[index];
        bucket *own = &from->buckets[found->bucket];
        own->offsets[own->row] = message->offset;
        own->times[own->row] = found->timestamp;
        add_binary(&own->keys, message->key, message->key_len);
        add_binary(&own->values, message->payload, message->len);
        if (own->pairs) fill_headers(own, message, found->headers);
        own->row++;
    }
}

/* (topic, partition, ended, next, count, offsets, timestamps, keys, values, headers); steals the buffers. */
static PyObject *bucket_tuple(bucket *own) {
    const char *topic = kafka.topic_name(own->rkt);
    if (!own->count)
        return Py_BuildValue("(siOLLOOOOO)", topic, own->partition, own->ended ? Py_True : Py_False,
                             (long long)own->next, 0LL, Py_None, Py_None, Py_None, Py_None, Py_None);
    PyObject *headers;
    if (own->pairs) {
        PyObject *validity = own->header_validity ? own->header_validity : Py_NewRef(Py_None);
        headers = Py_BuildValue("(LNNNN)", (long long)own->pairs, validity, own->header_offsets,
                                binary_tuple(&own->names), binary_tuple(&own->contents));
        own->header_validity = own->header_offsets = NULL;
    } else {
        headers = Py_NewRef(Py_None);
    }
    PyObject *made = Py_BuildValue("(siOLLNNNNN)", topic, own->partition, own->ended ? Py_True : Py_False,
                                   (long long)own->next, (long long)own->count, own->offset_data, own->time_data,
                                   binary_tuple(&own->keys), binary_tuple(&own->values), headers);
    own->offset_data = own->time_data = NULL;
    return made;
}

static void clear_bucket(bucket *own) {
    Py_CLEAR(own->offset_data);
    Py_CLEAR(own->time_data);
    Py_CLEAR(own->header_validity);
    Py_CLEAR(own->header_offsets);
    clear_binary(&own->keys);
    clear_binary(&own->values);
    clear_binary(&own->names);
    clear_binary(&own->contents);
}

/* The page as (partitions, failure). */
static PyObject *page_result(page *from) {
    PyObject *failure, *partitions = NULL;
    if (!sort_page(from)) return NULL;
    for (int index = 0; index < from->bucket_count; index++)
        if (!allocate_bucket(&from->buckets[index])) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    fill_page(from);
    Py_END_ALLOW_THREADS;
    if (!(partitions = PyList_New(from->bucket_count))) return NULL;
    for (int index = 0; index < from->bucket_count; index++) {
        PyObject *one = bucket_tuple(&from->buckets[index]);
        if (!one) goto failed;
        PyList_SetItem(partitions, index, one);
    }
    if (from->failure) {
        const rd_kafka_message_t *event = from->failure;
        failure = Py_BuildValue("(ziis)", event->rkt ? kafka.topic_name(event->rkt) : NULL, event->partition,
                                event->err, kafka.message_errstr(event));
    } else {
        failure = Py_NewRef(Py_None);
    }
    if (failure) return Py_BuildValue("(NN)", partitions, failure);
failed:
    Py_DECREF(partitions);
    return NULL;
}

/* How many events were received into `messages`; -1 with an exception after a signal, -2 if the main queue has
 * something. Waits until the first event. */
static ssize_t receive(rd_kafka_queue_t *queue, rd_kafka_queue_t *main, rd_kafka_message_t **messages, size_t room,
                       int timeout) {
    for (;;) {
        ssize_t count;
        int waited = timeout < CHUNK_MS ? timeout : CHUNK_MS;
        if (kafka.queue_length(main)) return -2;
        Py_BEGIN_ALLOW_THREADS;
        count = kafka.consume_batch_queue(queue, 0, messages, room);
        if (count <= 0 && waited > 0 && (messages[0] = kafka.consume_queue(queue, waited))) {
            count = 1;
            if (room > 1) {
                ssize_t more = kafka.consume_batch_queue(queue, 0, messages + 1, room - 1);
                if (more > 0) count += more;
            }
        }
        Py_END_ALLOW_THREADS;
        timeout -= waited;
        if (count > 0) return count;
        if (PyErr_CheckSignals()) return -1;
        if (timeout <= 0) return 0;
    }
}

/* The queues of a consumer; 0 with an exception if it was closed, or is a producer. */
static int open_queues(unsigned long long id, rd_kafka_queue_t **queue, rd_kafka_queue_t **main) {
    rd_kafka_t *rk = client_of(id);
    if (!rk) return 0;
    if (!(*queue = kafka.queue_get_consumer(rk))) {
        PyErr_SetString(PyExc_TypeError, "the Kafka client is no consumer");
        return 0;
    }
    *main = kafka.queue_get_main(rk);
    return 1;
}

static PyObject *py_fetch(PyObject *self, PyObject *args) {
    unsigned long long id;
    int timeout;
    Py_ssize_t room;
    page own = {0};
    PyObject *result = NULL;
    rd_kafka_queue_t *queue, *main;
    (void)self;
    if (!PyArg_ParseTuple(args, "Knisy#", &id, &room, &timeout, &own.mark_name, &own.mark_value, &own.mark_size))
        return NULL;
    if (room < 1) return PyErr_Format(PyExc_ValueError, "room for %zd records", room);
    if (!open_queues(id, &queue, &main)) return NULL;
    own.messages = malloc((size_t)room * sizeof *own.messages);
    own.notes = malloc((size_t)room * sizeof *own.notes);
    ssize_t received = -1;
    if (own.messages && own.notes)
        received = receive(queue, main, own.messages, (size_t)room, timeout);
    else
        PyErr_NoMemory();
    if (received >= 0) {
        own.count = received;
        result = page_result(&own);
        for (int index = 0; index < own.bucket_count; index++) clear_bucket(&own.buckets[index]);
        Py_BEGIN_ALLOW_THREADS;
        for (ssize_t index = 0; index < received; index++) kafka.message_destroy(own.messages[index]);
        Py_END_ALLOW_THREADS;
    } else if (received == -2) {
        kafka.queue_forward(main, queue); /* moves what waits there */
        kafka.queue_forward(main, NULL);
        result = PyLong_FromSize_t(kafka.queue_length(queue));
    }
    kafka.queue_destroy(main);
    kafka.queue_destroy(queue);
    free(own.buckets);
    free(own.notes);
    free(own.messages);
    return result;
}

static PyObject *route(PyObject *args, int back) {
    unsigned long long id;
    rd_kafka_queue_t *queue, *main;
    if (!PyArg_ParseTuple(args, "K", &id) || !open_queues(id, &queue, &main)) return NULL;
    kafka.queue_forward(main, back ? queue : NULL);
    kafka.queue_destroy(main);
    kafka.queue_destroy(queue);
    Py_RETURN_NONE;
}

static PyObject *py_detach(PyObject *self, PyObject *args) {
    (void)self;
    return route(args, 0);
}

static PyObject *py_attach(PyObject *self, PyObject *args) {
    (void)self;
    return route(args, 1);
}

static PyMethodDef methods[] = {
    {"load", load, METH_VARARGS, "load(client, own): find librdkafka; return why it cannot be used, or None."},
    {"created", created, METH_NOARGS, "created(): the id of the client this thread created last, or None."},
    {"detach", py_detach, METH_VARARGS, "detach(id): keep callbacks out of the consumer's queue."},
    {"attach", py_attach, METH_VARARGS, "attach(id): undo detach."},
    {"fetch", py_fetch, METH_VARARGS,
     "fetch(id, room, milliseconds, mark_name, mark_value): (partitions, failure), or how many\n"
     "events must be polled with the client first."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tidegate_bulk", "Many Kafka records in one call.", -1, methods, NULL, NULL, NULL, NULL,
};

enum { API = 2 }; /* raised when tidegate must call these functions in another way */

PyMODINIT_FUNC PyInit_tidegate_bulk(void) {
    PyObject *made = PyModule_Create(&module);
    PyObject *producer = made ? producer_type() : NULL;
    if (!producer || PyModule_AddIntConstant(made, "API", API) || PyModule_AddObjectRef(made, "Producer", producer))
        Py_CLEAR(made);
    Py_XDECREF(producer);
    return made;
}
