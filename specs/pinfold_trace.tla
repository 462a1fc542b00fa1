---------------------------- MODULE pinfold_trace ----------------------------
(***************************************************************************)
(* Is what was recorded of real machines a behaviour of the model?         *)
(*                                                                         *)
(* A trace is a sequence of <<action, arguments, observed>>.  `observed`   *)
(* is what the acting machine was seen to be afterwards, as numbers: see   *)
(* SeenDirectory and SeenNode; <<>> inside a step that the model takes as  *)
(* several.  All traces of a batch are checked in one run: a trace that is *)
(* a behaviour prints its number at its end, any other does not.           *)
(***************************************************************************)
EXTENDS pinfold, Sequences, TLC, pinfold_traces

VARIABLES at, tid
tvars == <<vars, at, tid>>

Name == Traces[tid][at][1]
P == Traces[tid][at][2]
Observed == Traces[tid][at][3]

RoleDigit(e) ==
  (CASE e.role = "GONE" -> 0 [] e.role = "INCOMING" -> 1 [] e.role = "AUTHORITATIVE" -> 2 [] e.role = "REPLICA" -> 3
     [] e.role = "RETIRING" -> 4 [] e.role = "FREEING" -> 5) + IF e.absent THEN 6 ELSE 0

PhaseDigit(h) ==
  CASE h.ph = "none" -> 0 [] h.ph = "reserved" -> 1 [] h.ph = "storing" -> 2 [] h.ph = "stored" -> 3
    [] h.ph = "verifying" -> 4 [] h.ph = "asked" -> 5 [] h.ph = "filling" -> 6 [] h.ph = "checking" -> 7
    [] h.ph = "verified" -> 8 [] h.ph = "failed" -> 9 [] h.ph = "freeing" -> 10

RECURSIVE Code(_, _), Sum(_, _)
Code(digit, c) == IF c > MaxCopies THEN 0 ELSE digit[c] + 12 * Code(digit, c + 1)
Sum(number, c) == IF c > MaxCopies THEN 0 ELSE number[c] + Sum(number, c + 1)

Held(d) == [c \in Copy |-> Cardinality({s \in Session : d.pins[s][c] > 0})]

SeenDirectory(d) ==
  <<d.state, d.term, d.epoch, d.born, Code([c \in Copy |-> RoleDigit(d.list[c])], 1), Code(Held(d), 1), d.leaving>>

SeenNode(x) ==
  <<x.term, x.inc, x.num, Code([c \in Copy |-> PhaseDigit(x.has[c])], 1), Sum([c \in Copy |-> x.has[c].touch], 1)>>

RECURSIVE EndSessions(_, _)
EndSessions(d, S) == IF S = {} THEN d
                     ELSE LET one == CHOOSE x \in S : \A y \in S : x <= y
                          IN EndSessions(EndSession(d, one), S \ {one})
RECURSIVE LapseNodes(_, _)
LapseNodes(d, N) == IF N = {} THEN d
                    ELSE LET one == CHOOSE x \in N : \A y \in N : x <= y IN LapseNodes(LapseRow(d, one), N \ {one})

(* A real Tick may have several causes at once. *)
TickOf(S, N, C) == Free /\ Decide(Housekeep(LapseNodes(EndSessions(dir, S), N), C))


OfDirectory ==
  CASE Name = "Create" -> Create(P[1], P[2])
    [] Name = "Pin" -> Pin(P[1], P[2])
    [] Name = "Unpin" -> Unpin(P[1], P[2])
    [] Name = "Ref" -> Ref(P[1])
    [] Name = "Unref" -> Unref(P[1])
    [] Name = "Evict" -> Evict
    [] Name = "EvictWaiting" -> EvictWaiting
    [] Name = "Move" -> Move(P[1], P[2])
    [] Name = "Adopt" -> Adopt(P[1], P[2])
    [] Name = "CancelMove" -> CancelMove
    [] Name = "Replicate" -> Replicate(P[1])
    [] Name = "DropReplica" -> DropReplica(P[1])
    [] Name = "CloseSession" -> CloseSession(P[1])
    [] Name = "Tick" -> TickOf(P[1], P[2], P[3])
    [] Name = "Restart" -> Restart
    [] Name = "HearFact" -> \E m \in msgs : m.k = "fact" /\ <<m.n, m.inc, m.f, m.c>> = P /\ HearFact(m)
    [] Name = "HearInventory" -> \E m \in msgs : m.k = "inventory" /\ <<m.n, m.inc, m.term, m.num, m.has>> = P /\ HearInventory(m)
    [] Name = "StaleReport" -> \E m \in msgs : m.k = P[1] /\ m.n = P[2] /\ m.inc = P[3] /\ StaleReport(m)
    [] Name = "HearRegister" -> \E m \in msgs : m.k = "register" /\ <<m.n, m.boot, m.over>> = P /\ HearRegister(m)
    [] Name = "HearHeartbeat" -> HearHeartbeat(P[1], P[2], P[3])
    [] OTHER -> FALSE

OfNode ==
  CASE Name = "TakeOrder" -> \E m \in msgs : m.k = "order" /\ <<m.n, m.inc, m.term, m.num>> = P /\ TakeOrder(m)
    [] Name = "Write" -> Write(P[1], P[2])
    [] Name = "WriteAgain" -> WriteAgain(P[1], P[2])
    [] Name = "Stored" -> Stored(P[1], P[2])
    [] Name = "EndWrite" -> EndWrite(P[1], P[2])
    [] Name = "EndWriteAgain" -> EndWriteAgain(P[1], P[2])
    [] Name = "Verified" -> Verified(P[1], P[2])
    [] Name = "AbortWrite" -> AbortWrite(P[1], P[2])
    [] Name = "ServeRead" -> \E m \in msgs : m.k = "read" /\ <<m.n, m.c>> = P /\ ServeRead(m)
    [] Name = "Served" -> Served(P[1], P[2], P[3])
    [] Name = "BlocksCame" -> \E m \in msgs : m.k = "blocks" /\ m.c = P[2] /\ BlocksCame(m)
    [] Name = "SourceRefused" -> \E m \in msgs : m.k = "refused" /\ m.c = P[2] /\ SourceRefused(m)
    [] Name = "Filled" -> Filled(P[1], P[2])
    [] Name = "Checked" -> Checked(P[1], P[2])
    [] Name = "JobDeadline" -> JobDeadline(P[1], P[2])
    [] Name = "ReaderComes" -> ReaderComes(P[1], P[2])
    [] Name = "ReaderGoes" -> ReaderGoes(P[1], P[2])
    [] Name = "TouchEnds" -> TouchEnds(P[1], P[2])
    [] Name = "Released" -> Released(P[1], P[2])
    [] Name = "TellInventory" -> TellInventory(P[1])
    [] Name = "TakeRegistered" -> \E m \in msgs : m.k = "registered" /\ <<m.n, m.inc, m.term>> = P /\ TakeRegistered(m)
    [] Name = "TakeAsk" -> \E m \in msgs : m.k = "ask" /\ <<m.n, m.inc, m.term>> = P /\ TakeAsk(m)
    [] Name = "TakeAgain" -> \E m \in msgs : m.k = "again" /\ <<m.n, m.inc, m.term>> = P /\ TakeAgain(m)
    [] Name = "TakeFenced" -> \E m \in msgs : m.k = "fenced" /\ <<m.n, m.inc, m.term>> = P /\ TakeFenced(m)
    [] Name = "TakeTaken" -> \E m \in msgs : m.k = "taken" /\ <<m.n, m.inc, m.term>> = P /\ TakeTaken(m)
    [] Name = "Crash" -> Crash(P[1])
    [] OTHER -> FALSE

TInit == Init /\ at = 1 /\ tid \in 1..Len(Traces)

TNext ==
  /\ at <= Len(Traces[tid])
  /\ \/ OfDirectory /\ (Observed = <<>> \/ Observed = SeenDirectory(dir'))
     \/ OfNode /\ (Observed = <<>> \/ Observed = SeenNode(node'[P[1]]))
  /\ at' = at + 1 /\ UNCHANGED tid
  /\ (at' > Len(Traces[tid])) => PrintT(<<"ACCEPTED", tid>>)

TSpec == TInit /\ [][TNext]_tvars
=============================================================================
