"""What influences results and cannot be seen in the source: by dotted name."""

from __future__ import annotations

_TABLE = {
    "environment": "os.environ os.environb os.getenv os.getenvb os.getcwd os.uname os.cpu_count os.getlogin "
    "pathlib.Path.cwd pathlib.Path.home os.path.expanduser os.path.expandvars platform socket.gethostname "
    "locale sys.argv sys.platform getpass dotenv",
    "clock": "time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns "
    "time.process_time time.localtime time.gmtime time.ctime time.asctime time.strftime "
    "datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today "
    "pandas.Timestamp.now pandas.Timestamp.today pandas.Timestamp.utcnow arrow.now arrow.utcnow pendulum.now",
    "random": "random secrets uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 uuid.uuid8 uuid.getnode os.urandom "
    "numpy.random torch.rand torch.randn torch.randint",
    "network": "socket ssl urllib.request urllib3 http.client ftplib smtplib imaplib poplib telnetlib xmlrpc "
    "asyncio.open_connection socketserver requests httpx httpx2 aiohttp websockets websocket grpc boto3 "
    "botocore psycopg psycopg2 asyncpg pymysql mysql sqlalchemy redis pymongo confluent_kafka kafka "
    "elasticsearch google.cloud azure paramiko",
    "file": "open io.open io.FileIO io.open_code os.open os.read os.listdir os.scandir os.walk os.stat "
    "os.path.exists os.path.isfile os.path.isdir os.path.getsize os.path.getmtime glob fileinput shelve dbm "
    "sqlite3 tempfile shutil zipfile.ZipFile tarfile.open gzip.open bz2.open lzma.open codecs.open mmap "
    "numpy.load numpy.loadtxt numpy.genfromtxt numpy.fromfile pandas.read_csv pandas.read_json "
    "pandas.read_parquet pandas.read_excel pandas.read_pickle pandas.read_table pandas.read_sql "
    "joblib.load torch.load pyarrow.parquet.read_table pyarrow.csv.read_csv importlib.resources "
    "pkgutil.get_data",
    "process": "subprocess os.system os.popen os.getpid os.getppid os.fork os.spawnl os.execv "
    "multiprocessing threading.get_ident threading.get_native_id pexpect sh",
    "dynamic": "eval exec __import__ importlib.import_module importlib.reload runpy "
    "ctypes cffi.FFI pickle.load pickle.loads dill cloudpickle marshal.load marshal.loads",
}
_BY_NAME = {name: what for what, names in _TABLE.items() for name in names.split()}
METHODS = {
    ".read_text": ("file", "Path.read_text"),
    ".read_bytes": ("file", "Path.read_bytes"),
    ".iterdir": ("file", "Path.iterdir"),
    ".rglob": ("file", "Path.rglob"),
}
"""Methods that are known by their name, whatever object they are called on."""
VOLATILE = {"clock", "random", "environment", "network", "process"}
"""What may differ between two processes of the same code: a constant that is computed from it is not
digested, it is named."""
EVERYTHING = {
    "importlib.import_module",
    "importlib.reload",
    "importlib.util",
    "importlib.metadata",
    "importlib.__import__",
    "pkgutil.iter_modules",
    "pkgutil.walk_packages",
    "pkgutil.resolve_name",
    "sys.modules",
    "runpy",
    "gc.get_objects",
    "builtins",
}
"""Ways to reach any name of the project."""
EVERYTHING_BUILTIN = {"eval", "exec", "globals", "__import__", "compile", "__builtins__"}
SOURCE_ITSELF = {
    "inspect",
    "traceback",
    "linecache",
    "tokenize",
    "ast.parse",
    "sys._getframe",
    "warnings.warn_explicit",
}
"""Ways to read the source with its comments and line numbers."""
SOURCE_ATTRIBUTES = {
    ".__doc__",
    ".__module__",
    ".__code__",
    ".__qualname__",
    ".__traceback__",
    ".__file__",
    ".__loader__",
}
NAMESPACES = {".__globals__", ".__builtins__", ".f_globals", ".f_builtins"}
"""Attributes that lead to any name of a module."""
AMBIENT = ("codecs", "locale")
"""Modules whose state changes results of code that does not mention them."""
NOT_ACTED_ON = {
    *("logging", "warnings", "atexit", "signal", "gc", "faulthandler", "typing"),
    *("pytest", "hypothesis"),  # else a step that is defined in a test reaches conftest.py, and all behind it
}
"""Modules outside of the project whose state does not change results."""


def unseen(path: str) -> tuple[str, str] | None:
    """Return what kind of unseen thing a dotted name is, with the part of the name that says so: of a whole
    module, the attribute is named as well (`requests.get`)."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        known = _BY_NAME.get(".".join(parts[:count]))
        if known is not None:
            return known, ".".join(parts[: count + (count == 1)])
    return None


def is_below(path: str, names: set[str]) -> bool:
    """Whether a dotted name, or what it is an attribute of, is one of the names."""
    while path:
        if path in names:
            return True
        path = path.rpartition(".")[0]
    return False
