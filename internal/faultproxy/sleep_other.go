//go:build !linux || portable

package faultproxy

import "time"

const slept = 0

func sleepExactly(d time.Duration) { time.Sleep(d) }
