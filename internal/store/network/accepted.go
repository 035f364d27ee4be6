package network

import (
	"sync"
	"sync/atomic"
)

// Accepted remembers what a server has accepted before: the login, and the calls by their
// names. What it then refuses it may accept again, since somebody is changing logins or
// rights, there or here. Its zero value is ready. Several goroutines may use it.
type Accepted struct {
	login atomic.Bool
	calls sync.Map
}

// Login says that the login was accepted.
func (a *Accepted) Login() { a.login.Store(true) }

// HasLogin reports whether the login was accepted before.
func (a *Accepted) HasLogin() bool { return a.login.Load() }

// Call says that a call was carried out.
func (a *Accepted) Call(name string) {
	if !a.Has(name) {
		a.calls.Store(name, true)
	}
}

// Has reports whether a call of that name was carried out before.
func (a *Accepted) Has(name string) bool {
	_, has := a.calls.Load(name)
	return has
}
