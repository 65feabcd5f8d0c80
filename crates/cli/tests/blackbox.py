#!/usr/bin/env python3
"""Sagas against participants written in another language, while the server is killed again and again.

Standard library only. Starts `amends serve`, and three participants that each keep one guarantee and no other:

- `fence`   keeps the fence: same key, same answer; what is undone before it arrives is refused when it does;
- `replay`  repeats its first answer under the same key, and can answer no query;
- `query`   does it at most once a key, refuses repeats without saying what became of the first, but answers queries.

Sagas are driven over HTTP; participants lose answers, answer late, carry requests out long after their caller has given up;
the server gets SIGKILL at random moments. Then faults stop, every saga ends, and every participant's ledger is compared with
every saga: each effect of a completed saga exactly once, each effect of a compensated one undone exactly once.

    AMENDS_BIN=target/debug/amends python3 blackbox.py [--kills 10] [--sagas 90] [--seed 1]
"""

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TIMEOUT = 0.4
"""Seconds after which the definitions below give a call up."""

FAULT_RATE = 0.2
"""The share of requests that meet a fault while there are faults."""

ROW_MAX = 3
"""No more faults in a row than this at one participant: with five the engine would leave it alone for a while, and what is
shown here is what happens when it does not."""

END_MAX = 60
"""Seconds within which every saga ends once faults have stopped. A busy machine is given time."""

STEPS = ("first", "second", "third")


# Participants ---------------------------------------------------------------------------------------------------------


class HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Participant:
    """What all three have in common: a ledger, a lock around it, and faults on the way."""

    def __init__(self, name, seed):
        self.name = name
        self.lock = threading.Lock()
        self.ledger = []  # (key, "action" | "compensation" | "tombstone", key of the action)
        self.refused = set()
        self.random = random.Random(f"{seed} {name}")
        self.faults = True
        self.row = 0
        self.late = []
        self.counts = {}
        self.lie = None
        self.server = HttpServer(("127.0.0.1", 0), handler_of(self))
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def fate(self):
        with self.lock:
            kinds = ["error, not done", "error, but done", "time-out, not done", "time-out, but done", "late arrival", "cut"]
            if not self.faults or self.row >= ROW_MAX or self.random.random() >= FAULT_RATE:
                self.row = 0
                return None, 0
            self.row += 1
            fault = self.random.choice(kinds)
            self.counts[fault] = self.counts.get(fault, 0) + 1
            return fault, TIMEOUT + self.random.random()

    def carry_out(self, path, headers, body):
        """Does what a request asks for; gives status and JSON."""
        with self.lock:
            key = urllib.parse.unquote(headers["Idempotency-Key"])
            if path == "/do":
                return self.do(key, body)
            return self.undo(key, urllib.parse.unquote(headers.get("Amends-Action-Key") or ""), body)

    def do(self, key, body):
        raise NotImplementedError

    def undo(self, key, action_key, body):
        raise NotImplementedError

    def query(self, key):
        return 501, None

    def lines(self, key, operation):
        return [line for line in self.ledger if line[0] == key and line[1] == operation]

    def write(self, key, operation, of):
        if self.lie != "loses" or operation != "action":
            self.ledger.append((key, operation, of))
        return f"{self.name}-{len(self.ledger)}"

    def end_of_faults(self):
        with self.lock:
            self.faults = False

    def wait_for_the_late(self):
        while self.late:
            self.late.pop().join()


class Fence(Participant):
    """Same key, same answer, and a tombstone for what is undone before it arrives."""

    definition = 'fenced = true\nidempotency = "replay"'
    query_field = ""

    def __init__(self, *arguments):
        self.answers = {}
        self.tombstones = set()
        super().__init__(*arguments)

    def do(self, key, body):
        if key in self.tombstones:
            return 422, {"outcome": "rejected", "reason": "undone before it arrived"}
        if key not in self.answers:
            if body.get("refuse"):
                self.answers[key] = (422, {"outcome": "rejected", "reason": "no"})
            else:
                self.answers[key] = (200, {"number": self.write(key, "action", key)})
        return self.answers[key]

    def undo(self, key, action_key, body):
        if key not in self.answers:
            done = bool(self.lines(action_key, "action"))
            if not done:
                self.tombstones.add(action_key)
            self.write(key, "compensation" if done else "tombstone", action_key)
            self.answers[key] = (200, {"undone": done})
        return self.answers[key]


class Replay(Participant):
    """Same key, same answer, and nothing else: no query, no fence."""

    definition = 'idempotency = "replay"'
    query_field = ""

    def __init__(self, *arguments):
        self.answers = {}
        super().__init__(*arguments)

    def do(self, key, body):
        if key not in self.answers or self.lie == "doubles":
            if body.get("refuse"):
                self.answers[key] = (422, {"outcome": "rejected", "reason": "no"})
            else:
                self.answers[key] = (200, {"number": self.write(key, "action", key)})
        return self.answers[key]

    def undo(self, key, _action_key, body):
        if key not in self.answers:
            self.answers[key] = (200, {"number": self.write(key, "compensation", body["of"])})
        return self.answers[key]


class Query(Participant):
    """At most one effect a key, a query that tells, and no word about the first when the second comes."""

    definition = 'idempotency = "effect"'
    query_field = 'query = { get = "/asked/${key}" }'

    def __init__(self, *arguments):
        self.numbers = {}
        super().__init__(*arguments)

    def do(self, key, body):
        if key in self.numbers:
            return 409, None
        if key in self.refused or body.get("refuse"):
            self.refused.add(key)
            return 422, {"outcome": "rejected", "reason": "no"}
        self.numbers[key] = self.write(key, "action", key)
        return 200, {"number": self.numbers[key]}

    def undo(self, key, _action_key, body):
        if key in self.numbers:
            return 409, None
        self.numbers[key] = self.write(key, "compensation", body["of"])
        return 200, {"number": self.numbers[key]}

    def query(self, key):
        if key in self.numbers:
            return 200, {"number": self.numbers[key]}
        if key in self.refused:
            return 409, {"outcome": "rejected", "reason": "no"}
        return 404, {"error": "never heard of it"}


def handler_of(participant):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer

        def log_message(self, *_):
            pass

        def do_GET(self):
            fault, _ = participant.fate()
            if fault:
                return self.answer(500, None)
            with participant.lock:
                answer = participant.query(urllib.parse.unquote(self.path.rsplit("/", 1)[1]))
            self.answer(*answer)

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fault, delay = participant.fate()
            if fault == "error, not done":
                return self.answer(500, None)
            if fault == "time-out, not done":
                return self.silence(delay)
            if fault == "late arrival":
                late = threading.Timer(delay, participant.carry_out, (self.path, self.headers, body))
                late.start()
                participant.late.append(late)
                return self.silence(delay)
            status, answer = participant.carry_out(self.path, self.headers, body)
            if fault == "error, but done":
                return self.answer(502, None)
            if fault == "time-out, but done":
                return self.silence(delay)
            if fault == "cut":
                self.close_connection = True
                return None
            return self.answer(status, answer)

        def silence(self, delay):
            time.sleep(delay)
            self.close_connection = True

        def answer(self, status, body):
            text = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            if body is not None:
                self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return Handler


# The server -----------------------------------------------------------------------------------------------------------


class Server:
    """`amends serve` in a process that is killed."""

    def __init__(self, binary, folder, participants):
        self.binary, self.folder = binary, folder
        self.config = os.path.join(folder, "amends.toml")
        with open(self.config, "w", encoding="utf-8") as file:
            for participant in participants:
                file.write(f'[participants.{participant.name}]\nurl = "http://127.0.0.1:{participant.port}"\n')
        self.port = free_port()
        self.kills = 0
        self.start()

    def start(self):
        with open(os.path.join(self.folder, "server.log"), "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", "--config", self.config, "--listen", f"127.0.0.1:{self.port}"],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        line = self.process.stdout.readline().strip()
        expected = f"http://127.0.0.1:{self.port}"
        if not line.endswith(expected):
            self.process.kill()
            self.process.wait()
            raise SystemExit(f"the server said {line!r} instead of listening on {expected}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=30)
        return self.process.returncode

    def call(self, method, path, body=None, content_type="application/json"):
        """Status and JSON, or None while the server is away."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            text = body if isinstance(body, (str, type(None))) else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": content_type} if body is not None else {})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def insist(self, method, path, body=None, content_type="application/json"):
        """Sends until there is an answer: the same id is the same saga, however often it is sent."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            answer = self.call(method, path, body, content_type)
            if answer and answer[0] != 503:
                return answer
            time.sleep(0.05)
        raise SystemExit(f"no answer to {method} {path}")


def free_port():
    """A port below those that systems give to outgoing connections, so that it is still free after a kill."""
    import socket

    for port in random.sample(range(20000, 32000), 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise SystemExit("no port is free")


# Definitions and sagas ------------------------------------------------------------------------------------------------


def step(name, participant, refusable):
    refuse = ', refuse = "${input.refuse}"' if refusable else ""
    query = participant.query_field
    return f"""
[[step]]
name = "{name}"
[step.action]
to = "{participant.name}"
post = "/do"
body = {{ step = "{name}"{refuse} }}
serial = "/number"
{query}
[step.compensation]
post = "/undo"
body = {{ of = "${{action_key}}" }}
{query}
"""


def definition(name, by_step):
    guarantees = {p.name: p.definition for p in by_step}
    participants = "".join(f"[participants.{name}]\n{text}\n" for name, text in guarantees.items())
    steps = "".join(step(name, p, name == STEPS[-1]) for name, p in zip(STEPS, by_step))
    return f"""
saga = "{name}"
version = 1
claims = ["{name}:${{id}}"]
[defaults]
timeout = "{int(TIMEOUT * 1000)}ms"
retry = {{ initial = "50ms", factor = 2, max_interval = "500ms", max_attempts = 40, budget = "10m" }}
on_unknown = {{ queries = 2, interval = "50ms", verify = ["500ms", "1s"], verify_for = "30m" }}
{participants}{steps}"""


def drive(server, sagas, rng, failures):
    """Submits every saga, some of them twice at once, and cancels some."""

    def one(saga):
        try:
            body = {"saga": saga["saga"], "id": saga["id"], "input": saga["input"]}
            status, answer = server.insist("POST", "/v1/sagas", body)
            if status not in (200, 201):
                failures.append(f"{saga['id']}: submission was answered with {status} {answer}")
            if saga["again"]:
                status, answer = server.insist("POST", "/v1/sagas", body)
                if status != 200 or answer["id"] != saga["id"]:
                    failures.append(f"{saga['id']}: the second submission was answered with {status} {answer}")
                status, answer = server.insist("POST", "/v1/sagas", {**body, "input": {"refuse": "other"}})
                if status != 422 or not answer["type"].endswith(":input-conflict"):
                    failures.append(f"{saga['id']}: another input was answered with {status} {answer}")
            if saga["cancel"] is not None:
                time.sleep(saga["cancel"])
                path = f"/v1/sagas/{urllib.parse.quote(saga['id'], safe='')}/cancel"
                status, answer = server.insist("POST", path, {"reason": "changed their mind"})
                if status not in (200, 202, 409):
                    failures.append(f"{saga['id']}: cancel was answered with {status} {answer}")
        except (SystemExit, KeyError, TypeError) as error:
            failures.append(f"{saga['id']}: {error!r}")

    threads = []
    for saga in sagas:
        thread = threading.Thread(target=one, args=(saga,))
        thread.start()
        threads.append(thread)
        time.sleep(rng.uniform(0.02, 0.25))
    return threads


def compare(saga, ledger):
    """What is wrong between a saga and the ledgers of all participants."""
    wrong = []
    for name in STEPS:
        key = f"{saga['id']}:{name}:action"
        done = sum(1 for line in ledger if line[0] == key and line[1] == "action")
        undone = sum(1 for line in ledger if line[1] == "compensation" and line[2] == key)
        expected = {"completed": [(1, 0)], "compensated": [(0, 0), (1, 1)]}.get(saga["status"], [])
        if (done, undone) not in expected:
            wrong.append(f"{key}: done {done} times, undone {undone} times, but the saga is {saga['status']}")
    return wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--kills", type=int, default=10)
    arguments.add_argument("--sagas", type=int, default=90)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--lie", choices=["doubles", "loses"], help="a participant breaks its word: this must fail")
    options = arguments.parse_args()
    binary = os.environ.get("AMENDS_BIN") or sys.exit("set AMENDS_BIN to the path of the binary amends")
    rng = random.Random(options.seed)
    print(f"seed {options.seed}: {options.sagas} sagas, {options.kills} kills", flush=True)

    fence, replay, query = Fence("fence", options.seed), Replay("replay", options.seed), Query("query", options.seed)
    replay.lie = options.lie
    kinds = {
        "only-fence": (fence, fence, fence),
        "only-replay": (replay, replay, replay),
        "only-query": (query, query, query),
        "all-three": (fence, query, replay),
    }
    sagas = []
    for n in range(options.sagas):
        name = list(kinds)[n % len(kinds)]
        refuse = rng.random() < 0.3
        sagas.append(
            {
                "saga": name,
                "id": f"{name}/ü {n}",
                "input": {"refuse": refuse},
                "again": rng.random() < 0.3,
                "cancel": rng.uniform(0, 1.5) if rng.random() < 0.15 else None,
            }
        )

    failures = []
    with tempfile.TemporaryDirectory(prefix="amends-blackbox-") as folder:
        server = Server(os.path.abspath(binary), folder, [fence, replay, query])
        try:
            for name, by_step in kinds.items():
                text = definition(name, by_step)
                status, answer = server.insist("PUT", f"/v1/definitions/{name}", text, "application/toml")
                if status != 201:
                    sys.exit(f"definition {name} was answered with {status}: {answer}")
            clients = drive_in_background(server, sagas, rng, failures)
            while server.kills < options.kills:
                time.sleep(rng.uniform(0.4, 2.2))
                wait_for_a_step_forward(server)
                server.kill()
                server.start()
            for client in clients():
                client.join()
            for participant in (fence, replay, query):
                participant.end_of_faults()
            ended = settle(server, sagas, failures)
            code = server.stop()
            if code != 0:
                failures.append(f"the server ended with {code} when asked to stop")
        finally:
            if server.process.poll() is None:
                server.kill()
            if failures:
                with open(os.path.join(folder, "server.log"), encoding="utf-8", errors="replace") as log:
                    print("".join(log.readlines()[-30:]))

        ledger = []
        for participant in (fence, replay, query):
            participant.wait_for_the_late()
            ledger += participant.ledger
            print(f"{participant.name}: {len(participant.ledger)} lines, faults {participant.counts}")
        for saga in ended.values():
            failures += compare(saga, ledger)
        known = {f"{saga['id']}:{name}:action" for saga in ended.values() for name in STEPS}
        failures += [f"{line[2]} belongs to no saga" for line in ledger if line[2] not in known]

    statuses = [saga["status"] for saga in ended.values()]
    for status in ("completed", "compensated"):
        print(f"{status}: {statuses.count(status)}")
        if not statuses.count(status):
            failures.append(f"no saga was {status}: nothing was shown")
    if sum(sum(participant.counts.values()) for participant in (fence, replay, query)) < options.sagas / 4:
        failures.append("hardly any fault was met: nothing was shown")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{server.kills} kills, {len(failures)} failures")
    sys.exit(1 if failures else 0)


def wait_for_a_step_forward(server):
    """Waits while a saga was taken over twice with nothing between: three times, and it is left to people (rule 1), which a slow
    machine could bring about."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        _, page = server.insist("GET", "/v1/sagas?status=running,compensating,unknown&limit=500")
        if not any(is_only_taken_over(server, row["id"]) for row in page["items"]):
            return
        time.sleep(0.1)
    raise SystemExit("a saga that was taken over does not go on")


def is_only_taken_over(server, saga_id):
    _, journal = server.insist("GET", f"/v1/sagas/{urllib.parse.quote(saga_id, safe='')}/journal")
    return [entry["kind"] for entry in journal["items"][-2:]] == ["taken_over", "taken_over"]


def drive_in_background(server, sagas, rng, failures):
    """Starts the clients; gives a function that waits for all of them to have begun and names them."""
    clients = []
    driver = threading.Thread(target=lambda: clients.extend(drive(server, sagas, random.Random(rng.random()), failures)))
    driver.start()

    def all_of_them():
        driver.join()
        return clients

    return all_of_them


def settle(server, sagas, failures):
    """Waits until every saga has ended; gives them by id."""
    deadline = time.monotonic() + END_MAX
    ended = {}
    while True:
        for saga in sagas:
            if saga["id"] not in ended:
                status, now = server.insist("GET", "/v1/sagas/" + urllib.parse.quote(saga["id"], safe=""))
                if status != 200:
                    failures.append(f"{saga['id']} was answered with {status}: {now}")
                elif now["status"] in ("completed", "compensated", "resolved"):
                    ended[saga["id"]] = now
                elif time.monotonic() > deadline:
                    failures.append(f"{saga['id']} has not ended: {now['status']} {now['reason']}")
        if len(ended) == len(sagas) or time.monotonic() > deadline:
            return ended
        time.sleep(0.2)


if __name__ == "__main__":
    main()
