---------------------------- MODULE pinfold_live ----------------------------
(***************************************************************************)
(* LIVE-1: once faults have stopped and everybody goes on, what was begun  *)
(* ends.  Orders arrive in order; the directory may have started again     *)
(* before; nobody dies any more.                                           *)
(***************************************************************************)
EXTENDS pinfold

LiveNode == 1..2
LiveSession == 1..1
LiveBudget == [create |-> 1, move |-> 1, replicate |-> 0, close |-> 0, restart |-> 0, lapse |-> 0, crash |-> 0,
               register |-> 0, twist |-> 1, tell |-> 2, hear |-> 2]

OneNode == 1..1
RestartBudget == [LiveBudget EXCEPT !.move = 0, !.restart = 1]

InOrder == \E m \in msgs : /\ m.k = "order"
                           /\ \/ m.term = node[m.n].term /\ m.num = node[m.n].num + 1
                              \/ m.term > node[m.n].term /\ m.num = 1
                           /\ TakeOrder(m)
Asked == \E m \in msgs : m.k = "ask" /\ m.term > node[m.n].term /\ TakeAsk(m)
Inventoried == \E m \in msgs : m.k = "inventory" /\ ~dir.ready[m.n] /\ m.term = dir.term /\ HearInventory(m)
Beating == \E n \in Node : Heartbeat(n)
Overdue == \E c \in Copy : Deadline(c)
LettingGo == \E s \in Session : Unref(s) \/ \E c \in Copy : Unpin(s, c)
Written == \E n \in Node, c \in Copy : Stored(n, c)
Verifying == \E n \in Node, c \in Copy : Verified(n, c) \/ Filled(n, c) \/ Checked(n, c)
Ending == \E n \in Node, c \in Copy : TouchEnds(n, c)      \* a reader of a copy in use need not go
Releasing == \E n \in Node, c \in Copy : Released(n, c)
Reading == DoServed

Wishes == \/ \E s \in Session : \/ \E n \in Node : Create(s, n)
                                \/ \E c \in Copy : Pin(s, c)
                                \/ Ref(s)
          \/ Evict \/ EvictWaiting \/ CancelMove \/ \E n \in Node : Move(n, TRUE)
          \/ \E n \in Node, c \in Copy : Write(n, c) \/ EndWrite(n, c) \/ AbortWrite(n, c) \/ JobDeadline(n, c)
                                            \/ ReaderComes(n, c) \/ ReaderGoes(n, c)

LiveNext == \/ Wishes \/ Restart \/ Tick
            \/ InOrder \/ Asked \/ Inventoried \/ Beating \/ DoHearFact \/ DoServeRead \/ DoBlocksCame \/ DoSourceRefused
            \/ Overdue \/ LettingGo \/ Written \/ Verifying \/ Ending \/ Releasing \/ Reading

(* Weak fairness with the condition written out: an action that can go on   *)
(* for ever happens again and again.  (TLC could find the condition itself, *)
(* by trying the action in every state: much too slow here.)                *)
Some(ph) == \E n \in Node, c \in Copy : node[n].has[c].ph \in ph
CanOrder == \E m \in msgs : /\ m.k = "order" /\ m.inc = node[m.n].inc
                            /\ \/ m.term = node[m.n].term /\ m.num = node[m.n].num + 1
                               \/ m.term > node[m.n].term /\ m.num = 1
CanAsk == left.tell > 0 /\ \E m \in msgs : m.k = "ask" /\ m.inc = node[m.n].inc /\ m.term > node[m.n].term
CanInventory == left.hear > 0 /\ \E m \in msgs : m.k = "inventory" /\ Current(m) /\ ~dir.ready[m.n] /\ m.term = dir.term
CanBeat == left.tell > 0 /\ \E n \in Node : /\ ~dir.ready[n] \/ node[n].term # dir.term
                           /\ [k |-> "ask", n |-> n, term |-> dir.term, inc |-> dir.inc[n]] \notin msgs
CanHear == \E m \in msgs : m.k = "fact" /\ Listed(dir, m.c) /\
  CASE m.f = "sealed" -> dir.state = "WRITING" /\ dir.target = m.c
    [] m.f = "freed" -> TRUE
    [] OTHER -> dir.list[m.c].role = "INCOMING"
CanTick == \/ dir.state = "EVICTED" \/ (dir.leaving /\ CanEvict(dir))
           \/ \E c \in Copy : dir.list[c].role = "RETIRING" /\ ~Pinned(dir, c) /\ ~Kept(dir, c)
CanEnd == \E n \in Node, c \in Copy : node[n].has[c].ph \in {"failed", "freeing"} /\ node[n].has[c].touch > 0
CanServe == \E n \in Node, c \in Copy : node[n].has[c].serve # {}
CanRelease == \E n \in Node, c \in Copy : node[n].has[c] = [ph |-> "freeing", touch |-> 0, serve |-> {}, bad |-> node[n].has[c].bad]

CanExpire == \E c \in Copy : dir.list[c].role = "INCOMING"
CanStore == Some({"storing"})
CanVerify == Some({"verifying", "filling", "checking"})
CanLetGo == \E s \in Session : dir.refs[s] > 0 \/ \E c \in Copy : dir.pins[s][c] > 0

Fairness == /\ ([]<>~CanOrder \/ []<><<InOrder>>_vars)
            /\ ([]<>~CanAsk \/ []<><<Asked>>_vars)
            /\ ([]<>~CanInventory \/ []<><<Inventoried>>_vars)
            /\ ([]<>~CanBeat \/ []<><<Beating>>_vars)
            /\ ([]<>~CanHear \/ []<><<DoHearFact>>_vars)
            /\ ([]<>~CanExpire \/ []<><<Overdue>>_vars)
            /\ ([]<>~CanTick \/ []<><<Tick>>_vars)
            /\ ([]<>~CanStore \/ []<><<Written>>_vars)
            /\ ([]<>~CanVerify \/ []<><<Verifying>>_vars)
            /\ ([]<>~CanEnd \/ []<><<Ending>>_vars)
            /\ ([]<>~CanRelease \/ []<><<Releasing>>_vars)
            /\ ([]<>~CanServe \/ []<><<Reading>>_vars)
            /\ ([]<>~CanLetGo \/ []<><<LettingGo>>_vars)

LiveSpec == Init /\ [][LiveNext]_vars /\ Fairness

WritingEnds == (dir.state = "WRITING") ~> (dir.state # "WRITING")
MovingEnds == (dir.state = "MIGRATING_OUT") ~> (dir.state # "MIGRATING_OUT")
EvictingEnds == (dir.state = "EVICTING") ~> (dir.state # "EVICTING")
LeavingEnds == dir.leaving ~> ~dir.leaving
FreeingEnds == \A c \in Copy : (dir.list[c].role = "FREEING") ~> (dir.list[c].role = "GONE")
=============================================================================
