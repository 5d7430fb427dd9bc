#!/usr/bin/env python3
"""Verify an exported journal without Leasehold: its chain, every event, every state.

Written from journal/README.md, which describes every byte. Prints what `leasehold verify FILE --json`
prints, but for the words of findings. Exits: 0 all holds, 1 findings, 2 wrong call, 3 no archive.
"""
import argparse, hashlib, json, math, re, struct, sys

# What follows one another in the bytes, as name:kind. `?` is a kind that may be missing; a name alone
# is its own kind, or a token. Events are numbered from 0 in this order, flows from 1. An event's
# name is followed by the states it may meet and the state it leaves. Steps are the events of a scope
# that was paused, which is number 9.
EVENTS = """
registered vacant           pending    at:time binding payload settled:?outcome
claimed    waiting          leased     at:time attempt:u32 owner:worker token_sha256:hash expires_at:time
completed  leased           completed  at:time next_at:time outcome
watched    leased           watching   at:time next_at:time progress
unchanged  leased           watching   at:time next_at:time note
retried    leased           retry_wait at:time next_at:time failures:u32 code
failed     leased           failed     at:time next_at:time failures:u32 code progress:?progress
lease_lost leased           ending     at:time next_at:time failures:u32 code loss ending
requeued   failed/dismissed pending    at:time by:operator why:reason
dismissed  failed/waiting   dismissed  at:time by:operator why:reason
repinned   waiting          same       at:time digest:hash by:operator why:reason
released   leased           waited     at:time next_at:time attempts:u32
requeued_later failed/dismissed pending at:time next_at:time by:operator why:reason
imported   vacant           standing   at:time schema_version:u32 row_sha256:hash binding
 created_at:time updated_at:time next_at:time attempts:u32 failures:u32 progress standing payload"""
STEPS = """
named      vacant           open       at:time scope
paused     open             paused     at:time by:operator why:reason
resumed    paused           open       at:time by:operator why:reason"""
FLOWS = """
flow         binding  payload progress  note          outcome  counted  completed identity
dispatch     change   text    nothing   nothing       accepted attempts succeeded event_id
lifecycle    plan     nothing ?snapshot bytes16/token ended    failures terminal  event_id
notification notice   text    nothing   nothing       hash     attempts succeeded event_id
processing   work     nothing ?receiver nothing       receiver failures succeeded event_id
delivery     document text    nothing   nothing       hash     attempts succeeded operation/request_id"""
PARTS = """
nothing
change event_id site_id website_version source_sequence:u64 payload_sha256:hash ceiling
accepted plan_id job_count:u64 status:dispatched_as response_sha256:hash
plan event_id site_id plan_id website_version source_sequence:u64 job_count:u64 change_sha256:hash ceiling
snapshot status answer:text
ended status snapshot:?snapshot
notice event_id site_id notification_id terminal_status:status payload_sha256:hash ceiling
work event_id notification_id site_id terminal_status:status notice_sha256:hash digest:hash ceiling
receiver status:work_status attempts:u8 max_attempts:u8 next_attempt_at:f64
 lease_expires_at:?f64 lease_expired:flag error_code:?code processed_at:?f64
lease owner:worker token_sha256:hash expires_at:time
document operation request_id event_id site_id payload_sha256:hash digest:hash ceiling theirs:ceiling"""
CHOICES = {
    "operation": "change cancellation tombstone", "dispatched_as": "enqueued superseded cancelled",
    "work_status": "pending leased retry_wait succeeded failed", "loss": "expired abandoned",
    "standing": "pending=nothing watching=nothing retry_wait=code leased=lease completed=outcome failed=code",
    "status": "cancelled deleted published superseded deletion_failed localization_failed "
              "publication_blocked publication_failed awaiting_approval deleting processing "
              "publishing queue_recovery ready", "ending": "retry_wait failed"}
PLAIN = {
    "u8": lambda r: r.take(1)[0], "u32": lambda r: r.integer(4), "u64": lambda r: r.integer(8),
    "f64": lambda r: struct.unpack("<d", r.take(8))[0], "hash": lambda r: r.take(32),
    "bytes16": lambda r: r.take(16), "text": lambda r: r.take(r.integer(8)).decode()}
matching = lambda pattern: ("text", re.compile(pattern).fullmatch)
CHECKED = {
    "flag": ("u8", lambda n: n < 2), "ceiling": ("u8", lambda n: 1 <= n <= 20),
    "time": ("f64", lambda n: 0 <= n < math.inf),
    "token": matching("[A-Za-z0-9_.:-]{1,256}"), "worker": matching("[A-Za-z0-9_.:-]{1,128}"),
    "code": matching("[a-z][a-z0-9_.-]{0,127}"), "operator": matching("[!-~]{1,128}"),
    "reason": matching(r"(?=.*\S)[^\x00-\x1f\x7f-\x9f]{1,500}"),
    "scope": matching("flow/(dispatch|lifecycle|notification|processing|delivery)|"
                      "site/[A-Za-z0-9_.:-]{1,256}|destination/(cms|receiver|source)")}

def rows(table):
    return [row.split() for row in table.strip().replace("\n ", " ").split("\n")]
def require(holds, *otherwise):
    if not holds:
        raise ValueError(*otherwise)
def tagged_hash(tag, data):
    return hashlib.sha256(b"leasehold.journal." + tag + b".v1\0" + data).digest()

EVENTS, STEPS, WAITING = rows(EVENTS), rows(STEPS), ("pending", "watching", "retry_wait")
FLOWS = {n: dict(zip(rows(FLOWS)[0], row)) for n, row in enumerate(rows(FLOWS)) if n}
FLOWS[9] = {"flow": "control", "identity": "scope"}
PARTS = {name: parts for name, *parts in rows(PARTS)}

class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0
    def take(self, count):
        self.at += count
        require(self.at <= len(self.data))
        return self.data[self.at - count:self.at]
    def base128(self, place=0):
        """A number beside a body: seven bits a byte, the lowest first, never longer than needed."""
        byte = self.take(1)[0]
        require((byte or not place) and (byte < 2 or place < 9))
        return byte if byte < 128 else byte - 128 + 128 * self.base128(place + 1)
    def integer(self, size_max):
        """A number in a body: one byte up to 250, or a byte that tells the size and then as many."""
        first = self.take(1)[0]
        size = 0 if first < 251 else {251: 2, 252: 4, 253: 8}.get(first, 16)
        require(size <= size_max)
        return int.from_bytes(self.take(size), "little") if size else first
    def value(self, kind, flow):
        if kind[0] == "?":
            return self.value(kind[1:], flow) if self.value("flag", flow) else None
        if kind in CHOICES or "/" in kind:
            choices, index = re.split("[ /]", CHOICES.get(kind, kind)), self.integer(4)
            require(index < len(choices))
            name, _, more = choices[index].partition("=")
            if more:
                return name, self.value(more, flow)
            return name if kind in CHOICES else self.value(name, flow)
        if kind in CHECKED:
            value = self.value(CHECKED[kind][0], flow)
            require(CHECKED[kind][1](value))
            return value
        if kind in PARTS:
            return self.values(PARTS[kind], flow)
        return PLAIN[kind](self) if kind in PLAIN else self.value(flow.get(kind, "token"), flow)
    def values(self, parts, flow):
        return {part.split(":")[0]: self.value(part.split(":")[-1], flow) for part in parts}

def belongs(payload, binding):
    """Whether a payload is the one its binding names; a notification's id follows from the rest."""
    good = hashlib.sha256(payload.encode()).digest() == binding["payload_sha256"]
    if "notification_id" in binding:
        names = ("notification_id", "event_id", "site_id", "terminal_status")
        members = ['"%s":"%s",' % (name, binding[name]) for name in names]
        rest = hashlib.sha256(payload.replace(members[0], "", 1).encode()).hexdigest()
        good &= binding[names[0]] == "terminal-" + rest and all(part in payload for part in members)
    return good

def evolve(state, row, event, flow):
    """The state after an event; whatever is not allowed here cannot have happened."""
    (name, before, after), at, kind = row[:3], event["at"], state["kind"]
    require(("waiting" if kind in WAITING else kind) in before.split("/"))
    if name == "imported":  # whole, as another program left it
        (kind, more), binding = event["standing"], event["binding"]
        require("payload_sha256" not in binding or belongs(event["payload"], binding))
        state = {key: event[key] for key in event if key.endswith("_at") or key in (
            "binding", "attempts", "failures", "progress")}
        state = dict(state, kind=kind, expires_at=more["expires_at"] if kind == "leased" else 0)
        require(not broken(state, flow["counted"]))
        return state
    if name == "registered":
        binding, kind = event["binding"], after if event["settled"] is None else "completed"
        require("payload_sha256" not in binding or belongs(event["payload"], binding))
        return dict(kind=kind, binding=binding, created_at=at, updated_at=at, next_at=at, attempts=0,
                    failures=0, progress=None)
    kinds = {"same": kind, "ending": event.get("ending"), "waited": state.get("waited")}
    moved = dict(state, updated_at=at, kind=kinds.get(after, after))
    if name == "claimed":
        require(event["attempt"] == state["attempts"] + 1 and event["expires_at"] > at >= state["next_at"])
        return dict(moved, attempts=event["attempt"], expires_at=event["expires_at"], waited=kind)
    require(at >= state["updated_at"])
    if name in ("requeued", "requeued_later"):
        require(name == "requeued" or event["next_at"] > at)
        return dict(moved, next_at=event.get("next_at", at), attempts=0, failures=0, progress=None)
    if name in ("dismissed", "repinned"):
        require(kind == "failed" or "digest" in state["binding"])
        return moved  # which digest it is decides nothing here
    require(event["next_at"] >= state["created_at"])
    if name == "released":
        require(event["attempts"] == state["attempts"] - 1 and state.get("waited"))
        return dict(moved, next_at=event["next_at"], attempts=event["attempts"])
    if name == "unchanged":  # the same as before, where there is a before
        answer = json.loads(state["progress"].get("answer", "{}")) if state["progress"] else None
        require(json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()[:1] == b"{")
    return dict(moved, next_at=event["next_at"], failures=event.get("failures", 0),
                progress=event.get("progress", state["progress"]))

def steer(state, row, event, _flow):
    """The same of a scope: it is paused and resumed in turns, after an event that names it."""
    (name, before, after), at = row[:3], event["at"]
    require(state["kind"] == before and at >= state.get("since", 0))
    return dict(state, kind=after, since=at, binding=state.get("binding", event))

def broken(state, counted):  # the first sentence about every state that is not true of this one
    kind, tried, updated_at = state["kind"], state["attempts"] > 0, state["updated_at"]
    holds = {"R1": state[counted] <= state["binding"]["ceiling"],
             "R2": min(updated_at, state["next_at"]) >= state["created_at"],
             "R3": kind != "leased" or tried and state["expires_at"] > updated_at,
             "R4": kind not in WAITING or tried == (kind != "pending")}
    return [name for name in holds if not holds[name]][:1]

def fold(states, chunks, sequence, stream, stored, chunked):
    """Moves a record on; answers what does not hold. From its first bad event on it stands still."""
    if stream[0] not in FLOWS:
        return [("record_invalid", sequence, None, None)]
    flow, state = FLOWS[stream[0]], states.get(stream, {"kind": "vacant"})
    events, move = (STEPS, steer) if flow["flow"] == "control" else (EVENTS, evolve)
    if state["kind"] == "quarantined":
        return []
    states[stream], code = {"kind": "quarantined"}, "record_damaged"
    try:
        reader = Reader(whole(stored, chunks) if chunked else stored)
        code = "record_invalid"
        header, index = reader.take(2), reader.integer(4)
        require(index < len(events) and header == bytes([stream[0], 1 if index < 8 else max(2, index - 8)]))
        event = reader.values(events[index][3:], flow)
        require(reader.at == len(reader.data))
        code = "replay_invalid"
        state = move(state, events[index], event, flow)
        identity = "/".join(state["binding"][name] for name in flow["identity"].split("/"))
        named = b"leasehold.stream.v1\0" + stream[:1] + identity.encode()
        require(stream[1:] == hashlib.sha256(named).digest()[:15])
        states[stream] = state
    except (ValueError, RecursionError):
        return [(code, sequence, flow["flow"], None)]
    codes = broken(state, flow["counted"]) if "counted" in flow else []
    return [(code, sequence, flow["flow"], identity) for code in codes]

def whole(manifest, chunks):
    """A body from its chunks: the manifest has its length, its hash, and the hash of each chunk."""
    length, names = int.from_bytes(manifest[:4], "little"), manifest[36:]
    require(len(manifest) == 36 + -(-length // 65536) * 32 and length <= 4_201_024)
    body = b"".join(chunks.get(names[at:at + 32], b"") for at in range(0, len(names), 32))
    require(len(body) == length and tagged_hash(b"chunk", body) == manifest[4:36])
    return body

def open_frame(frame, head, tips):
    """The records of the frame that follows a head, and the head that it makes."""
    own = tagged_hash(b"frame", frame[:-8])
    require(len(frame) >= 58 and frame[:3] == b"LHF" and frame[-8:] == own[:8])
    require(frame[3] < 2, "schema_newer", None)
    first, count, length, previous = struct.unpack("<QHI32s", frame[4:50])
    require(frame[3] and count and length == len(frame) - 58 and (first - 1, previous) == head)
    body, records = Reader(frame[50:-8]), []
    for sequence in range(first, first + count):
        stream, version, distance, size = body.take(16), *(body.base128() for _ in range(3))
        require(0 < version < 1 << 32 and (version == 1) == (distance == 0) and distance < sequence)
        last = (distance and sequence - distance, version - 1)
        require(tips.get(stream, (0, 0)) == last, "journal_corrupt", sequence)
        tips[stream] = sequence, version
        records.append((sequence, stream, body.take(size >> 1), size & 1))
    require(body.at == length)
    return records, (first + count - 1, own)

def verify(files, expect_head=None):  # one archive, or all of a journal in their order
    heads, findings, chunks, tips, states, flows = [], [], {}, {}, {}, {}
    try:
        for file in files:
            start, kind = file.read(20), b""
            if len(start) < 20 or start[:4] != (b"LHX2" if heads else b"LHX1"):
                raise OSError("this is no archive" if start[:4] != b"LHX2" else "archives come before this one")
            journal = start[4:].hex()
            heads = heads or [(0, tagged_hash(b"genesis", start[4:]))]
            require(start[:4] == b"LHX1" or file.read(40) == struct.pack("<Q32s", *heads[-1]))
            while kind != b"E":
                kind, size = file.read(1), int.from_bytes(file.read(4), "little")
                item = file.read(min(size, 65537))
                require(len(item) == size <= 65536)
                if kind == b"C":
                    chunks[tagged_hash(b"chunk", item)] = item
                elif kind == b"F":
                    records, head = open_frame(item, heads[-1], tips)
                    heads.append(head)
                    for record in records:
                        findings += fold(states, chunks, *record)
                elif kind not in (b"B", b"N") or len(files) < 2:  # what is carried over was folded here
                    require((kind, item, file.read(1)) == (b"E", struct.pack("<Q32s", *heads[-1]), b""))
    except ValueError as error:
        findings.append((*(error.args or ("journal_corrupt", heads[-1][0] + 1)), None, None))
    findings += [("head_not_found", None, None, None)] * (expect_head not in [None, *dict(heads).values()])
    for stream, state in states.items():
        flow = FLOWS[stream[0]]
        counts, name = flows.setdefault(flow["flow"], {}), flow.get(state["kind"], state["kind"])
        counts[name] = counts.get(name, 0) + 1
    return {"clean": not findings, "journal": journal, "head": heads[-1][1].hex(), "sequence": heads[-1][0],
            "frames": len(heads) - 1, "records": heads[-1][0], "archived": 0, "flows": flows,
            "findings": [dict(zip(("code", "sequence", "flow", "id"), found)) for found in findings]}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="+")
    parser.add_argument("--expect-head", metavar="HEX", type=bytes.fromhex, help="has to be part of it")
    parser.add_argument("--json", action="store_true", help="print one line")
    arguments = parser.parse_args()
    try:
        report = verify([open(name, "rb") for name in arguments.file], arguments.expect_head)
    except OSError as error:
        print("verify_archive:", error, file=sys.stderr)
        sys.exit(3)
    print(json.dumps(report, indent=None if arguments.json else 2))
    sys.exit(0 if report["clean"] else 1)
