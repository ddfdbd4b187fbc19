/* The plugin: learns of each client that is created with it, and forgets the client when it is destroyed.
 *
 * `load` finds librdkafka's functions in the library that confluent-kafka has already loaded, so that both use the
 * same one.
 */
#define _GNU_SOURCE
#include "librdkafka.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

struct librdkafka kafka;

typedef struct client {
    rd_kafka_t *rk;
    uint64_t id;
    struct client *next;
} client;

static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static client *clients;
static uint64_t last_id;
static _Thread_local uint64_t created_id; /* a client's constructor creates its rd_kafka_t on its own thread */

static rd_kafka_resp_err_t on_destroy(rd_kafka_t *rk, void *opaque) {
    (void)opaque;
    pthread_mutex_lock(&clients_lock);
    for (client **at = &clients; *at; at = &(*at)->next) {
        if ((*at)->rk == rk) {
            client *gone = *at;
            *at = gone->next;
            free(gone);
            break;
        }
    }
    pthread_mutex_unlock(&clients_lock);
    return 0;
}

static rd_kafka_resp_err_t on_new(rd_kafka_t *rk, const rd_kafka_conf_t *conf, void *opaque, char *errstr,
                                  size_t size) {
    (void)conf, (void)opaque, (void)errstr, (void)size;
    client *made = malloc(sizeof *made);
    if (!made) return 0; /* `created` then returns None */
    if (kafka.interceptor_add_on_destroy(rk, "tidegate_bulk", on_destroy, NULL)) {
        free(made);
        return 0;
    }
    made->rk = rk;
    pthread_mutex_lock(&clients_lock);
    made->id = created_id = ++last_id;
    made->next = clients;
    clients = made;
    pthread_mutex_unlock(&clients_lock);
    return 0;
}

/* librdkafka calls this for each configuration that names this file as a plugin. */
__attribute__((visibility("default"))) rd_kafka_resp_err_t conf_init(rd_kafka_conf_t *conf, void **opaque,
                                                                     char *errstr, size_t size) {
    (void)opaque, (void)errstr, (void)size;
    kafka.conf_interceptor_add_on_new(conf, "tidegate_bulk", on_new, NULL); /* refused if it was added before */
    return 0;
}

rd_kafka_t *client_of(unsigned long long id) {
    rd_kafka_t *found = NULL;
    pthread_mutex_lock(&clients_lock);
    for (client *at = clients; at && !found; at = at->next)
        if (at->id == id) found = at->rk;
    pthread_mutex_unlock(&clients_lock);
    if (!found) PyErr_SetString(PyExc_RuntimeError, "the Kafka client is closed");
    return found;
}

PyObject *load(PyObject *self, PyObject *args) {
    const char *client_path, *own_path;
    char errstr[256] = "";
    struct librdkafka found;
    (void)self;
    if (!PyArg_ParseTuple(args, "ss", &client_path, &own_path)) return NULL;
    void *library = dlopen(client_path, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return PyUnicode_FromString("confluent-kafka's library is not loaded");
#define X(result, name, arguments)                                                                                \
    if (!(*(void **)&found.name = dlsym(library, "rd_kafka_" #name)))                                             \
        return PyUnicode_FromString("librdkafka has no function rd_kafka_" #name);
    FUNCTIONS(X)
#undef X
    int major = found.version() >> 24;
    if (major != MAJOR_VERSION) return PyUnicode_FromFormat("librdkafka has version %d, not %d", major, MAJOR_VERSION);
    kafka = found;
    rd_kafka_conf_t *conf = kafka.conf_new();
    int refused = kafka.conf_set(conf, "plugin.library.paths", own_path, errstr, sizeof errstr);
    kafka.conf_destroy(conf);
    if (refused) return PyUnicode_FromFormat("librdkafka does not load it as a plugin: %s", errstr);
    Py_RETURN_NONE;
}

PyObject *created(PyObject *self, PyObject *unused) {
    uint64_t id = created_id;
    (void)self, (void)unused;
    created_id = 0;
    if (!id) Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(id);
}
