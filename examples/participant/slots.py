"""A participant that gives out slots, behind amends' fence. Python's standard library is all it needs (Python 3.9, SQLite 3.38).

    python3 slots.py slots.db 9001

POST /slots          takes a slot of a day: {"day": "mon"}
POST /slots/release  gives it back
POST /visits         books a visit at a slot: {"slot": "slot-1", "mail": "v@example.org"}
GET  /operations/KEY tells what became of a key
GET  /days/DAY       tells how many slots are free, for people
"""

import json
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import inbox

DAYS = """
CREATE TABLE IF NOT EXISTS day (name TEXT PRIMARY KEY, free INTEGER NOT NULL CHECK (free >= 0));
CREATE TABLE IF NOT EXISTS slot (number INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL, released INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS visit (slot TEXT PRIMARY KEY, mail TEXT NOT NULL);
INSERT OR IGNORE INTO day VALUES ('mon', 1000), ('tue', 1000), ('sun', 0);
"""
BODY_BYTES_MAX = 64 * 1024


def connect(path):
    db = sqlite3.connect(path, timeout=10, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def take_slot(db, body):
    """The effect of an action: plain business code in the transaction that it is given."""
    if db.execute("UPDATE day SET free = free - 1 WHERE name = ? AND free > 0", [body.get("day")]).rowcount == 0:
        raise inbox.Refused("no slot is free")
    number = db.execute("INSERT INTO slot (day) VALUES (?)", [body["day"]]).lastrowid
    return {"slot_id": f"slot-{number}"}


def release_slot(db, fact):
    """Undoes what `fact` says was done. It checks the state that it leaves, as any business write does."""
    number = fact["slot_id"].removeprefix("slot-")
    if db.execute("UPDATE slot SET released = 1 WHERE number = ? AND released = 0", [number]).rowcount == 0:
        raise inbox.Refused("the slot is not taken")
    db.execute("UPDATE day SET free = free + 1 WHERE name = (SELECT day FROM slot WHERE number = ?)", [number])
    return {}


def book_visit(db, body):
    if "@" not in body.get("mail", ""):
        raise inbox.Refused("that is no mail address")
    db.execute("INSERT INTO visit VALUES (?, ?)", [body["slot"], body["mail"]])
    return {}


class Slots(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    database = None

    def do_GET(self):
        db = connect(self.database)
        try:
            what, _, name = self.path.lstrip("/").partition("/")
            if what == "days":
                row = db.execute("SELECT free FROM day WHERE name = ?", [unquote(name)]).fetchone()
                self.answer(200 if row else 404, json.dumps({"free": row[0] if row else None}))
            elif what == "operations":
                self.answer(*inbox.query(db, unquote(name)))
            else:
                self.answer(404, json.dumps({"title": "no such path"}))
        finally:
            db.close()

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            return self.answer(413, json.dumps({"title": f"more than {BODY_BYTES_MAX} bytes"}))
        raw = self.rfile.read(length)
        key, action_key = (self.headers.get(name) for name in ("Idempotency-Key", "Amends-Action-Key"))
        if key is None or (self.path == "/slots/release" and action_key is None):
            return self.answer(412, json.dumps({"title": "Idempotency-Key or Amends-Action-Key is missing"}))
        request = inbox.request_hash(b"POST", self.path.encode(), raw)
        db = connect(self.database)
        try:
            self.answer(*self.handle_in_transaction(db, unquote(key), action_key, request, json.loads(raw or b"{}")))
        except inbox.Different as e:
            self.answer(412, json.dumps({"title": f"the key {e} was first used with another request"}))
        except Exception as e:
            # Whether it was carried out is told by the inbox: the engine asks, or sends it again.
            self.log_error("%r", e)
            self.answer(500, json.dumps({"title": "it failed"}))
        finally:
            db.close()

    def handle_in_transaction(self, db, key, action_key, request, body):
        with inbox.transaction(db):
            if self.path == "/slots":
                return inbox.action(db, key, request, lambda db: take_slot(db, body))
            if self.path == "/visits":
                return inbox.action(db, key, request, lambda db: book_visit(db, body))
            if self.path == "/slots/release":
                return inbox.compensation(db, key, unquote(action_key), request, release_slot)
        return 404, json.dumps({"title": "no such path"})

    def answer(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code="-", size="-"):
        pass


def main():
    path, port = sys.argv[1], int(sys.argv[2])
    db = connect(path)
    inbox.install(db)
    db.executescript(DAYS)
    inbox.forget(db)
    db.close()
    Slots.database = path
    server = ThreadingHTTPServer(("127.0.0.1", port), Slots)
    print(f"slots listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
