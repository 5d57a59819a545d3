"""`pytest --definition-coverage`: which definitions no test has run on the reference engine.

Every pytest worker notes the keys it has run in a file; at the end the controller lists what is missing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvrm.engine.reference import Reference
from kvrm.isa import definition as definition_module
from kvrm.isa.a64 import definitions

DIRECTORY = "definition-coverage"


class Coverage:
    """Notes each definition whose operation runs on a reference machine."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.keys: set[str] = set()
        plain = definition_module.Definition.run

        def run(definition, m, fields):
            if isinstance(m, Reference):
                self.keys.add(definition.key)
            plain(definition, m, fields)

        definition_module.Definition.run = run  # type: ignore[method-assign]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Leave the keys for the controller."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / f"{os.getpid()}.txt").write_text("\n".join(sorted(self.keys)))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the definitions that no worker has run."""
        seen = {key for file in self.directory.glob("*.txt") for key in file.read_text().split()}
        missing = [d for d in definitions if d.key not in seen]
        terminalreporter.section("definitions that no test has run")
        for d in missing:
            terminalreporter.line(f"{d.source}: {d.key} ({d.name})")
        terminalreporter.line(f"{len(missing)} of {len(definitions)}")


def configure(config: pytest.Config) -> None:
    """Start noting if the command line asks for it."""
    if config.getoption("--definition-coverage"):
        directory = Path(str(config.rootpath)) / ".pytest_cache" / DIRECTORY
        if not hasattr(config, "workerinput") and directory.exists():
            for file in directory.glob("*.txt"):
                file.unlink()
        config.pluginmanager.register(Coverage(directory), "definition-coverage")
