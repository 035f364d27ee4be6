package network

import (
	"testing"
	"testing/synctest"
)

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Slots
		s.Admitted()
		if s.Scarce() {
			t.Error("scarce from the start")
		}
		first, cancel := s.UntilRefused(t.Context())
		defer cancel()
		second, cancel := s.UntilRefused(t.Context())
		defer cancel()
		s.Refused()
		synctest.Wait()
		if !s.Scarce() || first.Err() == nil || second.Err() == nil {
			t.Errorf("after a refusal: scarce %t, %v, %v", s.Scarce(), first.Err(), second.Err())
		}
		later, cancel := s.UntilRefused(t.Context())
		for range manyDials - 1 {
			s.Admitted()
		}
		synctest.Wait()
		if !s.Scarce() || later.Err() != nil {
			t.Errorf("soon after: scarce %t, %v", s.Scarce(), later.Err())
		}
		if s.Admitted(); s.Scarce() {
			t.Error("scarce for ever")
		}
		cancel()
		synctest.Wait() // no goroutine is left
	})
}
