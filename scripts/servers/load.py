"""Many clients at once against `prepose serve`: every one is answered or refused by the rules, and memory stays.

    PREPOSE_TOKEN=… python scripts/servers/load.py 127.0.0.1:7861 --clients 64 --requests 20

Standard library alone. Prints a line of JSON with what became of the requests, pictures a second, and the server's memory.
"""

import argparse
import collections
import http.client
import json
import os
import random
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("--clients", type=int, default=64)
parser.add_argument("--requests", type=int, default=20)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--same", action="store_true", help="all alike and none cancelled: for throughput")
asked = parser.parse_args()
TOKEN = os.environ.get("PREPOSE_TOKEN", "")
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
outcomes, lock = collections.Counter(), threading.Lock()


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
    assert json.loads(text)["data"][0]["b64_json"]
    return "done"


def client(number):
    chance = random.Random(number)
    for _ in range(asked.requests):
        try:
            outcome = one(chance)
        except Exception as error:
            outcome = f"failed: {type(error).__name__}: {error}"
        with lock:
            outcomes[outcome] += 1


ask("POST", "/v1/images/generations", {"prompt": "a cat", "steps": 1})
before, began = memory(), time.time()
threads = [threading.Thread(target=client, args=(number,)) for number in range(asked.clients)]
for thread in threads:
    thread.start()
peak = before
while any(thread.is_alive() for thread in threads):
    time.sleep(1)
    peak = max(peak, memory())
seconds = time.time() - began
print(json.dumps({
    "outcomes": outcomes, "seconds": round(seconds, 1), "pictures_a_second": round(outcomes["done"] / seconds, 3),
    "memory_mib": {"before": before >> 20, "peak": peak >> 20, "after": memory() >> 20},
}))
