/* The protocol of leaderrun, for spin: a store whose leases run out, candidates
 * whose requests and replies are lost, late or both, electors that stop or die
 * at any moment, guards that kill at kill-by. scripts/model checks it and its
 * wrong variants; docs/proof.md says what that proves and what it cannot.
 *
 * Time is counted in ticks, of which a lease has TTL. The store's clock may be
 * faster than those of the candidates by as much as DRIFT ticks in one TTL: a
 * lease may run out so much earlier. Between two ticks anything may happen in
 * any order, and an elector may do nothing for as long as you like: that is a
 * process which is stopped, starved or cut off. One thing alone is urgent. From
 * kill-by on a tree dies within KILLING ticks, because guard or elector gets the
 * processor; it does not matter which, since each has an alarm at kill-by. An
 * elector that dies is one that does nothing any more.
 *
 * Each variant, -DNAME, is a mistake that somebody has made, or an assumption
 * that does not hold.
 */

#define N 2            /* candidates: two are enough for two trees */
#ifndef RUNS
#define RUNS 2         /* candidacies of each: a later one has a new holder id */
#endif
#ifndef DRIFT
#define DRIFT 1
#endif
#define TTL 6
#ifdef NO_MARGIN
#define MARGIN 0
#else
#define MARGIN 1
#endif
#ifdef NO_KILL_MARGIN
#define KILL_MARGIN 0
#else
#define KILL_MARGIN 1
#endif
#ifndef KILLING
#define KILLING 1
#endif
#define GRACE 1
#define KILL_BY (TTL - MARGIN - KILL_MARGIN) /* after the request was sent */
#define STOP_BY (KILL_BY - GRACE)
#define LONG (KILL_BY + 1) /* ages are not counted further */
#ifndef TOKENS
#define TOKENS 3       /* grants, in all */
#endif

/* verbs and answers */
#define NONE 0
#define ACQUIRE 1
#define RENEW 2
#define RELEASE 3
#define YES 1
#define NO 2

/* what an elector is at */
#define ASKING 0
#define GRANTED 1
#define LEADING 2
#define STOPPING 3
#define RELEASING 4
#define OVER 5
#define DEAD 6     /* with its guard */

/* holder ids: 0 is nobody */
#define ID(i) (1 + (i) + N * term[i])
#define IDS (1 + N * RUNS)
#ifdef ONE_ID
#undef ID
#define ID(i) (1 + (i))
#endif

/* the store */
byte holder;           /* whose the lease is */
byte left;             /* ticks until it runs out */
bool forgot;           /* the store has lost its memory, which it does once at most */
byte token;            /* the last one granted */
byte highest;          /* of all that were ever granted: known to nobody, for the properties */
bool released[IDS];    /* holder ids that never get a grant again */

/* a candidate, its tree, its messages */
byte at[N], term[N], mine[N];
byte age[N];           /* of the last positive answer, from when its request was sent */
byte sent[N];          /* age of the request under way */
bool asked[N];         /* a request is under way */
bool tree[N];
byte kill_in[N];       /* ticks until kill-by */
byte dying[N];         /* ticks since kill-by */
byte verb[N], id[N], tok[N];                /* the request under way */
byte late_verb[N], late_id[N], late_tok[N]; /* one that was given up and may arrive yet */
byte answer[N], answer_tok[N];
byte started;          /* the token of the newest tree */

#define MUST_DIE(i) (tree[i] && kill_in[i] == 0 && dying[i] + 1 >= KILLING)

#ifdef NO_GUARD
#define URGENT(i) false /* an elector that is stopped kills nobody */
#elif defined(BOTH_KILLED)
#define URGENT(i) (MUST_DIE(i) && at[i] != DEAD) /* the guard died with the elector */
#else
#define URGENT(i) MUST_DIE(i)
#endif

#define HAS_LEASE(i) (holder != 0 && holder == ID(i) && token == mine[i])

/* own_time: time goes on for one candidate. What does not count stays 0. */
inline own_time(i) {
	if
	:: (at[i] == GRANTED || at[i] == LEADING) && age[i] < LONG -> age[i]++
	:: else
	fi;
	if
	:: asked[i] && (at[i] == ASKING || at[i] == LEADING) && sent[i] < LONG -> sent[i]++
	:: else
	fi;
	if
	:: tree[i] && kill_in[i] == 0 && dying[i] < LONG -> dying[i]++
	:: else
	fi;
	if
	:: kill_in[i] > 0 -> kill_in[i]--
	:: else
	fi
}

#define TREE_IS_DEAD(i) (!tree[i] || !HAS_LEASE(i))

#define NONE_URGENT (!URGENT(0) && !URGENT(1))
#define TREES (tree[0] + tree[1])
#define TREE_OF_LEASE_IS_DEAD (TREE_IS_DEAD(0) && TREE_IS_DEAD(1))

active proctype clock() {
	byte i;
end:	do
	:: atomic { NONE_URGENT ->
		for (i : 0 .. N - 1) { own_time(i) }
		i = 0;
		if
		:: left == 1 ->
			assert(TREE_OF_LEASE_IS_DEAD); /* I3 */
			left = 0; holder = 0
		:: left > 1 -> left--
		:: else
		fi }
#ifdef FORGETFUL
	:: atomic { holder != 0 && !forgot -> forgot = true; holder = 0; left = 0 } /* tokens are the store's time and grow all the same */
#endif
	od
}

/* lease_anew: the store's clock may be faster than all others. */
inline lease_anew() {
	if
	:: left = TTL
#if DRIFT > 0
	:: left = TTL - 1
#endif
#if DRIFT > 1
	:: left = TTL - 2
#endif
	fi
}

#ifdef BLIND_EXPIRE
#define MAY_RENEW(h, t) (holder != 0)
#else
#define MAY_RENEW(h, t) (holder == h && token == t)
#endif
#ifdef BLIND_DELETE
#define MAY_RELEASE(h, t) (holder != 0)
#elif defined(ONE_ID)
#define MAY_RELEASE(h, t) (holder == h)
#else
#define MAY_RELEASE(h, t) (holder == h && token == t)
#endif

/* handle: the store acts on one request; out and out_tok are its answer. */
inline handle(v, h, t) {
	out = NO; out_tok = 0;
	if
	:: v == ACQUIRE && holder == h -> /* the answer was lost: the same grant once more */
		out = YES; out_tok = token;
#ifndef STALE_GRANT
		lease_anew()
#endif
	:: v == ACQUIRE && holder == 0 && !released[h] && token < TOKENS ->
		token++; holder = h; lease_anew();
		out = YES; out_tok = token;
		assert(token > highest); /* I2 */
		highest = token
	:: v == RENEW && MAY_RENEW(h, t) ->
		assert(holder == h && token == t); /* I6: only the own lease is renewed */
		out = YES; lease_anew()
	:: v == RELEASE && MAY_RELEASE(h, t) ->
		assert(holder == h && token == t); /* I6: only the own lease is released, */
		assert(TREE_OF_LEASE_IS_DEAD);     /* I6: and only when its tree is dead */
		holder = 0; left = 0; out = YES;
#ifndef ONE_ID
		released[h] = true;
#endif
#ifdef TOKEN_LOST
		token = 0
#endif
	:: else
	fi
}

/* wire: the requests of one candidate reach the store, at any time, and perhaps
 * long after they were given up. One that is lost never does. */
proctype wire(byte i) {
	byte out, out_tok;
end:	do
	:: atomic { verb[i] != NONE ->
		handle(verb[i], id[i], tok[i]);
		verb[i] = NONE; id[i] = 0; tok[i] = 0;
		if
		:: asked[i] -> answer[i] = out; answer_tok[i] = out_tok /* a lost one is never read */
		:: else
		fi;
		out = 0; out_tok = 0 }
	:: atomic { late_verb[i] != NONE ->
		handle(late_verb[i], late_id[i], late_tok[i]); /* nobody waits for the answer */
		late_verb[i] = NONE; late_id[i] = 0; late_tok[i] = 0;
		out = 0; out_tok = 0 }
	od
}

inline ask(i, v) {
	verb[i] = v; id[i] = ID(i); tok[i] = mine[i];
	asked[i] = true; sent[i] = 0
}

inline answered(i) { asked[i] = false; answer[i] = NONE; answer_tok[i] = 0; sent[i] = 0 }

/* give_up: no longer wait for an answer. The request may still be on its way. */
inline give_up(i) {
	if
	:: verb[i] != NONE -> late_verb[i] = verb[i]; late_id[i] = id[i]; late_tok[i] = tok[i]
	:: else
	fi;
	verb[i] = NONE; id[i] = 0; tok[i] = 0;
	answered(i)
}

inline extend(i, since) {
#ifdef FROM_REPLY
	age[i] = 0;
#else
	age[i] = since;
#endif
	kill_in[i] = (age[i] < KILL_BY -> KILL_BY - age[i] : 0);
	dying[i] = 0
}

inline start(i) {
	tree[i] = true;
	kill_in[i] = (age[i] < KILL_BY -> KILL_BY - age[i] : 0);
	at[i] = LEADING;
	assert(TREES == 1);         /* I1 */
	assert(mine[i] > started);  /* I2 */
	assert(HAS_LEASE(i));       /* I4 */
	started = mine[i]
}

#ifdef NO_RECHECK
#define IN_TIME(i) true
#else
#define IN_TIME(i) (age[i] <= STOP_BY)
#endif
#ifdef EARLY_RELEASE
#define MAY_END(i) true
#else
#define MAY_END(i) (!tree[i])
#endif

proctype elector(byte i) {
end:	do
	:: atomic { at[i] == ASKING && !asked[i] -> ask(i, ACQUIRE) }
	:: atomic { at[i] == ASKING && answer[i] == NO -> answered(i) }
	:: atomic { at[i] == ASKING && answer[i] == YES ->
		mine[i] = answer_tok[i];
		extend(i, sent[i]);
		kill_in[i] = 0; /* nothing runs yet */
		at[i] = GRANTED;
		answered(i) }
	:: atomic { at[i] == GRANTED && IN_TIME(i) -> start(i) }
	:: atomic { at[i] == GRANTED -> at[i] = RELEASING; age[i] = 0 }
	:: atomic { at[i] == LEADING && !asked[i] && age[i] <= STOP_BY -> ask(i, RENEW)
#ifdef EXTEND_EARLY
		; extend(i, 0)
#endif
		}
	:: atomic { at[i] == LEADING && answer[i] == YES ->
		if
		:: age[i] <= STOP_BY -> extend(i, sent[i])
		:: else
		fi;
		answered(i) }
	/* told to stop, lost, expired, or the command ended */
	:: atomic { at[i] == LEADING -> at[i] = STOPPING; age[i] = 0 }
	:: atomic { at[i] == STOPPING && MAY_END(i) -> at[i] = RELEASING }
	/* nobody waits for the answer to a release; it may arrive in the next run */
	:: atomic { at[i] == RELEASING && !asked[i] -> ask(i, RELEASE); answered(i); at[i] = OVER; mine[i] = 0 }
	:: atomic { at[i] == OVER && !tree[i] && term[i] + 1 < RUNS -> give_up(i); term[i]++; at[i] = ASKING }
	:: atomic { asked[i] && at[i] != DEAD ->
#ifdef UNKNOWN_IS_YES
		if
		:: at[i] == LEADING && age[i] <= STOP_BY -> extend(i, sent[i])
		:: else
		fi;
#endif
		give_up(i) }
#ifdef BOTH_KILLED
	:: atomic { at[i] == LEADING -> at[i] = DEAD; age[i] = 0; give_up(i) }
#endif
	od
}

/* end_of_tree: the command ends, is stopped or is killed. When that must have
 * happened is the clock's business. */
proctype end_of_tree(byte i) {
end:	do
	:: atomic { tree[i] -> tree[i] = false; kill_in[i] = 0; dying[i] = 0 }
	od
}

init {
	atomic {
		byte i;
		for (i : 0 .. N - 1) { run wire(i); run elector(i); run end_of_tree(i) }
	}
}
