-- hand over: ask the leader to stop and to release; it learns of it by its next renewal, and is called for that
-- the answer is status, with the request
if token and value == st.id and kind(st.id) == 'held' then
  st.req = str(token)
  redis.call('HSET', STATE, 'req', st.req)
  ping(CTL)
end
return status()
