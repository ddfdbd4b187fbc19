"""One wheel for all Pythons from 3.11 on: only the stable ABI is used."""

from setuptools import Extension, setup

module = Extension(
    "tidegate_bulk",
    ["tidegate_bulk.c", "clients.c", "producers.c", "append.c"],
    depends=["columns.h", "librdkafka.h", "producers.h"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
    libraries=["dl", "pthread"],
    py_limited_api=True,
)
setup(ext_modules=[module], options={"bdist_wheel": {"py_limited_api": "cp311"}})
