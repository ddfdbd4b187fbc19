/* Binary columns in Arrow's layout, in bytes objects. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* A binary column in Arrow's layout, in bytes objects: validity (NULL if nothing is null), offsets, data. */
typedef struct {
    PyObject *validity, *offsets, *data;
    uint8_t *bits;
    int32_t *ends;
    char *at;
    int64_t bytes, nulls;
    int32_t filled, row;
} binary;

static inline void clear_binary(binary *column) {
    Py_CLEAR(column->validity);
    Py_CLEAR(column->offsets);
    Py_CLEAR(column->data);
}

static inline PyObject *new_buffer(int64_t size, void *start) {
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (made) *(char **)start = PyBytes_AsString(made);
    return made;
}

static inline PyObject *new_bits(int64_t count, uint8_t **bits) {
    PyObject *made = new_buffer((count + 7) / 8, bits);
    if (made) memset(*bits, 0, (size_t)((count + 7) / 8));
    return made;
}

/* `bytes` and `nulls` are known; allocates for `count` rows. */
static inline int allocate_binary(binary *column, int64_t count) {
    if (column->bytes > INT32_MAX || count > INT32_MAX - 1) {
        PyErr_SetString(PyExc_OverflowError, "more than 2 GiB in one column");
        return 0;
    }
    if (column->nulls && !(column->validity = new_bits(count, &column->bits))) return 0;
    if (!(column->offsets = new_buffer((count + 1) * 4, &column->ends))) return 0;
    if (!(column->data = new_buffer(column->bytes, &column->at))) return 0;
    column->ends[0] = 0;
    return 1;
}

static inline void add_binary(binary *column, const void *data, size_t size) {
    if (data) {
        memcpy(column->at + column->filled, data, size);
        column->filled += (int32_t)size;
        if (column->bits) column->bits[column->row >> 3] |= (uint8_t)(1 << (column->row & 7));
    }
    column->ends[++column->row] = column->filled;
}

static inline void count_binary(binary *column, const void *data, size_t size) {
    if (data)
        column->bytes += (int64_t)size;
    else
        column->nulls++;
}

/* Steals the buffers. */
static inline PyObject *binary_tuple(binary *column) {
    PyObject *validity = column->validity ? column->validity : Py_NewRef(Py_None);
    PyObject *made = Py_BuildValue("(NNN)", validity, column->offsets, column->data);
    column->validity = column->offsets = column->data = NULL;
    return made;
}
