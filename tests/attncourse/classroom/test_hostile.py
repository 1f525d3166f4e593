"""Hostile notebooks: what each tries fails, and the others have their grades."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import attnlib
from attncourse.classroom import grade as grading
from attncourse.classroom import sandbox
from attncourse.classroom.exercises import find_exercises, put, source
from attncourse.classroom.grade import DONE, INSIDE, Grade
from attncourse.classroom.lessons import course, lessons, read_notebook, write_notebook
from attncourse.classroom.sandbox import NoWallsError, run_script, walls
from support.class_tools import RIGHT, answered, lesson

CI_MUST = bool(os.environ.get("CI")) and sys.platform == "linux"
ENDLESS = f"{RIGHT}\n\n\nwhile True:\n    pass"


@pytest.fixture(scope="module")
def behind() -> tuple[str, ...]:
    try:
        return walls()
    except NoWallsError as error:
        if CI_MUST:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module", autouse=True)
def small_course(tmp_path_factory) -> Iterator[None]:
    path = tmp_path_factory.mktemp("course") / "01_lesson.ipynb"
    write_notebook(lesson("again"), path)
    real = lessons()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grading, "lessons", lambda: [path, *real])
        grading._solve.cache_clear()
        yield
    grading._solve.cache_clear()


def grade(mine: dict, folder: Path, behind: tuple[str, ...], seconds: float = 20) -> list[Grade]:
    write_notebook(mine, folder / "mine.ipynb")
    ((_, found),) = grading.grade([folder / "mine.ipynb"], behind, seconds)
    return found


# Ways out. Each says in `won` whether it found what a notebook must not reach. They are tried in
# one Python, and once more without walls, which shows that each is a way.

KEPT = "pathlib.Path({folder!r}, 'kept')"
OWN = "own = pathlib.Path({attnlib!r}, 'written')\n"
REMOUNT = (
    OWN
    + """
for place in ["/", *map(str, own.parents)]:
    for root in ([], ["unshare", "-Urm"]):
        subprocess.run([*root, "mount", "-o", "remount,bind,rw", place], capture_output=True)
own.write_text("x")
own.unlink()
won = True"""
)
WAYS = {
    "reads a classmate": "won = 'kept' in " + KEPT + ".read_text()",
    "writes outside": KEPT + ".write_text('changed')\nwon = True",
    "reads the solutions": "won = bool(os.listdir({solutions!r}))",
    "remounts": REMOUNT,
    "host socket": "socket.socket(socket.AF_UNIX).connect({folder!r} + '/socket')\nwon = True",
    "abstract socket": "socket.socket(socket.AF_UNIX).connect('\\0{name}')\nwon = True",
    "network": "socket.create_connection(('127.0.0.1', {port}), timeout=5)\nwon = True",
    "bus, docker, X11": "won = any(os.path.exists(one) for one in ('/run', '/var/run'))",
    "other processes": "won = any(b'{name}' in one.read_bytes() for one in "
    "pathlib.Path('/proc').glob('[0-9]*/cmdline'))",
    "environment": "won = '{name}' in str(os.environ)",
    "namespaces": "won = any(os.readlink('/proc/self/ns/' + kind) == inode for kind, inode in "
    "{namespaces}.items())",
    "new privileges": "won = 'NoNewPrivs:\\t0' in open('/proc/self/status').read()",
    "disk": "for one in 'ab':\n    with open(one, 'wb') as file:\n"
    "        os.posix_fallocate(file.fileno(), 0, 150 << 20)\nwon = True",
    "processes": "started = []\nwon = False\ntry:\n"
    "    while len(started) < 300:\n"
    "        started.append(subprocess.Popen(['sleep', '60']))\n    won = True\n"
    "finally:\n    for one in started:\n        one.kill()\n        one.wait()",
}
# What root alone could do is not tried without walls.
FOR_ROOT = {
    "capabilities": "status = open('/proc/self/status').read().split('\\n')\n"
    "won = any(int(line[8:], 16) for line in status if line.startswith('Cap'))",
    "kernel settings": "won = any(os.access(one, os.W_OK) for one in "
    "('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/sys/vm/overcommit_memory'))",
    "devices": "won = any(one.is_block_device() for one in pathlib.Path('/dev').rglob('*'))",
}


@pytest.fixture
def host(tmp_path, monkeypatch) -> Iterator[dict]:
    """What a notebook might reach, by the names that it has in the ways out."""
    name = "attnlib-hostile-test"
    (tmp_path / "kept").write_text("kept")
    monkeypatch.setenv("ATTNLIB_SECRET", name)
    kinds = ("ipc", "mnt", "net", "pid", "uts")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen([sys.executable, "-c", "input()", name], stdin=subprocess.PIPE) as other,
    ):
        for one, address in ((named, f"{tmp_path}/socket"), (abstract, f"\0{name}")):
            one.bind(address)
            one.listen()
        yield {
            "folder": str(tmp_path),
            "solutions": str(course() / "notebooks"),
            "attnlib": str(Path(attnlib.__file__).parent),
            "name": name,
            "port": server.getsockname()[1],
            "namespaces": {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in kinds},
        }
        other.kill()


def run_job(job: list[list[str]], behind: tuple[str, ...]) -> dict[str, list]:
    """Run cells in one Python; return by their names what they told."""
    told = run_script(INSIDE, json.dumps(job), 60, behind).told.splitlines()
    return {name: one for name, *one in map(json.loads, told)}


def try_ways(ways: dict[str, str], host: dict, behind: tuple[str, ...]) -> dict[str, str]:
    """Return what each way says of itself, or of the error that it ends in."""
    job = [["space", "import os, pathlib, socket, subprocess", ""]]
    for way, code in ways.items():
        for name, value in host.items():
            code = code.replace(f"{{{name}!r}}", repr(value)).replace(f"{{{name}}}", str(value))
        tried = "\n    ".join(code.splitlines())
        cell = f"def way():\n    {tried}\n    return won\n\n\ntry:\n    print(way())\n"
        job.append([way, f"{cell}except OSError:\n    print(False)", ""])
    return {name: one[1] for name, one in run_job(job, behind).items() if name != "space"}


def test_no_way_leads_out(tmp_path, host, behind):
    ways = WAYS | FOR_ROOT
    assert try_ways(ways, host, behind) == dict.fromkeys(ways, "False")
    assert (tmp_path / "kept").read_text() == "kept"


@pytest.mark.skipif(sys.platform != "linux", reason="the ways are those of Linux")
def test_without_walls_each_way_leads_out(host):
    ways = {way: code for way, code in WAYS.items() if way != "remounts"}
    assert try_ways(ways, host, ()) == dict.fromkeys(ways, "True")


# Notebooks that take too much, or end what they run in.


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (ENDLESS, "took longer than 1 seconds"),
        (f"import time\n{RIGHT}\ntime.sleep(90)", "took longer than 1 seconds"),
        (f"{RIGHT}\nwhile True:\n    print('x' * 1_000_000)", "took longer than 1 seconds"),
        (f"{RIGHT}\nimport os\nos._exit(0)", "Python ended (status 0)"),
        (f"{RIGHT}\nimport os\nos.kill(os.getpid(), 9)", "Python ended (status 137)"),
        (
            f"import os\n{RIGHT}\nfor one in range(3, 20):\n    try:\n        while True:\n"
            "            os.write(one, b'x' * 1_000_000)\n    except OSError:\n        pass",
            "told more than 10 MB",
        ),
    ],
    ids=["endless", "asleep", "prints", "exits", "kills itself", "tells"],
)
def test_it_costs_its_own_exercise_alone(tmp_path, behind, monkeypatch, code, said):
    grade(lesson("again"), tmp_path, behind, seconds=1)  # runs the course's own solutions, once
    runs, run = [], grading.run_script
    monkeypatch.setattr(grading, "run_script", lambda *given: runs.append(1) or run(*given))
    mine = answered(code, "again")
    mine["cells"][5]["source"] = mine["cells"][5]["source"].replace(
        "raise NotImplementedError", "return 2 * number"
    )
    first, second = grade(mine, tmp_path, behind, seconds=1)
    assert (first.state, first.said) == ("failed", said)
    assert second.state == "solved"
    assert len(runs) == 2  # with the first exercise, and without it


def test_it_can_end_nobody_else(tmp_path, behind):
    code = (
        f"import os\nfor one in (1, -1):\n    try: os.kill(one, 9)\n    except OSError: 0\n{RIGHT}"
    )
    assert grade(answered(code, "again"), tmp_path, behind)[0].state == "solved"


def test_what_hangs_everywhere_ends_after_a_while(tmp_path, behind, monkeypatch):
    monkeypatch.setattr(grading, "IN_ALL", 1)
    mine = answered(ENDLESS, "again")
    mine["cells"][5]["source"] += "\n\n\nwhile True: pass"
    began = time.monotonic()
    found = grade(mine, tmp_path, behind, seconds=1)
    assert [one.said for one in found] == ["took longer than 1 seconds"] * 2
    assert time.monotonic() - began < 60


def test_no_notebook_takes_all_memory(tmp_path, behind, monkeypatch):
    one, _ = grade(answered(f"x = bytearray(9 << 30)\n\n\n{RIGHT}", "again"), tmp_path, behind)
    assert (one.state, one.said) == ("attempted", "MemoryError")
    monkeypatch.setattr(sandbox, "MEMORY", 300_000_000)
    both = "x = bytearray(150_000_000)\nimport os\nif os.fork() == 0:\n    x[::4096] = b'x' * 36622"
    hang = "import time\ntime.sleep(90)"
    one, _ = grade(answered(f"{both}\n{hang}\n{RIGHT}", "again"), tmp_path, behind)
    assert (one.state, one.said) == ("failed", "took more than 0.3 GB of memory")


def test_what_waits_for_a_busy_processor_is_not_ended(monkeypatch):
    monkeypatch.setattr(sandbox, "START", 0.0)
    job = json.dumps([["a", "import time\ntime.sleep(2)", ""]])
    assert run_script(INSIDE, job, 1.0).why == "took longer than 1 seconds"
    monkeypatch.setattr(sandbox, "_look", lambda _: (0.1, 0, True))  # it could, and may not
    waited = run_script(INSIDE, job, 1.0)
    assert waited.told.startswith(b'["a", "ran"')
    assert waited.seconds == pytest.approx(0.1)


def test_nothing_that_was_started_is_left(tmp_path, behind):
    code = "import subprocess\nfor new in (True, False):\n    subprocess.Popen(['sleep', '883'], "
    grade(answered(f"{code}start_new_session=new)\n{ENDLESS}", "again"), tmp_path, behind, 1)
    while any(b"sleep\x00883\x00" in one for one in commands()):  # pytest-timeout has patience
        time.sleep(0.1)


def commands() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended in the meantime
            found.append(path.read_bytes())
    return found


# Whose work an answer is

OURS = "inherits from attnlib's CausalAttention"
CALLS = "calls attnlib's CausalAttention"
MODULE = """class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        sizes = d_in, d_out, context_length, dropout, qkv_bias
        self.d_in, self.context_length = d_in, context_length
        self.W_query, self.W_key, self.W_value = (
            nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)
        )
        self.dropout = nn.Dropout(dropout)
        self.inner = {inner}

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        hidden = attnlib.causal_mask(x.shape[1])
        return {returned}"""
SCORES = "(q @ k.mT / k.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)"
BY_HAND = f"self.dropout({SCORES}.softmax(-1)) @ v"
ATTENTION = "attention(q, k, v, hidden, self.dropout)[0]"
SDPA = "F.scaled_dot_product_attention(q, k, v, ~hidden, self.dropout.p * self.training)"
PUBLISHED = "attnlib.CausalAttention.forward"
AUTHORS = {
    "by hand": (MODULE.format(inner=None, returned=BY_HAND), set()),
    "on their own": (MODULE.format(inner=None, returned=BY_HAND).replace("CausalA", "MyA")
        + "\n\n\nclass CausalAttention(MyAttention):\n    pass", set()),
    "compares": (MODULE.format(inner=None, returned=BY_HAND)
        + "\n\n\nattnlib.CausalAttention(2, 2, 3, 0.0)(torch.ones(1, 3, 2))", set()),
    "inherits": ("class CausalAttention(attnlib.CausalAttention):\n    pass", {OURS, CALLS}),
    "by a star": ("from attnlib import *\n\n\nclass CausalAttention(CausalAttention):\n    pass",
        {OURS, CALLS}),
    "inherits all but forward": (
        "class CausalAttention(attnlib.CausalAttention):\n    def forward(self, x):\n"
        "        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)\n"
        f"        hidden = attnlib.causal_mask(x.shape[1])\n        return {BY_HAND}", {OURS}),
    "another name": ("CausalAttention = attnlib.CausalAttention",
        {"is attnlib's CausalAttention"}),
    "partial": ("CausalAttention = functools.partial(attnlib.CausalAttention)",
        {"is attnlib's CausalAttention"}),
    "returns": ("def CausalAttention(**sizes):\n    return attnlib.CausalAttention(**sizes)",
        {CALLS}),
    "around": (MODULE.format(inner="attnlib.CausalAttention(*sizes)", returned="self.inner(x)"),
        {CALLS}),
    "its forward": (MODULE.format(inner=None, returned=f"{PUBLISHED}(self, x)"), {CALLS}),
    "attention": (MODULE.format(inner=None, returned=f"attnlib.{ATTENTION}"),
        {"calls attnlib's attention"}),
    "sdpa": (MODULE.format(inner=None, returned=SDPA),
        {"calls torch's scaled_dot_product_attention"}),
    "torch": (
        MODULE.format(inner="nn.MultiheadAttention(d_out, 1)", returned="self.inner(q, k, v)[0]"),
        {"calls torch's MultiheadAttention", "calls torch's multi_head_attention_forward"}),
}  # fmt: skip
UNWATCHED = """CausalAttention(attnlib.CausalAttention):
    def forward(self, x):
        watch = sys.getprofile()
        sys.setprofile(None)
        try:
            return super().forward(x)
        finally:
            sys.setprofile(watch)"""
THREAD = """found = []
        there = threading.Thread(target=lambda: found.extend(attnlib.attention(q, k, v, hidden)))
        there.start()
        there.join()
        return found[0]"""
AUTHORS |= {
    "pickled": (r"CausalAttention = pickle.loads(b'cattnlib\nCausalAttention\n.')",
        {"is attnlib's CausalAttention"}),
    "by type": ("CausalAttention = type('CausalAttention', (attnlib.CausalAttention,), {})",
        {OURS, CALLS}),
    "becomes it": (MODULE.format(inner="sizes", returned="x").replace("= sizes\n",
        "= None\n        self.__class__ = attnlib.CausalAttention\n"),
        {"becomes attnlib's CausalAttention"}),
    "its code": (MODULE.format(inner=None, returned="x") + "\n\n\nCausalAttention.forward = "
        "types.FunctionType(attnlib.CausalAttention.forward.__code__, globals(), None, (False,))",
        {"runs the code of attnlib's CausalAttention"}),
    "unwatched": (f"class {UNWATCHED}", {OURS, "stops what watches it"}),
    "by exec": ("made = types.ModuleType('made')\nexec('import attnlib\\ndef make(**sizes): '"
        "'return attnlib.CausalAttention(**sizes)', vars(made))\nCausalAttention = made.make",
        {CALLS}),
    "in a thread": (MODULE.format(inner=None, returned="0").replace("return 0", THREAD),
        {"calls attnlib's attention"}),
}  # fmt: skip
FUNCTIONS = {
    "of the same name": ("from attncourse.checks.by_hand import is_causal",
        {"is attncourse's is_causal"}),
    "called": ("from attncourse.checks import by_hand\n\n\n"
        "def is_causal(*given):\n    return by_hand.is_causal(*given)",
        {"calls attncourse's is_causal"}),
    "calls what it is given": ("def is_causal(module, x):\n    return module(x) is not x", set()),
}  # fmt: skip


def test_an_answer_is_made_of_the_learners_own_lines(behind):
    """All in one Python; the check is the course's own, so the right ones are right."""
    space = "import functools, pickle, sys, threading, types, torch, attnlib\nfrom torch import nn"
    space += "\nimport torch.nn.functional as F"
    space += "\nfrom attncourse.checks import check_causal_attention, check_is_causal"
    job = [["space", space, ""]]
    for check, answers in (("CausalAttention", AUTHORS), ("is_causal", FUNCTIONS)):
        function = {"CausalAttention": "check_causal_attention"}.get(check, "check_is_causal")
        for name, (code, _) in answers.items():
            job += [[f"{name}: written", code, ""], [name, f"{function}({check})", check]]
    told = run_job(job, behind)
    assert not {name: told[name][:2] for name in told if told[name][0] not in DONE}
    found = {name: set(told[name][2]) for name in (*AUTHORS, *FUNCTIONS)}
    assert found == {name: borrowed for name, (_, borrowed) in (AUTHORS | FUNCTIONS).items()}
    wrong = [name for name in AUTHORS if told[name][0] != "held"]
    assert wrong == ["around", "torch", "its code", "in a thread"]  # parameters, names, dropout


# Who judges an answer

REPLACED = {  # by what always says yes, or what is right
    "attncourse.checks.check_is_causal": "lambda _: right",
    "attncourse.checks.verdict.Verdict.__repr__": "lambda _: said",
    "attncourse.checks.by_hand.noted": "lambda *_: right",
    "torch.allclose": "lambda *_, **__: True",
    "builtins.all": "lambda _: True",
}
OTHERWISE = {
    "another `checks`": "class checks:\n    check_is_causal = staticmethod(lambda _: right)",
    "another module": "sys.modules['attncourse.checks'] = attncourse.checks = fake = "
    "types.ModuleType('checks')\nfake.check_is_causal = lambda _: right",
    "another look": "get_ipython().display_formatter.formatters['text/plain'].for_type("
    "type(right), lambda _, shown, __: shown.text(repr(right)))",
    "another way out": "sys.displayhook = print = lambda *_: None",
}
CHECK = "from attncourse import checks\nverdict = checks.check_is_causal(is_causal)\nverdict"


def test_what_judges_an_answer_is_as_it_was(behind):
    space = "import builtins, sys, types, torch, attncourse\nfrom attncourse import checks\n"
    space += (
        "from attncourse.checks import by_hand\nright = checks.check_is_causal(by_hand.is_causal)"
    )
    job = [["space", space, ""], ["right", "said = repr(right)", ""]]
    job += [["answer", "def is_causal(module, x):\n    return bool(module)", ""]]
    for name, fake in REPLACED.items():
        job += [[f"{name} goes", f"kept = {name}\n{name} = {fake}", ""], [name, CHECK, "is_causal"]]
        job += [[f"{name} comes", f"{name} = kept", ""]]
    job += [["unchanged", CHECK, "is_causal"]]
    for name, code in OTHERWISE.items():
        job += [[f"{name}: set", code, ""], [name, CHECK, "is_causal"]]
    told = run_job(job, behind)
    assert not [name for name in told if told[name][0] == "raised"]
    for name in REPLACED:
        assert f"changes {name}" in told[name][2]
    assert told["unchanged"][0] == "ran"
    assert told["unchanged"][2] == []
    for name in OTHERWISE:
        _, said, borrowed = told[name]
        assert said == told["unchanged"][1] or borrowed, name


def test_what_tells_for_ever_ends(behind, monkeypatch):
    monkeypatch.setattr(sandbox, "START", 0.0)
    line = 'b\'["a","ran","",[]]\\n\''
    tells = "import os, time\nwhile True:\n    time.sleep(0.5)\n    for one in range(3, 20):\n"
    tells += f"        try: os.write(one, {line})\n        except OSError: 0"
    ended = run_script(INSIDE, json.dumps([["a", tells, ""]]), 20, behind, in_all=5)
    assert ended.why == "took longer than 5 seconds in all"


def test_in_a_lesson_a_class_of_the_course_is_no_answer_and_printing_no_fault(tmp_path, behind):
    (path,) = (path for path in lessons() if path.name.startswith("02"))
    mine = read_notebook(path)
    first, second = find_exercises(mine)
    inherited = f"import attnlib\n\n\nclass {first.name}(attnlib.{first.name}):\n    pass"
    prints = second.solution.replace("    return", "    print(h, [1])\n    return")
    assert prints != second.solution
    answers = {first.cell: put(inherited, first.stub), second.cell: put(prints, second.stub)}
    for one in mine["cells"]:
        one["source"] = answers.get(one["id"], source(one))
    found = grade(mine, tmp_path, behind)
    assert [one.state for one in found] == ["attempted", "solved"]
    assert f"inherits from attnlib's {first.name}" in found[0].said
    right = grading._solve(mine["cells"][0]["id"], behind, 20)  # PyTorch wraps some of its own
    assert not [one for told in right.values() for one in told.borrowed if "changes" in one]
