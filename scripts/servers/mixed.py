"""Many clients of `prepose serve` with everything mixed, and a server that is killed under them; starts the servers itself.

    python scripts/servers/mixed.py target/release/prepose --out benches/results/serve-mixed-DATE.json --page docs/serve.md

First one run of 64 clients x 20 requests over eight tokens: three interfaces, sizes, methods, start pictures, searches, second passes,
requests that are wrong, jobs that are cancelled, clients that go away, a queue that is too short for them. Every request must come to
one of the outcomes that the rules have for it. Pictures are made again by `generate --again` and compared.

Then servers on a new folder are killed (kill -9) under such a load. After each kill every file in the folder must be whole, the next
server must list every picture that a client was given, and give out the same bytes.

Standard library alone. Ends with 1 if anything is not right. --page puts the figures between the page's markers.
"""

import argparse
import base64
import collections
import datetime
import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pngs

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("program")
parser.add_argument("--clients", type=int, default=64)
parser.add_argument("--requests", type=int, default=20)
parser.add_argument("--kills", type=int, default=10)
parser.add_argument("--sample", type=int, default=256, help="how many pictures are made again")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", help="a file of JSON for the figures")
parser.add_argument("--page", help="a page with markers for them")

TOKENS = [f"token-of-caller-{number}" for number in range(8)]
SIZES = [(128, 128), (128, 96), (96, 96), (64, 64)]
PROMPTS = ["a dog to the left of a cat", "a cup above a bus", "a red ball and a cat", "a bird below a clock"]
GUIDES = [None, None, {"method": "pos"}, {"method": "attend-and-excite"}]
# What the rules have for each kind of request.
ALLOWED = {
    "made": {"answered", "answered after 429"},
    "wrong": {"refused: 400", "refused: 422"},
    "leaves": {"went away", "answered", "refused: 429"},
    "cancelled": {"cancelled", "answered", "refused: 429"},
}


class Server:
    """A server of the toybox, with a short queue."""

    def __init__(self, program, folder, tokens):
        command = [program, "serve", "--device", "flex", "--port", "0", "--out", folder, "--token-file", tokens]
        command += ["--max-waiting", "40", "--max-waiting-per-token", "8"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://([\d.]+:\d+)", line)
        if not found:
            raise SystemExit(f"the server printed {line!r}")
        self.address = found[1]

    def ask(self, token, method, path, body=None, timeout=600):
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        try:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def end(self, how):
        self.process.send_signal(how)
        return self.process.wait()


class Load:
    """What the clients of one server do, and what becomes of it."""

    def __init__(self, server, start, name):
        self.server, self.start, self.name = server, start, name
        self.lock = threading.Lock()
        self.outcomes = collections.defaultdict(collections.Counter)
        self.refusals, self.wrong = collections.Counter(), []
        # Hash of the file to its bytes, whether it began with a picture, and whose it is.
        self.pictures = {}
        self.stopping = False

    def keep(self, token, png, begun):
        with self.lock:
            self.pictures[hashlib.sha256(png).hexdigest()] = (png, begun, token)

    def one(self, chance):
        """One request: its kind and its outcome."""
        token = chance.choice(TOKENS)
        (width, height), prompt = chance.choice(SIZES), chance.choice(PROMPTS)
        steps, seed, guide = chance.choice([1, 2, 4]), chance.randrange(1 << 32), chance.choice(GUIDES)
        request = {"prompt": prompt, "steps": steps, "seed": seed, "width": width, "height": height}
        if guide and "and" not in prompt:
            request["guide"] = guide
        luck = chance.random()
        if luck < 0.08:
            return "wrong", self.refused(chance, token, request)
        if luck < 0.2:
            return "leaves", self.leaves(chance, token, request)
        if luck < 0.32:
            return "cancelled", self.cancelled(chance, token, request)
        make = chance.choice([self.openai, self.openai, self.webui, self.webui_edit, self.job, self.search, self.second])
        return "made", self.patiently(make, token, request)

    def patiently(self, make, token, request):
        """As a good client: comes again when it is told to."""
        waited = False
        while True:
            status, headers, text = make(token, request)
            if status != 429:
                break
            waited = True
            with self.lock:
                self.refusals["429"] += 1
            if self.stopping:
                return "refused: 429"
            time.sleep(min(int(headers["Retry-After"]), 3))
        if status != 200:
            return f"{make.__name__}: {status} {text[:200]!r}"
        return "answered after 429" if waited else "answered"

    def openai(self, token, request):
        body = {**request, "size": f"{request['width']}x{request['height']}"}
        body = {name: value for name, value in body.items() if name not in ("width", "height")}
        status, headers, text = self.server.ask(token, "POST", "/v1/images/generations", body)
        if status == 200:
            for one in json.loads(text)["data"]:
                self.keep(token, base64.b64decode(one["b64_json"]), False)
        return status, headers, text

    def webui(self, token, request, path="txt2img", more=None):
        body = {**request, **(more or {}), "batch_size": 1}
        if guide := body.pop("guide", None):
            body["alwayson_scripts"] = {"prepose": {"args": [{"guide": guide}]}}
        status, headers, text = self.server.ask(token, "POST", f"/sdapi/v1/{path}", body)
        if status == 200:
            for one in json.loads(text)["images"]:
                self.keep(token, base64.b64decode(one), path == "img2img")
        return status, headers, text

    def webui_edit(self, token, request):
        start = base64.b64encode(self.start).decode()
        return self.webui(token, request, "img2img", {"init_images": [start], "denoising_strength": 0.6})

    def job(self, token, request, keep=True, **more):
        body = {"request": request, "maps": False, "check": False, "previews": 0, **more}
        status, headers, text = self.server.ask(token, "POST", "/api/jobs", body)
        if status != 202:
            return status, headers, text
        state = self.ended(token, json.loads(text)["id"])
        if state["status"] != "done":
            return 500, {}, json.dumps(state)[:300].encode()
        for kind, facts in state["events"]:
            if kind == "picture":
                status, headers, png = self.server.ask(token, "GET", f"/api/pictures/{facts['id']}.png")
                if status != 200:
                    return status, headers, png
                if keep:
                    self.keep(token, png, False)
        return 200, {}, b""

    def search(self, token, request):
        request = {**request, "prompt": PROMPTS[0], "steps": request["steps"] + 1}
        return self.job(token, request, search={"best_of": 4, "pruning": [1]})

    def second(self, token, request):
        # It begins with a first picture that nobody keeps, so it cannot be made again from its file alone.
        second = {"width": 192, "height": 160, "steps": 2, "strength": 0.5}
        return self.job(token, {**request, "width": 128, "height": 96}, keep=False, second_pass=second)

    def ended(self, token, job):
        while True:
            status, _, text = self.server.ask(token, "GET", f"/api/jobs/{job}")
            if status != 200:
                raise RuntimeError(f"a job is not known: {status} {text[:200]}")
            state = json.loads(text)
            if state["status"] not in ("queued", "running"):
                return state
            time.sleep(0.1)

    def refused(self, chance, token, request):
        wrong = chance.choice([{"width": 100}, {"steps": 0}, {"steps": 10**6}, {"scheduler": "none such"}, {"unknown": 1}])
        status, _, text = self.server.ask(token, "POST", "/api/jobs", {"request": {**request, **wrong}})
        error = json.loads(text).get("error", {})
        return f"refused: {status}" if error.get("message") else f"refused without a word: {text[:200]}"

    def leaves(self, chance, token, request):
        body = {"prompt": request["prompt"], "steps": 40, "size": "128x128"}
        try:
            status, _, _ = self.server.ask(token, "POST", "/v1/images/generations", body, timeout=chance.uniform(0.05, 1))
        except TimeoutError:
            return "went away"
        return "answered" if status == 200 else f"refused: {status}"

    def cancelled(self, chance, token, request):
        body = {"request": {**request, "steps": 40}, "check": False}
        status, _, text = self.server.ask(token, "POST", "/api/jobs", body)
        if status != 202:
            return f"refused: {status}"
        job = json.loads(text)["id"]
        time.sleep(chance.uniform(0, 0.5))
        status, _, text = self.server.ask(token, "DELETE", f"/api/jobs/{job}")
        if status != 204:
            return f"cancelling: {status} {text[:200]}"
        state = self.ended(token, job)["status"]
        return {"cancelled": "cancelled", "done": "answered"}.get(state, state)

    def client(self, number, requests):
        chance = random.Random(f"{asked.seed} {self.name} {number}")
        for _ in range(requests):
            if self.stopping:
                return
            try:
                kind, outcome = self.one(chance)
            except (OSError, http.client.HTTPException, RuntimeError, ValueError) as error:
                if self.stopping:
                    return
                kind, outcome = "made", f"{type(error).__name__}: {error}"
            with self.lock:
                self.outcomes[kind][outcome] += 1
                if outcome not in ALLOWED[kind]:
                    self.wrong.append(f"{kind}: {outcome}")

    def begin(self, clients, requests):
        threads = [threading.Thread(target=self.client, args=(number, requests), daemon=True) for number in range(clients)]
        for thread in threads:
            thread.start()
        return threads


def again(load, work):
    """Makes a sample of the pictures again, one at a time, and compares."""
    chosen = sorted(load.pictures)
    random.Random(asked.seed).shuffle(chosen)
    equal, largest, other = 0, 0, []
    begin = os.path.join(work, "start.png")
    for name in chosen[: asked.sample]:
        png, begun, _ = load.pictures[name]
        served, made = os.path.join(work, "served.png"), os.path.join(work, "made.png")
        pathlib.Path(served).write_bytes(png)
        more = ["--init-image", begin] if begun else []
        command = [asked.program, "generate", "--again", served, *more, "--quiet", "--device", "flex", "--out", made]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        difference = pngs.largest_difference(png, pathlib.Path(made).read_bytes())
        equal += difference == 0
        largest = max(largest, difference)
        if difference > 1:
            other.append(name)
    return {"compared": len(chosen[: asked.sample]), "equal": equal, "largest_difference_of_255": largest, "beyond_one": len(other)}


def mixed(work, tokens, start):
    """The one run, and what came of it."""
    server = Server(asked.program, os.path.join(work, "served"), tokens)
    load = Load(server, start, "mixed")
    began = time.time()
    for thread in load.begin(asked.clients, asked.requests):
        thread.join()
    seconds = time.time() - began
    status, _, _ = server.ask(TOKENS[0], "GET", "/ready")
    ended = server.end(signal.SIGTERM)
    outcomes = {kind: dict(counts) for kind, counts in sorted(load.outcomes.items())}
    return load, {
        "clients": asked.clients, "requests": sum(sum(counts.values()) for counts in load.outcomes.values()),
        "outcomes": outcomes, "told_to_come_again": load.refusals["429"], "pictures": len(load.pictures), "seconds": round(seconds, 1),
        "ready_at_the_end": status == 200, "exit_code_of_sigterm": ended, "wrong": load.wrong[:20], "wrong_in_all": len(load.wrong),
        "again": again(load, work),
    }


def whole(folder):
    """What is in a folder that a server was killed over."""
    found = collections.Counter()
    for path in pathlib.Path(folder).iterdir():
        if path.name.startswith(".prepose-"):
            found["unfinished temporary files"] += 1
        elif path.suffix == ".png":
            found["pictures"] += 1
            found["broken"] += not pngs.is_whole(path.read_bytes())
            found["pictures without facts"] += not path.with_suffix(".json").exists()
        elif path.suffix == ".json":
            found["facts"] += 1
            try:
                json.loads(path.read_text())
            except ValueError:
                found["broken"] += 1
            found["broken"] += not path.with_suffix(".png").exists()
        elif path.name != "lock":
            found["broken"] += 1
    return found


def history(server):
    """All that a server lists and gives out: hash to the token, and how many pictures that is."""
    listed, count = {}, 0
    for token in TOKENS:
        before = ""
        while True:
            page = json.loads(server.ask(token, "GET", f"/api/pictures?limit=500{before}")[2])
            for one in page["pictures"]:
                status, _, png = server.ask(token, "GET", f"/api/pictures/{one['id']}.png")
                assert status == 200, (status, one)
                listed[hashlib.sha256(png).hexdigest()] = token
                count += 1
            if not page["next"]:
                break
            before = f"&before={page['next']}"
    return listed, count


def killed(work, tokens, start):
    """Kills servers under load and looks at what they leave."""
    folder, chance = os.path.join(work, "killed"), random.Random(asked.seed)
    given, total, wrong = {}, collections.Counter(), []
    for number in range(asked.kills + 1):
        server = Server(asked.program, folder, tokens)
        listed, count = history(server)
        lost = [name for name, token in given.items() if listed.get(name) != token]
        total["lost"] += len(lost)
        left = whole(folder)
        total["temporary files after a start"] += left["unfinished temporary files"]
        if count != left["facts"]:
            wrong.append(f"{count} are listed of {left['facts']} with facts")
        if number == asked.kills:
            server.end(signal.SIGTERM)
            break
        load = Load(server, start, f"killed {number}")
        threads = load.begin(asked.clients, 10**6)
        # Somewhere in the middle of making and writing, once there is anything.
        while len(load.pictures) < 5 and not load.wrong:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 2))
        load.stopping = True
        server.end(signal.SIGKILL)
        for thread in threads:
            thread.join()
        wrong += load.wrong
        found = whole(folder)
        total["broken"] += found["broken"]
        total["temporary files after a kill"] += found["unfinished temporary files"]
        given |= {name: token for name, (_, _, token) in load.pictures.items()}
    return {
        "kills": asked.kills, "broken": total["broken"], "lost": total["lost"], "given_to_clients": len(given),
        "in_the_history_at_the_end": count, "pictures_without_facts_at_the_end": left["pictures without facts"],
        "temporary_files_after_a_kill": total["temporary files after a kill"],
        "temporary_files_after_a_start": total["temporary files after a start"],
        "wrong": wrong[:20], "wrong_in_all": len(wrong),
    }


def sentence(figures):
    """The figures for the page."""
    mixed, killed = figures["mixed"], figures["killed"]
    counts = collections.Counter()
    for outcomes in mixed["outcomes"].values():
        for outcome, count in outcomes.items():
            counts[outcome] += count
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    same = mixed["again"]
    lines = [
        f"On {figures['date']}: {mixed['requests']:,} requests of {mixed['clients']} clients with eight tokens: {told};",
        f"{mixed['wrong_in_all']} came to anything else. Clients were told {mixed['told_to_come_again']:,} times to come again (429).",
        f"Of {mixed['pictures']} pictures {same['compared']} were made again by `generate --again`, each alone: {same['equal']} bit for bit,",
        f"the others at most {same['largest_difference_of_255']}/255 away ({same['beyond_one']} beyond 1/255).",
        "",
        f"{killed['kills']} servers were killed under that load: {killed['broken']} broken files, {killed['lost']} of",
        f"{killed['given_to_clients']} pictures that clients had been given were missing from the next server's history",
        f"({killed['in_the_history_at_the_end']} at the end); {killed['temporary_files_after_a_kill']} temporary files were left by kills, and",
        f"{killed['temporary_files_after_a_start']} after the next start.",
    ]
    return "\n".join(lines) + "\n"


def put(page, text):
    """Puts the figures between the page's markers."""
    path = pathlib.Path(page)
    before, rest = path.read_text().split("<!-- mixed.py -->\n")
    _, after = rest.split("<!-- end of mixed.py -->\n")
    path.write_text(f"{before}<!-- mixed.py -->\n{text}<!-- end of mixed.py -->\n{after}")


def main():
    with tempfile.TemporaryDirectory() as work:
        tokens, start = os.path.join(work, "tokens"), os.path.join(work, "start.png")
        pathlib.Path(tokens).write_text("\n".join(TOKENS))
        begin = [asked.program, "generate", "a dog", "--steps", "2", "--quiet", "--device", "flex", "--out", start]
        subprocess.run(begin, check=True, stdout=subprocess.DEVNULL)
        begun = pathlib.Path(start).read_bytes()
        _, figures = mixed(work, tokens, begun)
        print(json.dumps(figures, indent=1), flush=True)
        figures = {"date": f"{datetime.date.today()}", "mixed": figures, "killed": killed(work, tokens, begun)}
        print(json.dumps(figures["killed"], indent=1))
    if asked.out:
        pathlib.Path(asked.out).write_text(json.dumps(figures, indent=1) + "\n")
    if asked.page:
        put(asked.page, sentence(figures))
    one, other = figures["mixed"], figures["killed"]
    right = not one["wrong"] and one["again"]["beyond_one"] == 0 and one["ready_at_the_end"] and one["exit_code_of_sigterm"] == 0
    right = right and not other["wrong"] and other["broken"] == other["lost"] == other["temporary_files_after_a_start"] == 0
    return 0 if right else 1


asked = parser.parse_args()
if __name__ == "__main__":
    sys.exit(main())
