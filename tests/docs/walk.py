"""Go through a page as a reader would: write its files, run its Python, type its commands, in this order."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.docs.console import PORT, Terminal, commands, fits, is_for_the_reader
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.running_app import running_app

from tidegate.errors import TidegateError
from tidegate.testing import Driver

Things = dict[str, Any]
"""What a page may use by name and does not make itself: `spark`."""


def walk(
    page: str, folder: Path, *, kafka: str = "", things: Things | None = None, text: str | None = None
) -> int:
    """Run a page and return how many blocks were run. Raise at the first that does something else."""
    port = str(_free_port())
    replaced = {PORT: port, **({"localhost:29092": kafka} if kafka else {})}
    with _path_kept(folder), ExitStack() as stack:
        reader = Reader(folder, stack, replaced, things or {})
        for block in blocks(page, text):
            reader.read(block)
        return reader.ran


@dataclass(slots=True)
class Reader:
    """Somebody who reads one page."""

    home: Path
    stack: ExitStack
    replaced: dict[str, str]
    things: Things
    folder: Path = field(init=False)
    terminal: Terminal = field(init=False)
    names: dict[str, Any] = field(init=False)
    printed: str = ""
    ran: int = 0
    begun: int = 0

    def __post_init__(self) -> None:
        self._start_over()

    def read(self, block: Block) -> None:
        """Run one block."""
        if "starts over" in block.directives:
            self._start_over()
        if name := block.directives.get("running"):
            self.stack.enter_context(running_app(name, self.folder))
        if "prints" in block.directives:
            assert fits(block.text.strip("\n"), self.printed), f"{block.place}: printed was\n{self.printed}"
        if not block.is_run:
            return
        if block.title:
            self._write(block)
        elif block.language == "python":
            self._run(block)
        else:
            self._type(block)
        self.ran += 1

    def _start_over(self) -> None:
        self.stack.close()
        _forget_modules(self.home)
        self.begun += 1
        self.folder = self.home / f"part-{self.begun}"
        self.folder.mkdir(parents=True)
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder))
        self.terminal = Terminal(self.folder, self.replaced)
        self.stack.callback(self.terminal.end_all)
        self.names = {"__name__": f"page_{self.begun}", **self.things}

    def _write(self, block: Block) -> None:
        """Make the file. A module is imported once, to see that it can be."""
        file = self.folder / block.title
        assert block.title in block.before, f"{block.place}: the text above does not name {block.title}"
        assert file.resolve().is_relative_to(self.folder), block.place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.terminal.here(block.text))
        _forget_modules(self.folder)
        if block.language == "python":
            importlib.invalidate_caches()
            importlib.import_module(".".join(Path(block.title).with_suffix("").parts))

    def _run(self, block: Block) -> None:
        before, printed = dict(self.names), io.StringIO()
        code = block.directives.get("raises")
        with contextlib.redirect_stdout(printed):
            try:
                exec(_compiled(block), self.names)  # noqa: S102 - our own page
            except TidegateError as error:
                if code is None or error.code != code:
                    raise
            else:
                assert code is None, f"{block.place}: it did not raise {code}"
            for name, found in list(self.names.items()):
                if name.startswith("test_") and before.get(name) is not found and callable(found):
                    self._call(found)
        self.printed = printed.getvalue()

    def _call(self, test: Callable[..., object]) -> None:
        """A test of the page, with the fixtures that it takes."""
        with ExitStack() as made:

            def driver(app: Any, **options: Any) -> Driver:
                return made.enter_context(Driver(app, **options))

            known = {"driver": driver, "tmp_path": self.folder, **self.things}
            test(**{name: known[name] for name in inspect.signature(test).parameters})

    def _type(self, block: Block) -> None:
        typed = [one for one in commands(block) if not is_for_the_reader(one.line)]
        for number, command in enumerate(typed, 1):
            _forget_modules(self.folder)
            last = number == len(typed)
            if last and "keeps running" in block.directives:
                self.terminal.leave_running(command)
            else:
                code = int(block.directives.get("exits with", 0)) if last else 0
                self.terminal.type(command, code=code, soon="soon" in block.directives)


def _compiled(block: Block) -> Any:
    """Its lines have the numbers that they have in the page."""
    return compile("\n" * block.line + block.text, str(ROOT / block.page), "exec", dont_inherit=True)


@contextmanager
def _path_kept(home: Path) -> Iterator[None]:
    """Leave the working folder, the import path and the loaded modules as they were."""
    folder, path, silent = Path.cwd(), list(sys.path), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # a file that is written twice within a second would be taken from there
    try:
        yield
    finally:
        os.chdir(folder)
        sys.path[:] = path
        sys.dont_write_bytecode = silent
        _forget_modules(home)


def _forget_modules(folder: Path) -> None:
    """Modules of the page are imported again: another page, or its next version, has others of that name."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_relative_to(folder):
            del sys.modules[name]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
