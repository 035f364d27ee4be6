/* The protocol of leaderrun, for spin. Leases of the store run out. Requests and
 * replies of candidates are lost, late or both. Electors stop or die at any time,
 * and guards kill at kill-by. scripts/model checks the protocol and its wrong
 * variants; docs/design/proof.md says what that proves and what it cannot.
 *
 * Time is counted in ticks; a lease lasts TTL ticks. The store's clock may be
 * faster than the candidates' by DRIFT ticks in one TTL, so a lease may run out
 * that much earlier. Between two ticks anything may happen in any order. An
 * elector may do nothing for any time, like a process that is stopped, starved or
 * cut off; an elector that dies does nothing any more. Only one thing is urgent:
 * from kill-by on a tree dies within KILLING ticks, because guard or elector gets
 * the processor. It does not matter which, since both have an alarm at kill-by.
 *
 * The store's clock may be set STEPS times, to any time: the rest of a lease
 * becomes shorter, nothing, or a TTL again. So the store does not believe that a
 * lease has expired, unless it was released. The key is granted only to a
 * candidate whose own clock confirms that the lease is over, or after a settling:
 * then the holder is called, and a renewal restores its lease. Settling lasts
 * until a holder that is alive and can be reached has answered; that is assumed
 * here, and measured elsewhere.
 *
 * Each variant, -DNAME, is a mistake, or an assumption that does not hold.
 */

#define N 2            /* number of candidates: two are enough for two trees */
#ifndef RUNS
#define RUNS 2         /* runs of each candidate; each has a new holder id */
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
#define TOKENS 3       /* number of grants */
#endif
#ifndef STEPS
#define STEPS 0        /* how often the store's clock is set */
#endif

/* verbs and answers */
#define NONE 0
#define ACQUIRE 1
#define RENEW 2
#define RELEASE 3
#define YES 1
#define NO 2

/* the states of an elector */
#define ASKING 0
#define GRANTED 1
#define LEADING 2
#define STOPPING 3
#define RELEASING 4
#define ENDED 5
#define DEAD 6     /* with its guard */

/* what a candidate knows of another's lease */
#define UNKNOWN 0
#define OVER 1

/* holder ids: 0 is nobody */
#define ID(i) (1 + (i) + N * term[i])
#define IDS (1 + N * RUNS)
#ifdef ONE_ID
#undef ID
#define ID(i) (1 + (i))
#endif

/* the store */
byte holder;           /* the holder of the lease */
byte left;             /* ticks until it runs out */
bool forgot;           /* the store has lost its data, once at most */
byte token;            /* the last one granted */
byte highest;          /* the highest ever granted: only the properties use it */
bool released[IDS];    /* holder ids that never get a grant again */
byte last;             /* the holder of the last grant, until it releases */
byte steps;            /* how often the clock was set so far */
bool settling;         /* the last holder has been called */
bool settled;          /* it has answered, or cannot be alive */
bool refused;          /* it has been refused */

/* a candidate, its tree, its messages */
byte at[N], term[N], mine[N];
byte age[N];           /* ticks since the request of the last positive answer was sent */
byte sent[N];          /* ticks since the present request was sent */
bool asked[N];         /* there is a present request */
bool tree[N];
byte kill_in[N];       /* ticks until kill-by */
byte dying[N];         /* ticks since kill-by */
byte verb[N], id[N], tok[N];                /* the present request */
byte late_verb[N], late_id[N], late_tok[N]; /* one that was given up and may still arrive */
byte answer[N], answer_tok[N];
/* When another's lease is over by the candidate's own clock: UNKNOWN, OVER, or OVER
 * plus a number of ticks. A renewal makes that invalid: the store compares the expiry
 * in its answer with the present one. */
byte known[N], answer_known[N];
bool sure[N], late_sure[N];                 /* the request says that it is over */
byte started;          /* the token of the newest tree */

#define MUST_DIE(i) (tree[i] && kill_in[i] == 0 && dying[i] + 1 >= KILLING)

#ifdef NO_GUARD
#define URGENT(i) false /* an elector that is stopped kills nobody */
#elif defined(BOTH_KILLED)
#define URGENT(i) (MUST_DIE(i) && at[i] != DEAD) /* the guard died with the elector */
#else
#define URGENT(i) MUST_DIE(i)
#endif

/* The last grant is the candidate's, and was not released. */
#define WAS_GRANTED(i) (last != 0 && last == ID(i) && token == mine[i])
/* It also has not expired. A clock that has been set does not count. */
#define HAS_LEASE(i) (WAS_GRANTED(i) && (holder != 0 || steps > 0))

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
	fi;
	if
	:: known[i] > OVER -> known[i]--
	:: else
	fi
}

#define TREE_IS_DEAD(i) (!tree[i] || !HAS_LEASE(i))

#define NONE_URGENT (!URGENT(0) && !URGENT(1))
#define TREES (tree[0] + tree[1])
#define TREE_OF_LEASE_IS_DEAD (TREE_IS_DEAD(0) && TREE_IS_DEAD(1))

#ifdef OUT_OF_REACH
#define SETTLED true
#else
#define SETTLED (refused || (!LIVES(0) && !LIVES(1)))
#endif
/* The holder has a tree, or may start one: the grant may still reach it. */
#define LIVES(i) (ID(i) == last && (tree[i] || at[i] == GRANTED || answer[i] == YES))

active proctype clock() {
	byte i;
end:	do
	:: atomic { NONE_URGENT ->
		for (i : 0 .. N - 1) { own_time(i) }
		i = 0;
		if
		:: left == 1 ->
			assert(steps > 0 || TREE_OF_LEASE_IS_DEAD); /* I3 */
			left = 0; holder = 0
		:: left > 1 -> left--
		:: else
		fi }
#ifdef FORGETFUL
	:: atomic { holder != 0 && !forgot -> forgot = true; holder = 0; left = 0; last = 0 } /* tokens are the store's time and grow all the same */
#endif
#if STEPS > 0
	:: atomic { left > 0 && steps < STEPS -> steps++;
		if
		:: left = 0; holder = 0
		:: left = 1
		:: left > 2 -> left = 2
		:: left = TTL /* set back; a lease is never longer than a TTL */
		fi }
#endif
	:: atomic { settling && SETTLED -> settling = false; settled = true }
	od
}

#ifdef CONFIRM_ANY
#define renewed_since() skip
#else
inline renewed_since() {
	known[0] = UNKNOWN; answer_known[0] = UNKNOWN; sure[0] = false; late_sure[0] = false;
	known[1] = UNKNOWN; answer_known[1] = UNKNOWN; sure[1] = false; late_sure[1] = false
}
#endif

/* lease_anew: the store's clock may be faster than all others. */
inline lease_anew() {
	settling = false; settled = false; refused = false;
	renewed_since();
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
#elif defined(RENEW_BY_CLOCK)
#define MAY_RENEW(h, t) (holder == h && token == t)
#elif defined(BACK_AFTER_RELEASE)
#define MAY_RENEW(h, t) (token == t && (holder == h || holder == 0))
#elif defined(BACK_AFTER_GRANT)
#define MAY_RENEW(h, t) ((holder == h && token == t) || (holder == 0 && !released[h]))
#else
#define MAY_RENEW(h, t) (token == t && last == h) /* whatever the clock says */
#endif
#ifdef BLIND_DELETE
#define MAY_RELEASE(h, t) (holder != 0)
#elif defined(ONE_ID)
#define MAY_RELEASE(h, t) (holder == h)
#else
#define MAY_RELEASE(h, t) (last == h && token == t)
#endif
#if STEPS == 0 || defined(BELIEVE_EXPIRY)
#define MAY_FOLLOW(own) true /* without steps this is more than the rule allows */
#else
#define MAY_FOLLOW(own) (last == 0 || settled || own)
#endif
#ifdef COUNT_DOWN_LEFT
#define WAIT_FOR left
#else
#define WAIT_FOR TTL /* the last renewal was not after this answer */
#endif

/* handle: the store acts on one request of candidate i; out and out_tok are its
 * answer. own says that the lease is over by the candidate's own clock. */
inline handle(v, h, t, own) {
	out = NO; out_tok = 0;
	if
	:: v == ACQUIRE && holder == h -> /* the answer was lost: the same grant again */
		out = YES; out_tok = token;
#ifndef STALE_GRANT
		lease_anew()
#endif
#if STEPS > 0
	:: v == ACQUIRE && holder != 0 && holder != h -> out_known = OVER + WAIT_FOR
	:: v == ACQUIRE && holder == 0 && !released[h] && token < TOKENS && !MAY_FOLLOW(own) ->
		settling = true
#endif
	:: v == ACQUIRE && holder == 0 && !released[h] && token < TOKENS && MAY_FOLLOW(own) ->
		token++; holder = h; last = h; lease_anew();
		out = YES; out_tok = token;
		assert(token > highest); /* I2 */
		highest = token
	:: v == RENEW && MAY_RENEW(h, t) ->
		assert(last == h && token == t); /* I6: only the own lease is renewed */
		holder = h; out = YES; lease_anew()
#ifdef RENEW_BY_CLOCK
	:: v == RENEW && last == h && !MAY_RENEW(h, t) -> refused = true
#endif
	:: v == RELEASE && MAY_RELEASE(h, t) ->
		assert(last == h && token == t); /* I6: only the own lease is released, */
		assert(TREE_OF_LEASE_IS_DEAD);   /* I6: and only when its tree is dead */
		holder = 0; left = 0; last = 0; settling = false; settled = false; refused = false; out = YES;
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
	byte out, out_tok, out_known;
end:	do
	:: atomic { verb[i] != NONE ->
		handle(verb[i], id[i], tok[i], sure[i]);
		verb[i] = NONE; id[i] = 0; tok[i] = 0; sure[i] = false;
		if
		:: asked[i] -> answer[i] = out; answer_tok[i] = out_tok; answer_known[i] = out_known /* a lost answer is never read */
		:: else
		fi;
		out = 0; out_tok = 0; out_known = 0 }
	:: atomic { late_verb[i] != NONE ->
		handle(late_verb[i], late_id[i], late_tok[i], late_sure[i]); /* nobody waits for the answer */
		late_verb[i] = NONE; late_id[i] = 0; late_tok[i] = 0; late_sure[i] = false;
		out = 0; out_tok = 0; out_known = 0 }
	od
}

inline ask(i, v) {
	verb[i] = v; id[i] = ID(i); tok[i] = mine[i];
	sure[i] = (v == ACQUIRE && known[i] == OVER);
	asked[i] = true; sent[i] = 0
}

inline answered(i) {
	asked[i] = false; answer[i] = NONE; answer_tok[i] = 0; answer_known[i] = UNKNOWN; sent[i] = 0
}

/* learn: the first answer about a lease counts. */
inline learn(i) {
	if
	:: known[i] == UNKNOWN -> known[i] = answer_known[i]
	:: else
	fi
}

/* give_up: no longer wait for an answer. The request may still be on its way. */
inline give_up(i) {
	if
	:: verb[i] != NONE -> late_verb[i] = verb[i]; late_id[i] = id[i]; late_tok[i] = tok[i]; late_sure[i] = sure[i]
	:: else
	fi;
	verb[i] = NONE; id[i] = 0; tok[i] = 0; sure[i] = false;
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
	:: atomic { at[i] == ASKING && answer[i] == NO -> learn(i); answered(i) }
	:: atomic { at[i] == ASKING && answer[i] == YES ->
		mine[i] = answer_tok[i];
		known[i] = UNKNOWN;
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
	/* ordered to stop, lost, expired, or the command ended */
	:: atomic { at[i] == LEADING -> at[i] = STOPPING; age[i] = 0 }
	:: atomic { at[i] == STOPPING && MAY_END(i) -> at[i] = RELEASING }
	/* no candidate waits for the answer to a release; it may arrive in the next run */
	:: atomic { at[i] == RELEASING && !asked[i] -> ask(i, RELEASE); answered(i); at[i] = ENDED; mine[i] = 0 }
	:: atomic { at[i] == ENDED && !tree[i] && term[i] + 1 < RUNS -> give_up(i); term[i]++; at[i] = ASKING }
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
