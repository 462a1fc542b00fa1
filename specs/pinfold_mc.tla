----------------------------- MODULE pinfold_mc -----------------------------
(* Safety, with symmetry: nodes and sessions have no order.                 *)
EXTENDS pinfold, TLC
CONSTANTS n1, n2, s1, s2
McNode == {n1, n2}
McSession == {s1, s2}
McBudget == [create |-> 1, move |-> 1, replicate |-> 0, close |-> 1, restart |-> 0, lapse |-> 0, crash |-> 0,
             register |-> 0, twist |-> 1, tell |-> 0, hear |-> 0]
Symmetry == Permutations(McNode) \cup Permutations(McSession)
=============================================================================
