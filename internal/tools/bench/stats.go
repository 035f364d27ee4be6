//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"
)

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

// at returns the value below which the given part of all values lies.
func at(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// summary returns times in milliseconds as text.
func summary(values []float64) string {
	return fmt.Sprintf("median %7.2f   p90 %7.2f   max %7.2f", at(values, 0.5), at(values, 0.9), slices.Max(values))
}
