---------------------------- MODULE pinfold_rows ----------------------------
(***************************************************************************)
(* What the directory decides about one group: the rows of the table, as   *)
(* functions from a directory's record to the next one.                    *)
(*                                                                         *)
(* A directory record `d` has                                              *)
(*   durable   term, state, reason, epoch, leaving, target, writer,        *)
(*             created, born, list, pins, refs, open,                      *)
(*             alive, inc, boot                                            *)
(*   soft      ready, num, ordered      (a restart forgets it)             *)
(*   out       what the step in progress sends; {} between steps           *)
(*                                                                         *)
(* Copies are numbered 1, 2, ... in the order in which they were reserved; *)
(* a number is never used again.  `epoch` counts the decisions.            *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS Node, Session,  \* who takes part
          None,           \* no node, no session
          MaxCopies       \* copies that are ever reserved

Copy == 1..MaxCopies
NoCopy == 0
Away == [role |-> "GONE", node |-> None, absent |-> FALSE]

Readable == {"LOCAL", "MIGRATING_OUT"}   \* states in which a group can be read, if a copy can

----------------------------------------------------------------------------
(* Looking *)

Listed(d, c) == d.list[c].role # "GONE"
CanRead(d, c) == d.list[c].role \in {"AUTHORITATIVE", "REPLICA"} /\ ~d.list[c].absent
Pinned(d, c) == \E s \in Session : d.pins[s][c] > 0
Referred(d) == \E s \in Session : d.refs[s] > 0
Least(S) == IF S = {} THEN NoCopy ELSE CHOOSE c \in S : \A e \in S : c <= e
Authority(d) == Least({c \in Copy : d.list[c].role = "AUTHORITATIVE"})
AuthorityPresent(d) == Authority(d) # NoCopy /\ ~d.list[Authority(d)].absent
Spare(d, c) ==          \* retiring, and still whole: it may go back
  d.list[c].role = "RETIRING" /\ ~d.list[c].absent /\ c >= d.created /\ d.state \in Readable
Kept(d, c) == Spare(d, c) /\ \A e \in Copy : ~CanRead(d, e)       \* nothing else of the group can be read
Promotable(d, c) ==
  LET replicas == {e \in Copy \ {c} : d.list[e].role = "REPLICA" /\ ~d.list[e].absent}
  IN Least(IF replicas # {} THEN replicas ELSE {e \in Copy \ {c} : Spare(d, e)})
Others(d, c) == {e \in Copy \ {c} : Listed(d, e)}
Moving(d) == d.state = "MIGRATING_OUT"

----------------------------------------------------------------------------
(* Orders.  Each has (term, number) above all earlier ones to its node; the *)
(* directory notes the number of the last order about each copy.            *)

Order(d, n, op, c, src, noted) ==
  IF ~d.alive[n] THEN d
  ELSE LET i == d.num[n] + 1 IN
    [d EXCEPT !.num[n] = i,
              !.ordered[c] = IF noted THEN i ELSE @,
              !.out = @ \cup {[k |-> "order", n |-> n, term |-> d.term, inc |-> d.inc[n], num |-> i, op |-> op, c |-> c,
                               src |-> src, at |-> IF src = NoCopy THEN None ELSE d.list[src].node]}]

OrderMaking(d, c) ==        \* an INCOMING copy is to be made
  LET src == Authority(d) IN
  IF d.state = "WRITING" THEN Order(d, d.list[c].node, "reserve", c, NoCopy, TRUE)
  ELSE IF AuthorityPresent(d) THEN Order(d, d.list[c].node, "fetch", c, src, TRUE)
  ELSE d

OrderFreeing(d, c) ==       \* a FREEING copy is to go
  IF d.list[c].absent THEN d ELSE Order(d, d.list[c].node, "free", c, NoCopy, TRUE)

FreeUnknown(d, n, c) == Order(d, n, "free", c, NoCopy, FALSE)

----------------------------------------------------------------------------
(* Every change of the record goes through Swap: `e` is `d` as a row left   *)
(* it; Swap adds what follows: orders for what is new or FREEING, holds     *)
(* that are lost.                                                           *)

WithoutPins(d, C) == [d EXCEPT !.pins = [s \in Session |-> [c \in Copy |-> IF c \in C THEN 0 ELSE @[s][c]]]]

RECURSIVE Follow(_, _, _)
Follow(d, e, c) ==
  IF c > MaxCopies THEN e
  ELSE LET was == d.list[c].role
           is == e.list[c].role
       IN Follow(d, IF was = "GONE" /\ is # "GONE" THEN OrderMaking(e, c)
                    ELSE IF was # "FREEING" /\ is = "FREEING" THEN OrderFreeing(WithoutPins(e, {c}), c)
                    ELSE e, c + 1)

Swap(d, e) ==
  LET f == Follow(d, e, 1)
      left == {c \in Copy : ~Listed(f, c)}
      g == WithoutPins(f, left)
  IN [g EXCEPT !.ordered = [c \in Copy |-> IF c \in left THEN 0 ELSE @[c]],
               !.refs = IF f.state \in {"EVICTING", "EVICTED"} THEN [s \in Session |-> 0] ELSE @]

Decided(d, state, reason, target) ==    \* an ownership or lifecycle decision: a new epoch
  [d EXCEPT !.state = state, !.reason = reason, !.target = target, !.epoch = @ + 1, !.writer = None,
            !.leaving = @ /\ state \notin {"EVICTING", "EVICTED"}]

InRole(e, c, role) == [e EXCEPT !.list[c].role = role]
Left(e, c) == [e EXCEPT !.list[c] = Away]
FreeOrLeft(e, c, gone) == IF gone THEN Left(e, c) ELSE InRole(e, c, "FREEING")

GivenUp(e) ==       \* no authoritative copy any more: what was coming is freed, what was readable retires
  [e EXCEPT !.list = [c \in Copy |->
     CASE @[c].role = "INCOMING" -> [@[c] EXCEPT !.role = "FREEING"]
       [] @[c].role \in {"AUTHORITATIVE", "REPLICA"} -> [@[c] EXCEPT !.role = "RETIRING"]
       [] OTHER -> @[c]]]

EndState(rest) == IF rest = {} THEN "EVICTED" ELSE "EVICTING"

----------------------------------------------------------------------------
(* Rows: writing *)

CreateRow(d, s, n) ==
  LET c == d.born + 1
      cleared == IF d.state \in Readable THEN GivenUp(d) ELSE d
      e == [Decided(cleared, "WRITING", "NONE", c) EXCEPT
              !.born = c, !.created = c, !.writer = s, !.leaving = FALSE,
              !.list[c] = [role |-> "INCOMING", node |-> n, absent |-> FALSE]]
  IN [Swap(d, e) EXCEPT !.pins[s][c] = 1]       \* the writer's PIN: no gap before its first use

CanCreate(d) ==
  \/ d.state \in {"NONE", "EVICTED", "EVICTING"}
  \/ d.state \in Readable /\ (\A c \in Copy : ~CanRead(d, c)) /\ Authority(d) # NoCopy

SealedRow(d, c) ==
  IF d.state = "WRITING" /\ d.target = c /\ d.list[c].role = "INCOMING"
  THEN Swap(d, InRole(Decided(d, "LOCAL", "NONE", NoCopy), c, "AUTHORITATIVE"))
  ELSE d

----------------------------------------------------------------------------
(* Rows: moving *)

MoveRow(d, n) ==
  LET c == d.born + 1
  IN Swap(d, [Decided(d, "MIGRATING_OUT", "NONE", c) EXCEPT !.born = c,
                !.list[c] = [role |-> "INCOMING", node |-> n, absent |-> FALSE]])

Promoted(d, e, c) ==    \* `c` becomes authoritative, what was it retires
  [e EXCEPT !.list = [x \in Copy |->
     CASE x = c -> [@[x] EXCEPT !.role = "AUTHORITATIVE"]
       [] x # c /\ @[x].role = "AUTHORITATIVE" -> [@[x] EXCEPT !.role = "RETIRING"]
       [] OTHER -> @[x]]]

AdoptRow(d, c) == Swap(d, Promoted(d, Decided(d, "LOCAL", "NONE", NoCopy), c))   \* the target has the bytes already

DoneRow(d, c) ==
  IF d.list[c].role # "INCOMING" \/ d.state \notin Readable THEN d
  ELSE IF d.target = c THEN Swap(d, Promoted(d, Decided(d, "LOCAL", "NONE", NoCopy), c))     \* the commit point
  ELSE Swap(d, InRole(d, c, "REPLICA"))

ReplicateRow(d, n) ==
  LET c == d.born + 1
  IN Swap(d, [d EXCEPT !.born = c, !.list[c] = [role |-> "INCOMING", node |-> n, absent |-> FALSE]])

DropRow(d, c) == Swap(d, InRole(d, c, "RETIRING"))

----------------------------------------------------------------------------
(* Rows: ends *)

EndedRow(d, c, gone) ==     \* an INCOMING copy will not come
  LET rest == IF gone THEN Others(d, c) ELSE Others(d, c) \cup {c}
      heir == Promotable(d, c)
  IN IF d.list[c].role # "INCOMING" THEN d
     ELSE IF d.state = "WRITING" /\ d.target = c
       THEN Swap(d, FreeOrLeft(Decided(d, EndState(rest), "WRITE_ENDED", NoCopy), c, gone))
     ELSE IF Moving(d) /\ d.target = c THEN
       IF Authority(d) # NoCopy
         THEN Swap(d, FreeOrLeft(Decided(d, "LOCAL", "NONE", NoCopy), c, gone))
       ELSE IF heir # NoCopy
         THEN Swap(d, InRole(FreeOrLeft(Decided(d, "LOCAL", "NONE", NoCopy), c, gone), heir, "AUTHORITATIVE"))
       ELSE Swap(d, GivenUp(FreeOrLeft(Decided(d, EndState(rest), "LOST", NoCopy), c, gone)))
     ELSE IF d.state \in Readable THEN Swap(d, FreeOrLeft(d, c, gone))
     ELSE d

GoneRow(d, c) ==            \* a copy is not there any more
  LET rest == Others(d, c)
      heir == Promotable(d, c)
      role == d.list[c].role
  IN IF role = "GONE" THEN d
     ELSE IF role = "INCOMING" THEN EndedRow(d, c, TRUE)
     ELSE IF role = "AUTHORITATIVE" THEN
       IF heir # NoCopy
         THEN LET e == InRole(Left(Decided(d, "LOCAL", "NONE", NoCopy), c), heir, "AUTHORITATIVE")
              IN Swap(d, IF d.target = NoCopy THEN e ELSE InRole(e, d.target, "FREEING"))
       ELSE IF d.target # NoCopy
         THEN Swap(d, Left(Decided(d, d.state, "NONE", d.target), c))         \* the move goes on alone
       ELSE Swap(d, GivenUp(Left(Decided(d, EndState(rest), "LOST", NoCopy), c)))
     ELSE IF d.state = "EVICTING" /\ rest = {}
       THEN Swap(d, Left(Decided(d, "EVICTED", d.reason, NoCopy), c))
     ELSE Swap(d, Left(d, c))

CanEvict(d) ==
  /\ d.state \in Readable
  /\ \A c \in Copy : CanRead(d, c) => ~Pinned(d, c)
  /\ ~Referred(d)

EvictRow(d) ==
  LET stay == {c \in Copy : Listed(d, c) /\ (~d.list[c].absent \/ Pinned(d, c))}
      e == Decided(d, EndState(stay), "EVICTED", NoCopy)
  IN Swap(d, [e EXCEPT !.list = [c \in Copy |->
       CASE ~Listed(d, c) \/ c \notin stay -> Away
         [] c \in stay /\ Pinned(d, c) -> [@[c] EXCEPT !.role = "RETIRING"]
         [] OTHER -> [@[c] EXCEPT !.role = "FREEING"]]])

EndSession(d, s) ==
  LET e == [d EXCEPT !.open[s] = FALSE, !.pins[s] = [c \in Copy |-> 0], !.refs[s] = 0]
  IN IF d.state = "WRITING" /\ d.writer = s THEN EndedRow(e, d.target, FALSE) ELSE e

----------------------------------------------------------------------------
(* Rows: nodes *)

RECURSIVE LapseCopies(_, _, _)
LapseCopies(d, n, c) ==
  IF c > MaxCopies THEN d
  ELSE LapseCopies(
    IF ~Listed(d, c) \/ d.list[c].node # n THEN d
    ELSE LET e == [d EXCEPT !.ordered[c] = 0] IN
      CASE d.list[c].role = "INCOMING" -> EndedRow(e, c, TRUE)
        [] d.list[c].role = "FREEING" -> GoneRow(e, c)
        [] OTHER -> [e EXCEPT !.list[c].absent = TRUE], n, c + 1)

LapseRow(d, n) == LapseCopies([d EXCEPT !.alive[n] = FALSE, !.ready[n] = FALSE, !.num[n] = 0], n, 1)

ReturnRow(d, c) ==          \* present and verified in a new registration
  [d EXCEPT !.list[c].absent = FALSE, !.epoch = IF d.list[c].role = "AUTHORITATIVE" THEN @ + 1 ELSE @]

----------------------------------------------------------------------------
(* Every Tick ends with this: retired copies that nobody holds or needs may *)
(* go, an evict that waited happens, an empty record is forgotten.          *)
(* `causes` are the copies whose own time has come.                         *)

RECURSIVE TimedCopies(_, _, _), RetiredCopies(_, _)
TimedCopies(d, causes, c) ==
  IF c > MaxCopies THEN d
  ELSE TimedCopies(
    IF c \in causes /\ d.list[c].absent THEN GoneRow(d, c)
    ELSE IF c \in causes /\ d.list[c].role = "INCOMING" THEN EndedRow(d, c, FALSE)
    ELSE d, causes, c + 1)
RetiredCopies(d, c) ==
  IF c > MaxCopies THEN d
  ELSE RetiredCopies(
    IF d.list[c].role = "RETIRING" /\ ~d.list[c].absent /\ ~Pinned(d, c) /\ ~Kept(d, c)
    THEN Swap(d, InRole(d, c, "FREEING")) ELSE d, c + 1)

Settle(d) ==
  IF d.state = "EVICTED" THEN [d EXCEPT !.state = "NONE", !.reason = "NONE", !.created = NoCopy]
  ELSE IF d.leaving /\ CanEvict(d) THEN EvictRow(d)
  ELSE d

Housekeep(d, causes) == Settle(RetiredCopies(TimedCopies(d, causes, 1), 1))
=============================================================================
