//go:build linux

package main

import (
	"context"
	"errors"
)

func soak(context.Context, options, string) error { return errors.New("later") }
