package cmd

import (
	"cmp"
	"errors"

	"github.com/leaderrun/leaderrun/internal/lease"
	"github.com/leaderrun/leaderrun/internal/settings"
)

// errNo is returned by a verb that worked and answers no: status 1.
var errNo = errors.New("no")

// yesOrNo returns err, or errNo if that is nil and the answer is no.
func yesOrNo(yes bool, err error) error {
	if err == nil && !yes {
		return errNo
	}
	return err
}

// verbError is an error of a verb, which it calls by its name, not by the operation of the store.
type verbError struct {
	told settings.Told
	verb string
	err  error
}

func (e *verbError) Error() string {
	if failure, ok := e.err.(*lease.StoreError); ok { //nolint:errorlint // not one within words of its own
		return e.verb + ": " + failure.Err.Error()
	}
	return e.err.Error()
}

func (e *verbError) Unwrap() error { return e.err }

// addressError is an error about a store's address. source says where it was given.
type addressError struct {
	source string
	err    error
}

func openError(c settings.Config, err error) error {
	var failure *lease.StoreError
	if errors.As(err, &failure) && !failure.Permanent { // the address is good, the store is away
		return err
	}
	return &addressError{cmp.Or(c.StoreSource, "the default store"), err}
}

func (e *addressError) Error() string { return e.source + ": " + e.err.Error() }
func (e *addressError) Unwrap() error { return e.err }
