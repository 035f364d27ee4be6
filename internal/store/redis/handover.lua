-- hand over: ask the leader to stop and to release; it is called, and learns of it by its next renewal
-- the answer is status, with the request
if token and value == st.holder and kind(st.holder) == 'held' then
  st.hand_over = str(token)
  redis.call('HSET', STATE, 'hand_over', st.hand_over)
  call_holder()
end
return status()
