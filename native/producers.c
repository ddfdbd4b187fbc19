/* A producer that queues columns of records in one call.
 *
 * It is a client of its own: confluent-kafka attaches state to each record that it sends and expects it in delivery
 * reports, so records cannot be added to its producers. This one keeps of all reports what a transaction needs: the
 * offset after the last record of each partition, the first refusal, and the first offset that cannot be true.
 *
 * Reports, logs and errors are handled inside of `poll`, `flush` and the calls that end transactions, on the calling
 * thread, with the GIL released. Only logs and errors call Python.
 */
#include "producers.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCER = 0, FATAL = -150 };

/* --- callbacks of librdkafka ------------------------------------------------------------------------------- */

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
    producer *own = opaque;
    target *to = message->_private;
    (void)rk;
    pthread_mutex_lock(&own->lock);
    if (message->err) {
        if (!own->refused_by) own->refused_by = to, own->refused = message->err;
    } else if (message->offset < to->next) {
        if (!own->misreported_by)
            own->misreported_by = to, own->misreported = message->offset, own->lowest = to->next;
    } else {
        to->next = message->offset + 1;
    }
    pthread_mutex_unlock(&own->lock);
}

/* Steals `arguments`. An error in a callback is reported and ignored. An interrupt ends the call of librdkafka that the
 * callback runs in, and is raised by `returned`. */
static void call_python(producer *own, PyObject *callable, PyObject *arguments) {
    PyObject *result = arguments ? PyObject_CallObject(callable, arguments) : NULL;
    if (!result && (PyErr_ExceptionMatches(PyExc_Exception) || own->raised[0])) {
        PyErr_WriteUnraisable(callable);
    } else if (!result) {
        PyErr_Fetch(&own->raised[0], &own->raised[1], &own->raised[2]);
        kafka.yield(own->rk);
    }
    Py_XDECREF(result);
    Py_XDECREF(arguments);
}

/* What a call of librdkafka returned; NULL with the exception if a callback was interrupted meanwhile. */
static PyObject *returned(producer *own, PyObject *result) {
    if (!own->raised[0]) return result;
    Py_XDECREF(result);
    PyErr_Restore(own->raised[0], own->raised[1], own->raised[2]);
    own->raised[0] = own->raised[1] = own->raised[2] = NULL;
    return NULL;
}

static void logged(const rd_kafka_t *rk, int level, const char *facility, const char *text) {
    producer *own = kafka.opaque(rk);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *shown = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    call_python(own, own->on_log, shown ? Py_BuildValue("(issN)", level, facility, kafka.name(rk), shown) : NULL);
    PyGILState_Release(state);
}

static void failed(rd_kafka_t *rk, int code, const char *reason, void *opaque) {
    producer *own = opaque;
    (void)rk;
    if (code == FATAL) return; /* `flush` and the next transactional call return it */
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *shown = PyUnicode_DecodeUTF8(reason, (Py_ssize_t)strlen(reason), "replace");
    call_python(own, own->on_error, shown ? Py_BuildValue("(iN)", code, shown) : NULL);
    PyGILState_Release(state);
}

/* --- creating and destroying ------------------------------------------------------------------------------- */

/* Applies a list of pairs of strings; 0 with a ValueError if librdkafka refuses one. */
static int configure(rd_kafka_conf_t *conf, PyObject *settings) {
    char errstr[512] = "";
    Py_ssize_t count = PyList_Size(settings);
    if (count < 0) return 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        const char *name, *value;
        if (!PyArg_ParseTuple(PyList_GetItem(settings, index), "ss", &name, &value)) return 0;
        if (kafka.conf_set(conf, name, value, errstr, sizeof errstr)) {
            PyErr_Format(PyExc_ValueError, "%s: %s", name, errstr);
            return 0;
        }
    }
    if (kafka.conf_set(conf, "log.queue", "true", errstr, sizeof errstr)) {
        PyErr_SetString(PyExc_ValueError, errstr);
        return 0;
    }
    return 1;
}

static PyObject *producer_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *settings, *on_log, *on_error;
    char errstr[512] = "";
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!OO", &PyList_Type, &settings, &on_log, &on_error)) return NULL;
    if (!kafka.version) return PyErr_Format(PyExc_RuntimeError, "librdkafka was not loaded");
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    producer *own = (producer *)allocate(type, 0);
    if (!own) return NULL;
    pthread_mutex_init(&own->lock, NULL);
    own->on_log = Py_NewRef(on_log);
    own->on_error = Py_NewRef(on_error);
    rd_kafka_conf_t *conf = kafka.conf_new();
    if (!configure(conf, settings)) {
        kafka.conf_destroy(conf);
        Py_DECREF(own);
        return NULL;
    }
    kafka.conf_set_opaque(conf, own);
    kafka.conf_set_dr_msg_cb(conf, delivered);
    kafka.conf_set_log_cb(conf, logged);
    kafka.conf_set_error_cb(conf, failed);
    Py_BEGIN_ALLOW_THREADS;
    own->rk = kafka.new(PRODUCER, conf, errstr, sizeof errstr);
    Py_END_ALLOW_THREADS;
    if (!own->rk) {
        kafka.conf_destroy(conf);
        PyErr_SetString(PyExc_ValueError, errstr);
        Py_DECREF(own);
        return NULL;
    }
    kafka.set_log_queue(own->rk, NULL); /* to the main queue, which is polled */
    return (PyObject *)own;
}

static void producer_dealloc(PyObject *self) {
    producer *own = (producer *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (own->rk) {
        Py_BEGIN_ALLOW_THREADS;
        for (target *at = own->targets; at; at = at->following) kafka.topic_destroy(at->rkt);
        kafka.destroy(own->rk);
        Py_END_ALLOW_THREADS;
    }
    while (own->targets) {
        target *gone = own->targets;
        own->targets = gone->following;
        free(gone);
    }
    pthread_mutex_destroy(&own->lock);
    Py_XDECREF(own->on_log);
    Py_XDECREF(own->on_error);
    for (int part = 0; part < 3; part++) Py_XDECREF(own->raised[part]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* --- methods ----------------------------------------------------------------------------------------------- */

PyObject *error_result(rd_kafka_error_t *error) {
    if (!error) Py_RETURN_NONE;
    const char *text = kafka.error_string(error);
    PyObject *shown = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"), *made = NULL;
    if (shown)
        made = Py_BuildValue("(iNNNN)", kafka.error_code(error), shown, PyBool_FromLong(kafka.error_is_fatal(error)),
                             PyBool_FromLong(kafka.error_is_retriable(error)),
                             PyBool_FromLong(kafka.error_txn_requires_abort(error)));
    kafka.error_destroy(error);
    return made;
}

static PyObject *py_poll(PyObject *self, PyObject *args) {
    int timeout;
    if (!PyArg_ParseTuple(args, "i", &timeout)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    kafka.poll(((producer *)self)->rk, timeout);
    Py_END_ALLOW_THREADS;
    return returned((producer *)self, Py_NewRef(Py_None));
}

static PyObject *py_flush(PyObject *self, PyObject *args) {
    rd_kafka_t *rk = ((producer *)self)->rk;
    rd_kafka_resp_err_t fatal;
    char text[512] = "";
    int timeout, left;
    if (!PyArg_ParseTuple(args, "i", &timeout)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    left = kafka.flush(rk, timeout) ? kafka.outq_len(rk) : 0;
    fatal = kafka.fatal_error(rk, text, sizeof text);
    Py_END_ALLOW_THREADS;
    if (!fatal) return returned((producer *)self, Py_BuildValue("(iO)", left, Py_None));
    PyObject *shown = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (!shown) return NULL;
    return returned((producer *)self, Py_BuildValue("(i(iNOOO))", left, fatal, shown, Py_True, Py_False, Py_False));
}

static PyObject *py_cluster_id(PyObject *self, PyObject *args) {
    rd_kafka_t *rk = ((producer *)self)->rk;
    char *id;
    int timeout;
    if (!PyArg_ParseTuple(args, "i", &timeout)) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    id = kafka.clusterid(rk, timeout);
    Py_END_ALLOW_THREADS;
    if (!id) Py_RETURN_NONE;
    PyObject *found = PyUnicode_FromString(id);
    kafka.mem_free(rk, id);
    return found;
}

#define TRANSACTION(what)                                                                                         \
    static PyObject *py_##what(PyObject *self, PyObject *args) {                                                  \
        rd_kafka_error_t *error;                                                                                  \
        int timeout;                                                                                              \
        if (!PyArg_ParseTuple(args, "i", &timeout)) return NULL;                                                  \
        Py_BEGIN_ALLOW_THREADS;                                                                                   \
        error = kafka.what(((producer *)self)->rk, timeout);                                                      \
        Py_END_ALLOW_THREADS;                                                                                     \
        return returned((producer *)self, error_result(error));                                                   \
    }
TRANSACTION(init_transactions)
TRANSACTION(commit_transaction)
TRANSACTION(abort_transaction)
#undef TRANSACTION

static PyObject *py_begin_transaction(PyObject *self, PyObject *unused) {
    (void)unused;
    return error_result(kafka.begin_transaction(((producer *)self)->rk));
}

static PyObject *py_next_offset(PyObject *self, PyObject *args) {
    producer *own = (producer *)self;
    const char *topic;
    int partition;
    int64_t next = 0; /* no report yet */
    if (!PyArg_ParseTuple(args, "si", &topic, &partition)) return NULL;
    pthread_mutex_lock(&own->lock);
    for (const target *at = own->targets; at; at = at->following)
        if (at->partition == partition && !strcmp(kafka.topic_name(at->rkt), topic)) next = at->next;
    pthread_mutex_unlock(&own->lock);
    return next ? PyLong_FromLongLong(next) : PyErr_Format(PyExc_KeyError, "%s/%d", topic, partition);
}

static PyObject *py_refused(PyObject *self, PyObject *unused) {
    producer *own = (producer *)self;
    (void)unused;
    pthread_mutex_lock(&own->lock);
    const target *by = own->refused_by;
    int code = own->refused;
    pthread_mutex_unlock(&own->lock);
    if (!by) Py_RETURN_NONE;
    return Py_BuildValue("(si)", kafka.topic_name(by->rkt), code);
}

static PyObject *py_misreported(PyObject *self, PyObject *unused) {
    producer *own = (producer *)self;
    (void)unused;
    pthread_mutex_lock(&own->lock);
    const target *by = own->misreported_by;
    long long offset = own->misreported, lowest = own->lowest;
    pthread_mutex_unlock(&own->lock);
    if (!by) Py_RETURN_NONE;
    return Py_BuildValue("(siLL)", kafka.topic_name(by->rkt), by->partition, offset, lowest);
}

static PyObject *py_reset(PyObject *self, PyObject *unused) {
    producer *own = (producer *)self;
    (void)unused;
    pthread_mutex_lock(&own->lock);
    own->refused_by = own->misreported_by = NULL;
    pthread_mutex_unlock(&own->lock);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"append", py_append, METH_VARARGS,
     "append(topic, partition, begin, count, times, keys, values, headers, mark_name, mark_value):\n"
     "queue rows; (how many, error or None), fewer without an error if librdkafka's queue is full."},
    {"poll", py_poll, METH_VARARGS, "poll(milliseconds): handle reports, logs and errors."},
    {"flush", py_flush, METH_VARARGS, "flush(milliseconds): send what is queued; (how many records are left, fatal error or None)."},
    {"cluster_id", py_cluster_id, METH_VARARGS, "cluster_id(milliseconds): wait for it; None if no broker answers."},
    {"init_transactions", py_init_transactions, METH_VARARGS, "init_transactions(milliseconds): error or None."},
    {"begin_transaction", py_begin_transaction, METH_NOARGS, "begin_transaction(): error or None."},
    {"commit_transaction", py_commit_transaction, METH_VARARGS, "commit_transaction(milliseconds): error or None."},
    {"abort_transaction", py_abort_transaction, METH_VARARGS, "abort_transaction(milliseconds): error or None."},
    {"next_offset", py_next_offset, METH_VARARGS,
     "next_offset(topic, partition): the offset after the last reported record; KeyError if there is none."},
    {"refused", py_refused, METH_NOARGS, "refused(): (topic, code) of the first record that was refused, or None."},
    {"misreported", py_misreported, METH_NOARGS,
     "misreported(): (topic, partition, offset, lowest) of the first impossible offset, or None."},
    {"reset", py_reset, METH_NOARGS, "reset(): forget what was refused and misreported."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, producer_new},
    {Py_tp_dealloc, producer_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Producer(settings, on_log, on_error): a producer that queues columns of records."},
    {0, NULL},
};

static PyType_Spec spec = {"tidegate_bulk.Producer", sizeof(producer), 0, Py_TPFLAGS_DEFAULT, slots};

PyObject *producer_type(void) { return PyType_FromSpec(&spec); }
