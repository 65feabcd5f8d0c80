"""The inbox of a participant, in SQLite, with nothing but the SQL and the rules of docs/inbox.md.

With PostgreSQL or MySQL the steps are the same; the statements are in that page too. Each function here works within the caller's transaction, and
gives the HTTP status and the JSON text to answer once that is committed.
"""

import hashlib
import json
from contextlib import contextmanager

TABLE = """
CREATE TABLE IF NOT EXISTS amends_inbox (
    operation_key TEXT NOT NULL PRIMARY KEY
        CHECK (length(CAST(operation_key AS BLOB)) BETWEEN 1 AND 512),
    operation     TEXT NOT NULL CHECK (operation IN ('action', 'compensation')),
    state         TEXT NOT NULL CHECK (state IN ('running', 'done', 'rejected', 'sealed')),
    action_key    TEXT,
    request_hash  BLOB,
    answer        TEXT,
    undone_by     TEXT,
    created_at    INTEGER NOT NULL DEFAULT (unixepoch()),
    keep_until    INTEGER NOT NULL,
    CHECK ((operation = 'compensation') = (action_key IS NOT NULL)),
    CHECK (state <> 'sealed' OR operation = 'action'),
    CHECK ((state IN ('done', 'rejected')) = (answer IS NOT NULL))
) STRICT
"""

INDEX = "CREATE INDEX IF NOT EXISTS amends_inbox_keep_until ON amends_inbox (keep_until)"

TAKE = """
INSERT INTO amends_inbox (operation_key, operation, state, action_key, request_hash, keep_until)
VALUES (:key, :operation, 'running', :action_key, :request_hash, unixepoch() + :keep_s)
ON CONFLICT (operation_key) DO NOTHING
"""

SEAL = """
INSERT INTO amends_inbox (operation_key, operation, state, keep_until)
VALUES (:key, 'action', 'sealed', unixepoch() + :keep_s)
ON CONFLICT (operation_key) DO UPDATE
SET keep_until = max(keep_until, excluded.keep_until)
"""

READ = """
SELECT operation, state, action_key, request_hash, answer, undone_by
FROM amends_inbox WHERE operation_key = :key
"""

SETTLE = """
UPDATE amends_inbox SET state = :state, answer = :answer
WHERE operation_key = :key AND state = 'running'
"""

UNDONE = """
UPDATE amends_inbox SET undone_by = :undone_by
WHERE operation_key = :key AND state = 'done' AND undone_by IS NULL
"""

FORGET = """
DELETE FROM amends_inbox
WHERE operation_key IN (
    SELECT operation_key FROM amends_inbox
    WHERE keep_until < unixepoch() ORDER BY keep_until LIMIT :limit
)
"""

KEEP_S = 30 * 86_400
TOO_LATE = {"outcome": "rejected", "reason": "it was undone before it arrived"}


class Refused(Exception):
    """What an effect raises that business refuses for good. What it wrote is undone, and the refusal is kept."""


class Different(Exception):
    """The key was first used with another request. Answer 412, never 422: the first request may have been carried out."""


class Unfinished(Exception):
    """A record was committed before its operation was over. Only code that does not use this module can do that."""


def install(db):
    """Makes the table. A second call changes nothing."""
    db.execute(TABLE)
    db.execute(INDEX)


@contextmanager
def transaction(db):
    """Effect and record are committed together, or neither is there. IMMEDIATE: writers take turns from the beginning."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def request_hash(*parts):
    """What was asked for: each part behind its length, so that no two requests look alike."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def action(db, key, request, effect):
    """Carries `effect(db)` out, which returns a fact (a dict) or raises Refused; or gives the first call's answer."""
    if not take(db, key, "action", None, request):
        return stored(db, key, "action", None, request)
    return carry_out(db, key, lambda: effect(db))


def compensation(db, key, action_key, request, undo):
    """Undoes an action once, by `undo(db, fact)`; or makes sure that it never runs."""
    db.execute(SEAL, {"key": action_key, "keep_s": KEEP_S})
    operation, state, _, _, answer, undone_by = db.execute(READ, {"key": action_key}).fetchone()
    if operation != "action":
        raise Different(action_key)
    if not take(db, key, "compensation", action_key, request):
        return stored(db, key, "compensation", action_key, request)
    if state == "running":
        raise Unfinished(action_key)
    if state in ("sealed", "rejected"):
        return settle(db, key, "done", {"undone": False})
    if undone_by is not None:
        return settle(db, key, "done", {"undone": True})

    def effect():
        fact = undo(db, json.loads(answer)) or {}
        if db.execute(UNDONE, {"key": action_key, "undone_by": key}).rowcount != 1:
            raise Unfinished(action_key)
        return {**fact, "undone": True}

    return carry_out(db, key, effect)


def query(db, key):
    """What became of a key."""
    row = db.execute(READ, {"key": key}).fetchone()
    if row is None:
        return 404, json.dumps({"outcome": "never_seen"})
    _, state, _, _, answer, _ = row
    if state == "running":
        raise Unfinished(key)
    if state == "sealed":
        return 410, json.dumps({"outcome": "sealed"})
    return (200 if state == "done" else 409), answer


def forget(db, limit=1000):
    """Removes records whose time is over; gives how many. Call it again while it finds as many as it may."""
    return db.execute(FORGET, {"limit": limit}).rowcount


def take(db, key, operation, action_key, request):
    row = {"key": key, "operation": operation, "action_key": action_key, "request_hash": request, "keep_s": KEEP_S}
    return db.execute(TAKE, row).rowcount == 1


def stored(db, key, operation, action_key, request):
    its_operation, state, its_action_key, its_request, answer, _ = db.execute(READ, {"key": key}).fetchone()
    if (its_operation, its_action_key) != (operation, action_key):
        raise Different(key)
    if state == "sealed":
        return 422, json.dumps(TOO_LATE)
    if its_request != request:
        raise Different(key)
    if state == "running":
        raise Unfinished(key)
    return (200 if state == "done" else 422), answer


def carry_out(db, key, effect):
    db.execute("SAVEPOINT amends_effect")
    try:
        fact = effect()
    except Refused as refused:
        db.execute("ROLLBACK TO SAVEPOINT amends_effect")
        return settle(db, key, "rejected", {"outcome": "rejected", "reason": str(refused)})
    return settle(db, key, "done", fact)


def settle(db, key, state, body):
    answer = json.dumps(body)
    if db.execute(SETTLE, {"key": key, "state": state, "answer": answer}).rowcount != 1:
        raise Unfinished(key)
    return (200 if state == "done" else 422), answer
