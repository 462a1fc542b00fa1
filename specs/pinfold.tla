------------------------------- MODULE pinfold -------------------------------
(***************************************************************************)
(* The ownership protocol of pinfold for one group: one directory, some    *)
(* nodes, some sessions, and a network that loses, repeats and reorders.   *)
(*                                                                         *)
(* Read it after section 4 and 5 of the design: a group has a list of      *)
(* copies, each in a role; only the directory decides about roles; only a  *)
(* node touches bytes; orders are numbered, reports are facts.             *)
(*                                                                         *)
(* `msgs` only grows.  A message may be taken at any time, any number of   *)
(* times, or never: that is loss, repetition and reordering at once.       *)
(* `left` says how many of the things are left that would otherwise make   *)
(* the model infinite.  specs/tla.md says what is left out.                *)
(***************************************************************************)
EXTENDS pinfold_rows

CONSTANTS MaxPins,      \* live pins (refs) of one session on one copy (the group)
          MaxTouch,     \* readers inside one copy at once
          Budget        \* what `left` begins with

VARIABLES dir,          \* the directory's record, see pinfold_rows
          node,         \* per node: boot, inc, term, num, reg, fenced, has
          msgs,         \* every message that was ever sent
          left          \* budgets
vars == <<dir, node, msgs, left>>

(* What a node has of a copy.  `ph`:                                        *)
(*   written here     reserved -> storing -> stored -> verifying            *)
(*   fetched          asked -> filling -> checking                          *)
(*   either           -> verified | failed -> freeing -> none               *)
(* `touch` counts those who touch the bytes here (byte work that runs,      *)
(* readers), `serve` the move targets that are being read for.  `bad`: it   *)
(* has failed, and is never tried again.                                    *)
Nothing == [ph |-> "none", touch |-> 0, serve |-> {}, bad |-> FALSE]
NewBoot(b) == [boot |-> b, inc |-> 0, term |-> 0, num |-> 0, reg |-> FALSE, over |-> 0, fenced |-> FALSE,
               has |-> [c \in Copy |-> Nothing]]

Condition(ph) == CASE ph = "none" -> "none" [] ph = "verified" -> "verified" [] ph = "freeing" -> "freeing"
                   [] OTHER -> "reserved"

Fact(n, f, c) == [k |-> "fact", n |-> n, inc |-> node[n].inc, f |-> f, c |-> c]
Register(n, b, over) == [k |-> "register", n |-> n, boot |-> b, over |-> over]

Init ==     \* every node is registered and has told its first inventory; every session is open
  /\ dir = [term |-> 1, state |-> "NONE", reason |-> "NONE", epoch |-> 0, leaving |-> FALSE, target |-> NoCopy,
            writer |-> None, created |-> NoCopy, born |-> 0, list |-> [c \in Copy |-> Away],
            pins |-> [s \in Session |-> [c \in Copy |-> 0]], refs |-> [s \in Session |-> 0],
            open |-> [s \in Session |-> TRUE],
            alive |-> [n \in Node |-> TRUE], inc |-> [n \in Node |-> 1], boot |-> [n \in Node |-> 1],
            ready |-> [n \in Node |-> TRUE], num |-> [n \in Node |-> 0], ordered |-> [c \in Copy |-> 0],
            out |-> {}]
  /\ node = [n \in Node |-> [NewBoot(1) EXCEPT !.inc = 1, !.term = 1, !.reg = TRUE]]
  /\ msgs = {}
  /\ left = Budget

----------------------------------------------------------------------------
(* The directory steps: what it sends has been made durable before.         *)

Decide(d) == dir' = [d EXCEPT !.out = {}] /\ msgs' = msgs \cup d.out /\ UNCHANGED node
Free == UNCHANGED left
Spend(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]
Usable(n) == dir.alive[n] /\ dir.ready[n]
SomeSession == \E s \in Session : dir.open[s]

(* Commands.  Each is applied once: numbers and answers are left out.       *)

Create(s, n) == /\ dir.open[s] /\ CanCreate(dir) /\ Usable(n) /\ dir.born < MaxCopies
                /\ Spend("create") /\ Decide(CreateRow(dir, s, n))

Pin(s, c) == /\ dir.open[s] /\ dir.state \in Readable /\ ~dir.leaving /\ CanRead(dir, c)
             /\ dir.pins[s][c] < MaxPins
             /\ Free /\ Decide([dir EXCEPT !.pins[s][c] = @ + 1])

Unpin(s, c) == /\ dir.pins[s][c] > 0
               /\ Free /\ Decide([dir EXCEPT !.pins[s][c] = @ - 1])

Ref(s) == /\ dir.open[s] /\ dir.state \in Readable /\ ~dir.leaving /\ \E c \in Copy : CanRead(dir, c)
          /\ dir.refs[s] < MaxPins
          /\ Free /\ Decide([dir EXCEPT !.refs[s] = @ + 1])

Unref(s) == /\ dir.refs[s] > 0
            /\ Free /\ Decide([dir EXCEPT !.refs[s] = @ - 1])

Evict == SomeSession /\ CanEvict(dir) /\ Free /\ Decide(EvictRow(dir))

EvictWaiting == /\ SomeSession /\ dir.state \in Readable /\ ~CanEvict(dir) /\ ~dir.leaving
                /\ Free /\ Decide([dir EXCEPT !.leaving = TRUE])

There(n) == {c \in Copy : /\ dir.list[c].role \notin {"GONE", "FREEING"}
                          /\ dir.list[c].node = n /\ c >= dir.created}
Adoptable(n) == {c \in There(n) : dir.list[c].role \in {"REPLICA", "RETIRING"} /\ ~dir.list[c].absent}
MayMove(allow) == /\ dir.state = "LOCAL" /\ ~dir.leaving /\ AuthorityPresent(dir)
                  /\ allow \/ \A c \in Copy : CanRead(dir, c) => ~Pinned(dir, c)

Move(n, allow) == /\ SomeSession /\ Usable(n) /\ MayMove(allow) /\ There(n) = {} /\ dir.born < MaxCopies
                  /\ Spend("move") /\ Decide(MoveRow(dir, n))

Adopt(n, allow) == /\ SomeSession /\ Usable(n) /\ MayMove(allow) /\ Adoptable(n) # {}
                   /\ Spend("move") /\ Decide(AdoptRow(dir, Least(Adoptable(n))))

CancelMove == /\ SomeSession /\ Moving(dir) /\ Authority(dir) # NoCopy
              /\ Free /\ Decide(EndedRow(dir, dir.target, FALSE))

Replicate(n) == /\ SomeSession /\ Usable(n) /\ dir.state \in Readable /\ ~dir.leaving /\ AuthorityPresent(dir)
                /\ There(n) = {} /\ dir.born < MaxCopies
                /\ Spend("replicate") /\ Decide(ReplicateRow(dir, n))

DropReplica(c) == /\ SomeSession /\ dir.state \in Readable /\ dir.list[c].role = "REPLICA"
                  /\ Referred(dir) => \E e \in Copy \ {c} : CanRead(dir, e)
                  /\ Free /\ Decide(DropRow(dir, c))

CloseSession(s) == dir.open[s] /\ Spend("close") /\ Decide(EndSession(dir, s))

(* Time.  What is due when is left out: anything may become due at any time *)

Tick == Free /\ Decide(Housekeep(dir, {}))

Expire(s) == dir.open[s] /\ Spend("close") /\ Decide(Housekeep(EndSession(dir, s), {}))

Deadline(c) == dir.list[c].role = "INCOMING" /\ Free /\ Decide(Housekeep(dir, {c}))

AbsentLimit(c) == dir.list[c].absent /\ Free /\ Decide(Housekeep(dir, {c}))

Lapse(n) == dir.alive[n] /\ Spend("lapse") /\ Decide(Housekeep(LapseRow(dir, n), {}))

Restart ==      \* soft state is gone, the term rises
  /\ Spend("restart")
  /\ Decide([dir EXCEPT !.term = @ + 1, !.ready = [n \in Node |-> FALSE], !.num = [n \in Node |-> 0],
                        !.ordered = [c \in Copy |-> 0]])

----------------------------------------------------------------------------
(* The directory hears of nodes. *)

Current(m) == dir.alive[m.n] /\ dir.inc[m.n] = m.inc

Refused(n, inc) ==      \* a report of another registration has no effect; its sender learns why
  IF dir.alive[n] /\ inc < dir.inc[n]
  THEN {[k |-> "fenced", n |-> n, term |-> dir.term, inc |-> inc, boot |-> dir.boot[n]]}
  ELSE {[k |-> "again", n |-> n, term |-> dir.term, inc |-> inc]}

Refuse(n, inc) == Free /\ Decide([dir EXCEPT !.out = Refused(n, inc)])

StaleReport(m) == m.k \in {"fact", "inventory"} /\ ~Current(m) /\ Refuse(m.n, m.inc)

HearFact(m) ==
  /\ m.k = "fact" /\ Current(m)
  /\ IF Listed(dir, m.c) /\ dir.list[m.c].node = m.n
     THEN /\ Free
          /\ Decide(CASE m.f = "sealed" -> SealedRow(dir, m.c)
                      [] m.f = "done" -> DoneRow(dir, m.c)
                      [] m.f = "failed" -> EndedRow(dir, m.c, FALSE)
                      [] m.f = "freed" -> GoneRow(dir, m.c))
     ELSE /\ m.f \in {"sealed", "done"} /\ ~Listed(dir, m.c)
          /\ Spend("hear") /\ Decide(FreeUnknown(dir, m.n, m.c))

(* An inventory: presence always counts; absence, and what is being freed,  *)
(* only if nothing was ordered about the copy after it was taken, in this   *)
(* term.  "reserved" says nothing: it may have been verified since.         *)
Compare(d, c, cond, counts) ==
  LET role == d.list[c].role IN
  CASE cond = "none" ->
         IF counts THEN GoneRow(d, c)
         ELSE IF role = "FREEING" THEN OrderFreeing(d, c)
         ELSE IF role = "INCOMING" THEN OrderMaking(d, c) ELSE d
    [] cond # "none" /\ role = "FREEING" -> IF cond = "freeing" THEN d ELSE OrderFreeing(d, c)
    [] cond = "verified" /\ role = "INCOMING" -> IF d.state = "WRITING" THEN SealedRow(d, c) ELSE DoneRow(d, c)
    [] cond = "verified" /\ role \notin {"INCOMING", "FREEING"} -> IF d.list[c].absent THEN ReturnRow(d, c) ELSE d
    [] cond \in {"reserved", "freeing"} /\ role = "INCOMING" ->
         IF cond = "freeing" /\ counts THEN EndedRow(d, c, FALSE) ELSE d
    [] OTHER -> IF cond = "freeing" /\ counts THEN GoneRow(d, c) ELSE d

RECURSIVE CompareFrom(_, _, _), FreeStrangers(_, _, _)
CompareFrom(d, m, c) ==
  IF c > MaxCopies THEN d
  ELSE CompareFrom(IF Listed(d, c) /\ d.list[c].node = m.n
                   THEN Compare(d, c, m.has[c], m.term = d.term /\ m.num >= d.ordered[c]) ELSE d, m, c + 1)
FreeStrangers(d, m, c) ==
  IF c > MaxCopies THEN d
  ELSE FreeStrangers(IF m.has[c] \in {"reserved", "verified"} /\ ~(Listed(d, c) /\ d.list[c].node = m.n)
                     THEN FreeUnknown(d, m.n, c) ELSE d, m, c + 1)

HearInventory(m) ==
  /\ m.k = "inventory" /\ Current(m)
  /\ LET d == FreeStrangers(CompareFrom(dir, m, 1), m, 1)
     IN Spend("hear") /\ Decide(IF m.term = dir.term THEN [d EXCEPT !.ready[m.n] = TRUE] ELSE d)

HearRegister(m) ==
  /\ m.k = "register"
  /\ LET n == m.n
         Welcome(d) == [d EXCEPT !.out = @ \cup {[k |-> "registered", n |-> n, term |-> d.term, boot |-> m.boot,
                                                  inc |-> d.inc[n]]}]
     IN IF dir.alive[n] /\ dir.boot[n] = m.boot THEN Free /\ Decide(Welcome(dir))
        ELSE IF dir.boot[n] # m.boot /\ m.over # dir.inc[n]     \* it must know whom it replaces
        THEN Free /\ Decide([dir EXCEPT !.out = {[k |-> "taken", n |-> n, term |-> dir.term, boot |-> m.boot,
                                                 inc |-> dir.inc[n]]}])
        ELSE LET d == IF dir.alive[n] THEN LapseRow(dir, n) ELSE dir
             IN Spend("register")
                /\ Decide(Welcome([d EXCEPT !.alive[n] = TRUE, !.inc[n] = @ + 1, !.boot[n] = m.boot, !.num[n] = 0]))

HearHeartbeat(n, inc, term) ==
  IF dir.alive[n] /\ inc = dir.inc[n]
  THEN /\ ~dir.ready[n] \/ term # dir.term
       /\ left.tell > 0 /\ Free       \* it asks for an inventory
       /\ Decide([dir EXCEPT !.out = {[k |-> "ask", n |-> n, term |-> dir.term, inc |-> dir.inc[n]]}])
  ELSE Refuse(n, inc)

Heartbeat(n) == node[n].reg /\ ~node[n].fenced /\ HearHeartbeat(n, node[n].inc, node[n].term)

----------------------------------------------------------------------------
(* Nodes.  A node changes only itself and sends.                            *)

Says(n, x, out) == /\ node' = [node EXCEPT ![n] = x] /\ msgs' = msgs \cup out /\ UNCHANGED dir

Inventory(n, x) ==      \* failures are told beside it: an inventory can't say "failed"
  {[k |-> "inventory", n |-> n, inc |-> x.inc, term |-> x.term, num |-> x.num,
    has |-> [c \in Copy |-> Condition(x.has[c].ph)]]}
  \cup {[k |-> "fact", n |-> n, inc |-> x.inc, f |-> "failed", c |-> c] : c \in {e \in Copy : x.has[e].bad}}

Told(n, x, out) == out \cup IF x.reg THEN Inventory(n, x) ELSE {}

Adopted(x, term, inc) == IF x.term = term /\ x.inc = inc THEN x ELSE [x EXCEPT !.term = term, !.inc = inc, !.num = 0]

Passes(x, m) == /\ ~x.fenced /\ m.inc = x.inc
                /\ m.term > x.term \/ (m.term = x.term /\ m.num > x.num)

TakeOrder(m) ==         \* FENCE-1: a number above the last taken, in the current registration
  /\ m.k = "order" /\ Passes(node[m.n], m)
  /\ LET n == m.n
         c == m.c
         x == [Adopted(node[n], m.term, m.inc) EXCEPT !.num = m.num]
         ph == x.has[c].ph
         y == CASE m.op = "reserve" /\ ph = "none" -> [x EXCEPT !.has[c].ph = "reserved"]
                [] m.op = "fetch" /\ ph = "none" -> [x EXCEPT !.has[c].ph = "asked"]
                [] m.op = "free" /\ ph # "none" -> [x EXCEPT !.has[c].ph = "freeing"]
                [] OTHER -> x
         tells == CASE m.op = "fetch" /\ ph = "none" -> {[k |-> "read", n |-> m.at, src |-> m.src, c |-> c]}
                    [] m.op = "free" /\ ph = "none" -> {Fact(n, "freed", c)}
                    [] m.op # "free" /\ x.has[c].bad -> {Fact(n, "failed", c)}
                    [] m.op # "free" /\ ph = "verified" -> {Fact(n, IF m.op = "reserve" THEN "sealed" ELSE "done", c)}
                    [] OTHER -> {}
     IN Says(n, y, IF m.term > node[n].term THEN Told(n, y, tells) ELSE tells) /\ Free

(* A write: by its client, in four steps; it may be given up at any time.   *)
(* `twist` bounds what is out of the ordinary in the making of a copy.      *)

Has(n, c, ph) == ~node[n].fenced /\ node[n].has[c].ph = ph
Turns(n, c, ph, touch, out) == Says(n, [node[n] EXCEPT !.has[c].ph = ph, !.has[c].touch = touch], out)

Fails(n, c) == Says(n, [node[n] EXCEPT !.has[c].ph = "failed", !.has[c].bad = TRUE], {Fact(n, "failed", c)})

Write(n, c) == Has(n, c, "reserved") /\ Turns(n, c, "storing", 1, {}) /\ Free
WriteAgain(n, c) == Has(n, c, "stored") /\ Turns(n, c, "storing", 1, {}) /\ Spend("twist")
Stored(n, c) == Has(n, c, "storing") /\ Turns(n, c, "stored", 0, {}) /\ Free
EndWrite(n, c) == Has(n, c, "stored") /\ Turns(n, c, "verifying", 1, {}) /\ Free
Verified(n, c) == Has(n, c, "verifying") /\ Turns(n, c, "verified", 0, {Fact(n, "sealed", c)}) /\ Free
EndWriteAgain(n, c) == Has(n, c, "verified") /\ Says(n, node[n], {Fact(n, "sealed", c)}) /\ Spend("twist")

AbortWrite(n, c) ==
  /\ ~node[n].fenced /\ node[n].has[c].ph \in {"reserved", "storing", "stored", "verifying"} /\ Spend("twist")
  /\ Fails(n, c)

(* A fetch: the source serves a read under a guard, the target stores and verifies *)

ServeRead(m) ==
  /\ m.k = "read" /\ ~node[m.n].fenced
  /\ LET h == node[m.n].has[m.src] IN
     \/ /\ h.ph = "verified" /\ m.c \notin h.serve
        /\ Says(m.n, [node[m.n] EXCEPT !.has[m.src].serve = @ \cup {m.c}], {}) /\ Free
     \/ /\ h.ph \in {"none", "failed", "freeing"}
        /\ Says(m.n, node[m.n], {[k |-> "refused", c |-> m.c]}) /\ Free

Served(n, c, t) ==
  /\ ~node[n].fenced /\ t \in node[n].has[c].serve /\ Free
  /\ Says(n, [node[n] EXCEPT !.has[c].serve = @ \ {t}], {[k |-> "blocks", c |-> t]})

BlocksCame(m) == m.k = "blocks" /\ \E n \in Node : Has(n, m.c, "asked") /\ Turns(n, m.c, "filling", 1, {}) /\ Free
Filled(n, c) == Has(n, c, "filling") /\ Turns(n, c, "checking", 1, {}) /\ Free
Checked(n, c) == Has(n, c, "checking") /\ Turns(n, c, "verified", 0, {Fact(n, "done", c)}) /\ Free
SourceRefused(m) == /\ m.k = "refused"
                    /\ \E n \in Node : Has(n, m.c, "asked") /\ Fails(n, m.c) /\ Free

JobDeadline(n, c) ==
  /\ ~node[n].fenced /\ node[n].has[c].ph \in {"asked", "filling", "checking"} /\ Spend("twist")
  /\ Fails(n, c)

(* Guards: bytes go only when nobody touches them (USE-1) *)

ReaderComes(n, c) ==
  /\ ~node[n].fenced /\ node[n].has[c].ph = "verified" /\ node[n].has[c].touch < MaxTouch
  /\ Says(n, [node[n] EXCEPT !.has[c].touch = @ + 1], {}) /\ Free

ReaderGoes(n, c) ==
  /\ ~node[n].fenced /\ node[n].has[c].ph = "verified" /\ node[n].has[c].touch > 0
  /\ Says(n, [node[n] EXCEPT !.has[c].touch = @ - 1], {}) /\ Free

TouchEnds(n, c) ==      \* byte work or a reader that has outlived the copy's use
  /\ ~node[n].fenced /\ node[n].has[c].ph \in {"failed", "freeing"} /\ node[n].has[c].touch > 0
  /\ Says(n, [node[n] EXCEPT !.has[c].touch = @ - 1], {}) /\ Free

Released(n, c) ==
  /\ ~node[n].fenced /\ node[n].has[c].ph = "freeing" /\ node[n].has[c].touch = 0 /\ node[n].has[c].serve = {}
  /\ Says(n, [node[n] EXCEPT !.has[c] = Nothing], {Fact(n, "freed", c)}) /\ Free

(* Registration, inventories, death *)

TellInventory(n) == /\ node[n].reg /\ ~node[n].fenced /\ Spend("tell")
                    /\ Says(n, node[n], Inventory(n, node[n]))

TakeRegistered(m) ==
  /\ m.k = "registered"
  /\ LET x == node[m.n]
         y == [Adopted(x, m.term, m.inc) EXCEPT !.reg = TRUE]
     IN /\ ~x.fenced /\ m.boot = x.boot /\ m.inc >= x.inc /\ m.term >= x.term
        /\ ~(x.reg /\ x.term = m.term /\ x.inc = m.inc)
        /\ Says(m.n, y, Told(m.n, y, {})) /\ Free

TakeAsk(m) ==
  /\ m.k = "ask" /\ ~node[m.n].fenced /\ m.inc = node[m.n].inc /\ m.term >= node[m.n].term
  /\ LET y == Adopted(node[m.n], m.term, m.inc)
     IN Says(m.n, y, Told(m.n, y, {})) /\ Spend("tell")

ComeBack(m) == /\ node[m.n].reg /\ m.term >= node[m.n].term
               /\ Says(m.n, [node[m.n] EXCEPT !.reg = FALSE], {Register(m.n, node[m.n].boot, node[m.n].over)})

TakeAgain(m) == m.k = "again" /\ ~node[m.n].fenced /\ m.inc = node[m.n].inc /\ ComeBack(m) /\ Free

TakeFenced(m) ==
  /\ m.k = "fenced" /\ ~node[m.n].fenced /\ m.inc = node[m.n].inc /\ Free
  /\ IF m.boot = node[m.n].boot THEN ComeBack(m) ELSE Says(m.n, [node[m.n] EXCEPT !.fenced = TRUE], {})

TakeTaken(m) ==         \* a newcomer takes the name over; who had it before has been replaced
  /\ m.k = "taken" /\ Free
  /\ LET x == node[m.n] IN
     /\ ~x.fenced /\ m.boot = x.boot /\ ~x.reg /\ m.inc > x.over /\ m.inc > x.inc
     /\ IF x.inc > 0 THEN Says(m.n, [x EXCEPT !.fenced = TRUE], {})
        ELSE Says(m.n, [x EXCEPT !.over = m.inc], {Register(m.n, x.boot, m.inc)})

Crash(n) == LET b == node[n].boot + 1 IN Spend("crash") /\ Says(n, NewBoot(b), {Register(n, b, 0)})

----------------------------------------------------------------------------
DoHearFact == \E m \in msgs : HearFact(m)
DoHearInventory == \E m \in msgs : HearInventory(m)
DoHearRegister == \E m \in msgs : HearRegister(m)
DoStaleReport == \E m \in msgs : StaleReport(m)
DoTakeOrder == \E m \in msgs : TakeOrder(m)
DoServeRead == \E m \in msgs : ServeRead(m)
DoBlocksCame == \E m \in msgs : BlocksCame(m)
DoSourceRefused == \E m \in msgs : SourceRefused(m)
DoTakeRegistered == \E m \in msgs : TakeRegistered(m)
DoTakeAsk == \E m \in msgs : TakeAsk(m)
DoTakeAgain == \E m \in msgs : TakeAgain(m)
DoTakeFenced == \E m \in msgs : TakeFenced(m)
DoTakeTaken == \E m \in msgs : TakeTaken(m)
DoServed == \E n \in Node, c \in Copy : \E t \in node[n].has[c].serve : Served(n, c, t)

Messages == \/ DoHearFact \/ DoHearInventory \/ DoHearRegister \/ DoStaleReport \/ DoTakeOrder \/ DoServeRead
            \/ DoBlocksCame \/ DoSourceRefused \/ DoTakeRegistered \/ DoTakeAsk \/ DoTakeAgain \/ DoTakeFenced
            \/ DoTakeTaken

Commands == \/ \E s \in Session : \/ \E n \in Node : Create(s, n)
                                  \/ \E c \in Copy : Pin(s, c) \/ Unpin(s, c)
                                  \/ Ref(s) \/ Unref(s) \/ CloseSession(s)
            \/ Evict \/ EvictWaiting \/ CancelMove
            \/ \E n \in Node : Replicate(n) \/ \E allow \in BOOLEAN : Move(n, allow) \/ Adopt(n, allow)
            \/ \E c \in Copy : DropReplica(c)

Times == \/ Tick \/ Restart
         \/ \E s \in Session : Expire(s)
         \/ \E c \in Copy : Deadline(c) \/ AbsentLimit(c)
         \/ \E n \in Node : Lapse(n) \/ Heartbeat(n) \/ TellInventory(n) \/ Crash(n)

AtNodes == \/ \E n \in Node, c \in Copy :
                \/ Write(n, c) \/ WriteAgain(n, c) \/ Stored(n, c) \/ EndWrite(n, c) \/ EndWriteAgain(n, c) \/ Verified(n, c)
                \/ AbortWrite(n, c)
                \/ Filled(n, c) \/ Checked(n, c) \/ JobDeadline(n, c)
                \/ ReaderComes(n, c) \/ ReaderGoes(n, c) \/ TouchEnds(n, c) \/ Released(n, c)
           \/ DoServed

Next == Messages \/ Commands \/ Times \/ AtNodes
Spec == Init /\ [][Next]_vars

----------------------------------------------------------------------------
(* Safety.  The names are those of section 7 of the design.                 *)

TypeOK ==
  /\ dir.state \in {"NONE", "WRITING", "LOCAL", "MIGRATING_OUT", "EVICTING", "EVICTED"}
  /\ dir.out = {} /\ dir.born \in 0..MaxCopies /\ dir.target \in 0..dir.born
  /\ dir.pins \in [Session -> [Copy -> Nat]] /\ dir.refs \in [Session -> Nat] /\ dir.open \in [Session -> BOOLEAN]
  /\ dir.ordered \in [Copy -> Nat] /\ dir.num \in [Node -> Nat] /\ dir.inc \in [Node -> Nat] /\ dir.boot \in [Node -> Nat]
  /\ dir.alive \in [Node -> BOOLEAN] /\ dir.ready \in [Node -> BOOLEAN]
  /\ dir.list \in [Copy -> [role : {"GONE", "INCOMING", "AUTHORITATIVE", "REPLICA", "RETIRING", "FREEING"},
                           node : Node \cup {None}, absent : BOOLEAN]]
  /\ \A c \in Copy : c > dir.born => ~Listed(dir, c)
  /\ \A n \in Node, c \in Copy : node[n].has[c].ph \in
       {"none", "reserved", "storing", "stored", "verifying", "asked", "filling", "checking", "verified", "failed", "freeing"}

OWN1 == Cardinality({c \in Copy : dir.list[c].role = "AUTHORITATIVE"}) <= 1

MOVE1 ==        \* the state says what the list has
  LET roles == {dir.list[c].role : c \in Copy} \ {"GONE"} IN
  CASE dir.state \in {"NONE", "EVICTED"} -> roles = {}
    [] dir.state = "WRITING" -> dir.list[dir.target].role = "INCOMING" /\ roles \cap {"AUTHORITATIVE", "REPLICA"} = {}
    [] dir.state = "LOCAL" -> Authority(dir) # NoCopy /\ dir.target = NoCopy
    [] dir.state = "MIGRATING_OUT" -> dir.list[dir.target].role = "INCOMING"
    [] dir.state = "EVICTING" -> roles # {} /\ roles \subseteq {"RETIRING", "FREEING"}

SameBoot(n) == dir.alive[n] /\ dir.boot[n] = node[n].boot

COPY2 ==        \* what the record says can be read, or may come back, is there, verified
  \A c \in Copy : LET e == dir.list[c] IN
    (e.role \in {"AUTHORITATIVE", "REPLICA", "RETIRING"} /\ ~e.absent /\ SameBoot(e.node)) =>
      node[e.node].has[c].ph = "verified"

HOLD1 == \A s \in Session : /\ ~dir.open[s] => dir.refs[s] = 0 /\ \A c \in Copy : dir.pins[s][c] = 0
                            /\ dir.refs[s] > 0 => dir.state \in Readable \cup {"WRITING"}
                            /\ \A c \in Copy : dir.pins[s][c] > 0 => Listed(dir, c)

USE1 == /\ \A c \in Copy : Pinned(dir, c) => dir.list[c].role # "FREEING"
        /\ \A n \in Node, c \in Copy : node[n].has[c].ph = "none" => node[n].has[c].touch = 0 /\ node[n].has[c].serve = {}

FENCE1 == \A n \in Node : /\ node[n].inc <= dir.inc[n] /\ node[n].term <= dir.term
                          /\ ~node[n].fenced      \* one process at a time has a name here: nobody but the dead is replaced

Safe == TypeOK /\ OWN1 /\ MOVE1 /\ COPY2 /\ HOLD1 /\ USE1 /\ FENCE1

(* Of steps *)

Owner(d) == IF Authority(d) = NoCopy THEN <<None, 0>>
            ELSE LET n == d.list[Authority(d)].node IN <<n, d.list[Authority(d)].absent>>

EPOCH1 == [][/\ dir'.epoch >= dir.epoch /\ dir'.term >= dir.term /\ dir'.born >= dir.born
             /\ \A n \in Node : dir'.inc[n] >= dir.inc[n]
             /\ (Authority(dir') # Authority(dir)) => dir'.epoch > dir.epoch]_vars

COPY3 == [][\A c \in Copy : /\ dir.list[c].role = "FREEING" => dir'.list[c].role \in {"FREEING", "GONE"}
                            /\ (c <= dir.born /\ ~Listed(dir, c)) => ~Listed(dir', c)]_vars

INV1 ==         \* what is there, verified, in the current registration, does not leave the record
  [][\A c \in Copy : LET e == dir.list[c] IN
       (/\ e.role \in {"AUTHORITATIVE", "REPLICA", "RETIRING"} /\ ~e.absent /\ SameBoot(e.node)
        /\ node[e.node].inc = dir.inc[e.node] /\ node[e.node].has[c].ph = "verified"
        /\ dir'.alive[e.node] /\ dir'.inc[e.node] = dir.inc[e.node]) => Listed(dir', c)]_vars

NUMBER1 == [][\A n \in Node : node'[n].boot = node[n].boot =>
               \/ node'[n].inc > node[n].inc \/ node'[n].term > node[n].term
               \/ node'[n].inc = node[n].inc /\ node'[n].term = node[n].term /\ node'[n].num >= node[n].num]_vars

USE2 == [][\A n \in Node, c \in Copy : (node'[n].boot = node[n].boot /\ node[n].has[c].ph # "none"
              /\ node'[n].has[c].ph = "none") => node[n].has[c].touch = 0 /\ node[n].has[c].serve = {}]_vars

USE3 ==         \* what somebody holds is not freed
  [][\A c \in Copy : (/\ dir.list[c].role \in {"AUTHORITATIVE", "REPLICA", "RETIRING"}
                     /\ \E s \in Session : dir.pins[s][c] > 0 /\ dir'.open[s]) => dir'.list[c].role # "FREEING"]_vars
=============================================================================
