-- pass: a candidate leaves that may have taken a wake-up; the next standby gets it
-- {1, now}
ping(WAKE)
return {1, now}
