from __future__ import annotations

import os
import threading
from pathlib import Path

from hpo_ops.protocol import Outcome
from hpo_ops.runners.local._script_imports import third_party_imports
from hpo_ops.runners.local._warm_starter import WarmStarter
from tests.runners.conftest import Bench, fork_server_of, has_ended

REPORTS = """
import os, sys
from hpo_ops.sdk import trial
trial.report(1, 1)
print(os.getppid())
"""


def test_trials_share_one_fork_server(warm_bench: Bench, runtime: Path) -> None:
    for _ in range(3):
        assert warm_bench.run(REPORTS).outcome is Outcome.COMPLETED
    (path,) = runtime.glob("*.sock")
    assert {int(line) for line in warm_bench.lines} == {fork_server_of(path)}
    assert path.parent.stat().st_mode & 0o077 == 0


def test_trials_that_start_together_share_one_fork_server(tmp_path: Path, runtime: Path) -> None:
    benches = []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        benches.append(Bench(tmp_path / str(number), WarmStarter(runtime)))
    threads = [threading.Thread(target=bench.run, args=[REPORTS]) for bench in benches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({bench.lines[0] for bench in benches}) == 1
    assert len(list(runtime.glob("*.sock"))) == 1


def test_the_script_is_read_anew_and_its_imports_are_there_already(warm_bench: Bench) -> None:
    warm_bench.run("import sys\nprint('yaml' in sys.modules)\nimport numpy")
    assert warm_bench.lines == ["True"]
    (warm_bench.code / "beside.py").write_text("VALUE = 1")
    warm_bench.run("import beside\nprint(beside.VALUE)")
    (warm_bench.code / "beside.py").write_text("VALUE = 'another'")
    warm_bench.run("import beside\nprint(beside.VALUE)")
    assert warm_bench.lines[1:] == ["1", "another"]


def test_unseeded_draws_differ_between_trials(warm_bench: Bench) -> None:
    for _ in range(2):
        warm_bench.run("import numpy, random\nprint(numpy.random.rand(), random.random())")
    (first, second), (third, fourth) = (line.split() for line in warm_bench.lines)
    assert first != third
    assert second != fourth


def test_an_idle_fork_server_ends_and_leaves_no_socket(tmp_path: Path, runtime: Path) -> None:
    bench = Bench(tmp_path, WarmStarter(runtime, idle_seconds=0.2))
    bench.run(REPORTS)
    assert has_ended(int(bench.lines[0]))
    assert not list(runtime.glob("*.sock"))
    assert bench.run(REPORTS).outcome is Outcome.COMPLETED


def test_a_dead_fork_server_is_replaced(warm_bench: Bench, runtime: Path) -> None:
    warm_bench.run(REPORTS)
    os.kill(int(warm_bench.lines[0]), 9)
    assert has_ended(int(warm_bench.lines[0]))
    assert warm_bench.run(REPORTS).outcome is Outcome.COMPLETED
    (path,) = runtime.glob("*.sock")
    assert int(warm_bench.lines[1]) == fork_server_of(path) != int(warm_bench.lines[0])


def test_a_folder_that_others_can_enter_is_not_used(warm_bench: Bench, runtime: Path) -> None:
    runtime.chmod(0o755)
    assert warm_bench.run(REPORTS).outcome is Outcome.COMPLETED
    assert not list(runtime.iterdir())


def test_imports_that_start_threads_are_not_forked(
    warm_bench: Bench, runtime: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "threaded.py").write_text(
        "import threading\n"
        "event = threading.Event()\n"
        "threading.Thread(target=event.wait, daemon=True).start()\n"
    )
    for _ in range(2):
        result = warm_bench.run(
            "import threaded" + REPORTS, environment={"PYTHONPATH": str(library)}
        )
        assert result.outcome is Outcome.COMPLETED
    assert not list(runtime.glob("*.sock"))
    assert len(list(runtime.glob("*.unfit"))) == 1


def test_an_import_that_fails_is_left_to_the_script(warm_bench: Bench) -> None:
    result = warm_bench.run("import no_such_module")
    assert result.outcome is Outcome.FAILED
    assert result.reason == ("exit code 1: ModuleNotFoundError: No module named 'no_such_module'")


def test_what_is_preloaded(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from __future__ import annotations\n"
        "import os, model, package.part\n"
        "from torch import nn\n"
        "from hpo_ops.sdk import trial\n"
        "try:\n    import optional_thing\nexcept ImportError: pass\n"
        "def later(): import not_at_the_top\n"
    )
    (tmp_path / "model.py").write_text("import sklearn.datasets as data, train\nfrom . import x")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "part.py").write_text("import numpy\nif (")
    assert third_party_imports(script) == [
        ("hpo_ops.sdk", ("trial",)),
        ("optional_thing", ()),
        ("sklearn.datasets", ()),
        ("torch", ("nn",)),
        ("torch._dynamo", ()),
    ]
