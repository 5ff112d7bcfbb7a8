"""Many clients at once against `prepose serve`: every one is answered or refused by the rules, and memory stays.

    PREPOSE_TOKEN=… python scripts/servers/load.py 127.0.0.1:7861 --clients 64 --requests 20
    PREPOSE_TOKEN=… python scripts/servers/load.py 127.0.0.1:7861 --minutes 30 --again target/release/prepose

With --again some of the pictures are made again by `prepose generate --again` and compared. Standard library alone. Prints a line
of JSON with what became of the requests, pictures a second, and the server's memory.
"""

import argparse
import base64
import collections
import http.client
import json
import os
import random
import statistics
import struct
import subprocess
import tempfile
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("--clients", type=int, default=64)
parser.add_argument("--requests", type=int, default=20)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--same", action="store_true", help="all alike and none cancelled: for throughput")
parser.add_argument("--minutes", type=float, help="go on for so long in place of --requests")
parser.add_argument("--again", metavar="PREPOSE", help="the program that makes pictures again")
parser.add_argument("--sample", type=int, default=24, help="how many are made again")
asked = parser.parse_args()
TOKEN = os.environ.get("PREPOSE_TOKEN", "")
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
outcomes, lock = collections.Counter(), threading.Lock()
made, finished = [], 0


def ask(method, path, body=None, timeout=600):
    connection = http.client.HTTPConnection(asked.address, timeout=timeout)
    connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def memory():
    text = ask("GET", "/metrics")[2].decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("process_resident_memory_bytes "))


def one(chance):
    body = {"prompt": "a dog to the left of a cat", "steps": asked.steps, "seed": chance.randrange(1000), "size": "128x128"}
    if not asked.same:
        body["size"] = chance.choice(["128x128", "128x96", "96x96"])
        body |= chance.choice([{}, {}, {"guide": {"method": "pos"}}, {"guide": {"method": "attend-and-excite"}}])
        if chance.random() < 0.15:
            # A client that goes away in the middle.
            try:
                ask("POST", "/v1/images/generations", body, timeout=chance.uniform(0.05, 0.5))
                return "done"
            except TimeoutError:
                return "went away"
    while True:
        status, headers, text = ask("POST", "/v1/images/generations", body)
        if status != 429:
            break
        with lock:
            outcomes["429"] += 1
        time.sleep(int(headers["Retry-After"]))
    assert status == 200, (status, text[:300])
    picture = base64.b64decode(json.loads(text)["data"][0]["b64_json"])
    keep(picture, chance)
    return "done"


def keep(picture, chance):
    """Keeps --sample of all pictures, each as likely as any other."""
    global finished
    if not asked.again:
        return
    with lock:
        finished += 1
        if len(made) < asked.sample:
            made.append(picture)
        elif (at := chance.randrange(finished)) < asked.sample:
            made[at] = picture


def data_of(png):
    """What is in a PNG's IDAT chunks: equal for equal pixels, as both come from one encoder."""
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    return data


def equal_again():
    """How many of the kept pictures `generate --again` makes the same, bit for bit."""
    with tempfile.TemporaryDirectory() as folder:
        equal = 0
        for number, picture in enumerate(made):
            served, again = (os.path.join(folder, f"{number}-{name}.png") for name in ("served", "again"))
            with open(served, "wb") as file:
                file.write(picture)
            subprocess.run([asked.again, "generate", "--again", served, "--quiet", "--out", again], check=True)
            with open(again, "rb") as file:
                equal += data_of(file.read()) == data_of(picture)
        return {"compared": len(made), "equal": equal}


def client(number):
    chance = random.Random(number)
    count = 0
    while time.time() < until if until else count < asked.requests:
        count += 1
        try:
            outcome = one(chance)
        except Exception as error:
            outcome = f"failed: {type(error).__name__}: {error}"
        with lock:
            outcomes[outcome] += 1


ask("POST", "/v1/images/generations", {"prompt": "a cat", "steps": 1})
before, began = memory(), time.time()
until = asked.minutes and began + 60 * asked.minutes
threads = [threading.Thread(target=client, args=(number,)) for number in range(asked.clients)]
for thread in threads:
    thread.start()
readings = [before]
while any(thread.is_alive() for thread in threads):
    time.sleep(1)
    readings.append(memory())
seconds = time.time() - began
tenth = max(1, len(readings) // 10)
print(json.dumps({
    "outcomes": outcomes, "seconds": round(seconds, 1), "pictures_a_second": round(outcomes["done"] / seconds, 3),
    "memory_mib": {
        "before": before >> 20, "peak": max(readings) >> 20, "after": memory() >> 20,
        "second_tenth": int(statistics.median(readings[tenth : 2 * tenth] or readings)) >> 20,
        "last_tenth": int(statistics.median(readings[-tenth:])) >> 20,
    },
    **({"again": equal_again()} if asked.again else {}),
}))
