#!/usr/bin/env python3
"""Ten thousand questions to a server that delays, is busy, fails, cuts its answers and talks nonsense, with five kill -9.

    python scripts/judge/faults.py [PREPOSE] [PAIRS] [KILLS]

Every question must have one answer in the book, none lost and none doubled; what the server answered well and a kill threw
away may be asked again, at most as many as are asked at a time, for each kill. Nothing else may be left in the folder. Says how
long it took, from the start of the program to its end and from the first request to the last answer, beside what the delays
(DELAY seconds each) allow and beside what this server really took (it shares the processor with the program, and wakes late);
the processor's time a question, of the program and of this server; the connections that were made, and the most memory. SIDE is
the pictures' side in pixels. Speed is measured without kills.
"""

import asyncio
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

DELAY, SIDE, AT_ONCE = float(os.environ.get("DELAY", "0.02")), int(os.environ.get("SIDE", "8")), 16
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
FAULTS = ["busy", "error", "cut", "close"]


class Server:
    def __init__(self):
        self.good, self.requests, self.busy, self.connections = Counter(), 0, 0.0, 0
        self.held, self.first, self.last = 0.0, None, 0.0
        self.random = random.Random(7)

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
                body = await reader.readexactly(length)
                begun = time.monotonic()
                self.first = self.first or begun
                goes_on = await self.answer(body, writer)
                self.last = time.monotonic()
                self.held += self.last - begun
                if not goes_on:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def answer(self, body, writer):
        self.requests += 1
        delay = DELAY * self.random.uniform(0.5, 1.5)
        self.busy += delay
        await asyncio.sleep(delay)
        fault = self.random.choice(FAULTS) if self.random.random() < 0.1 else None
        if fault == "close":
            return False
        if fault == "busy":
            return await self.send(writer, 429, {"error": {"message": "too many"}}, "retry-after-ms: 20\r\n")
        if fault == "error":
            return await self.send(writer, 500, {"error": {"message": "oops"}})
        text = "perhaps 1" if self.random.random() < 0.05 else self.random.choice("123")
        answer = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 300, "completion_tokens": 1}}
        if fault == "cut":
            await self.send(writer, 200, answer, cut=True)
            return False
        await self.send(writer, 200, answer)
        self.good[hash(body)] += 1
        return True

    async def send(self, writer, status, answer, more="", cut=False):
        body = json.dumps(answer).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode()
        whole = head + body
        writer.write(whole[:-20] if cut else whole)
        await writer.drain()
        return True


def provide(folder, pairs):
    """Pictures that differ, and a case for each."""
    from PIL import Image

    (folder / "pictures").mkdir()
    with open(folder / "cases.jsonl", "w") as cases:
        for i in range(pairs):
            Image.new("RGB", (SIDE, SIDE), (i % 256, i // 256 % 256, 7)).save(folder / "pictures" / f"{i}.png")
            case = {"id": str(i), "picture": f"{i}.png", "setting": "t2i_homogenization", "a": "dog", "b": "cat", "group": str(i)}
            cases.write(json.dumps(case) + "\n")


async def finish(process, peaks):
    """What a process prints; the most memory that it had (the system's own figure would count this script's, too)."""
    reading = asyncio.ensure_future(process.communicate())
    while not reading.done():
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            peaks.extend(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))
        except OSError:
            pass
        await asyncio.sleep(0.1)
    return (await reading)[0]


async def main():
    prepose = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/prepose")
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    folder = Path(tempfile.mkdtemp())
    provide(folder, pairs)
    state = Server()
    server = await asyncio.start_server(state.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    command = [prepose, "-q", "judge", "pictures", "--benchmark", "ots", "--cases", "cases.jsonl", "--judge", url, "--judge-model", "m"]
    command += ["--concurrency", str(AT_ONCE), "--attempts", "20", "--bootstrap", "200", "--out", "out", "--json"]
    book = folder / "out" / "answers.jsonl"
    started = time.time()
    for kill in range(KILLS):
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=subprocess.DEVNULL)
        while (book.read_text().count("\n") if book.exists() else 0) < 2 * pairs * (kill + 1) // (KILLS + 2):
            await asyncio.sleep(0.2)
        process.send_signal(signal.SIGKILL)
        await process.wait()
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=subprocess.PIPE)
    peaks = []
    out = await finish(process, peaks)
    seconds = time.time() - started
    assert process.returncode == 0, process.returncode
    report = json.loads(out)
    lines = [json.loads(line) for line in book.read_text().splitlines()]
    asked = Counter(line["question"] for line in lines)
    assert report["unanswered"] == 0 and len(asked) == 2 * pairs and max(asked.values()) == 1
    again = sum(state.good.values()) - 2 * pairs
    assert 0 <= again <= KILLS * AT_ONCE, again
    left = [path.name for path in (folder / "out").iterdir() if path.name.startswith(".")]
    assert not left, left
    used, itself = (resource.getrusage(of) for of in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    connections, before = state.connections, state.requests
    asking, busy, took = state.last - state.first, state.busy, state.held
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert json.loads(out)["asked_now"] == 0 and state.requests == before
    memory = max(peaks, default=0)
    allowed, held = busy / AT_ONCE, took / AT_ONCE
    print(f"{2 * pairs} answers, each once; {before} requests; {again} answers lost to {KILLS} kills and asked again")
    print(f"{seconds:.1f} s, of which the server's delays took {allowed:.1f} s; at most {memory} MiB")
    over = 100 * (asking / held - 1)
    print(f"{asking:.1f} s from the first request to the last answer, of which the server took {held:.1f} s: {over:.1f} % more")
    each, own = (1000 * (of.ru_utime + of.ru_stime) / (2 * pairs) for of in (used, itself))
    print(f"{each:.2f} ms of the processor's time a question, and {own:.2f} ms of this server's; {connections} connections")


asyncio.run(main())
